"""What some well-known ports carry: VXLAN with the frame inside, RoCEv2's transport header, NVMe/TCP's PDUs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gateway.dataplane.headers import (
    BTH_BYTES,
    ICRC_BYTES,
    NVME_PORT,
    PDU_BYTES,
    ROCE_PORT,
    TCP,
    UDP,
    VXLAN_BYTES,
    VXLAN_PORT,
    Bth,
    Headers,
    Pdu,
    Vxlan,
)
from gateway.dataplane.memory import Bytes, Ints, read
from gateway.dataplane.reasons import Reason

_VNI_IS_VALID = 0x08
_PDU_HEADER_BYTES = np.zeros(256, np.int64)
_PDU_HEADER_BYTES[[0, 1, 2, 3, 4, 5, 6, 7, 9]] = [128, 128, 24, 24, 72, 24, 24, 24, 24]
"""Length of each PDU type's header (NVMe over TCP transport specification); 0: there is no such type."""

_SPECIAL = np.zeros(65536, np.uint8)
_SPECIAL[[VXLAN_PORT, ROCE_PORT, NVME_PORT]] = 1


class Parse(Protocol):
    """How inner frames are parsed."""

    def __call__(self, memory: Bytes, offsets: Ints, lengths: Ints, *, heads: Ints | None = None) -> Headers:
        """See `gateway.dataplane.parse.parse`."""
        ...


def read_payloads(memory: Bytes, headers: Headers, parse: Parse) -> None:
    """Fill in `Headers.vxlan`, `Headers.bth` and `Headers.pdu`."""
    ports = headers.target_port
    special = _SPECIAL[ports] | _SPECIAL[headers.source_port]
    if not np.count_nonzero(special):
        return
    rows = np.flatnonzero((special != 0) & (headers.reason == 0))
    protocol, port = headers.protocol[rows], ports[rows]
    udp = protocol == UDP
    some = rows[udp & (port == VXLAN_PORT)]
    if some.size:
        headers.vxlan = _read_vxlan(memory, headers, some, parse)
    some = rows[udp & (port == ROCE_PORT)]
    if some.size:
        headers.bth = _read_bth(memory, headers, some)
    some = rows[(protocol == TCP) & ((port == NVME_PORT) | (headers.source_port[rows] == NVME_PORT))]
    if some.size:
        headers.pdu = _read_pdu(memory, headers, some)


def _datagram_ends(memory: Bytes, headers: Headers, rows: Ints) -> Ints:
    transport = headers.transport[rows]
    return transport + read(memory, transport + 4, 2)


def _read_vxlan(memory: Bytes, headers: Headers, rows: Ints, parse: Parse) -> Vxlan:
    at, ends = headers.payload[rows], _datagram_ends(memory, headers, rows)
    readable = np.minimum(ends, headers.head_ends[rows])
    whole = readable - at >= VXLAN_BYTES
    headers.reason[rows[~whole]] = Reason.TRUNCATED
    rows, at, ends, readable = rows[whole], at[whole], ends[whole], readable[whole]
    valid = read(memory, at, 1) & _VNI_IS_VALID != 0
    headers.reason[rows[~valid]] = Reason.MALFORMED
    rows, at, ends, readable = rows[valid], at[valid], ends[valid], readable[valid]
    inner = at + VXLAN_BYTES
    return Vxlan(rows, read(memory, at + 4, 4) >> 8, parse(memory, inner, ends - inner, heads=readable - inner))


def _read_bth(memory: Bytes, headers: Headers, rows: Ints) -> Bth:
    at = headers.payload[rows]
    # The check behind the payload may be in a later piece, the header must not.
    whole = _datagram_ends(memory, headers, rows) - at >= BTH_BYTES + ICRC_BYTES
    whole &= headers.head_ends[rows] - at >= BTH_BYTES
    headers.reason[rows[~whole]] = Reason.TRUNCATED
    rows, at = rows[whole], at[whole]
    first, last = read(memory, at, 4), read(memory, at + 8, 4)
    return Bth(
        rows,
        opcode=first >> 24,
        partition=first & 0xFFFF,
        queue_pair=read(memory, at + 4, 4) & 0xFF_FFFF,
        sequence=last & 0xFF_FFFF,
        acknowledge=last >> 31 != 0,
    )


def _read_pdu(memory: Bytes, headers: Headers, rows: Ints) -> Pdu:
    at = headers.payload[rows]
    whole = np.minimum(headers.ends, headers.head_ends)[rows] - at >= PDU_BYTES
    rows, at = rows[whole], at[whole]
    first = read(memory, at, 4)
    kind, header_bytes, data_offset = first >> 24, (first >> 8) & 0xFF, first & 0xFF
    # The length is little-endian, as all of NVMe is.
    length = read(memory, at + 4, 4).astype(np.uint32).byteswap().astype(np.int64)
    known = (header_bytes == _PDU_HEADER_BYTES[kind]) & (header_bytes > 0)
    known &= (length >= header_bytes) & (data_offset <= length)
    return Pdu(
        rows[known],
        kind=kind[known],
        flags=(first >> 16)[known] & 0xFF,
        header_bytes=header_bytes[known],
        data_offset=data_offset[known],
        length_bytes=length[known],
    )
