"""The headers of a batch of frames as arrays: one entry a frame in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.dataplane.memory import Flags, Ints, Words

ETHERNET_BYTES = 14
TAG_BYTES = 4
IPV4_BYTES = 20
IPV6_BYTES = 40
TCP_BYTES = 20
UDP_BYTES = 8
VXLAN_BYTES = 8
BTH_BYTES = 12
ICRC_BYTES = 4
PDU_BYTES = 8

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_VLAN = 0x8100
ETHERTYPES_VLAN = (0x8100, 0x88A8, 0x9100)

TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
VXLAN_PORT, ROCE_PORT, NVME_PORT = 4789, 4791, 4420

# Rows of `Headers.words` (big-endian 64-bit pieces of the window around an untagged frame with IPv4 of 20 bytes).
W_TARGET, W_SOURCE_TYPE, W_IP, W_TTL_SOURCE, W_TARGET_PORTS, W_LAYER4, W_TCP, W_PAYLOAD = range(8)


@dataclass(slots=True)
class Vxlan:
    """The frames of a batch that carry VXLAN.

    Attributes:
        rows: Which frames of the batch.
        vni: Network identifiers.
        inner: The headers of the frames inside.
    """

    rows: Ints
    vni: Ints
    inner: Headers

    def among(self, rows: Ints) -> Vxlan | None:
        """The same for a batch that consists of these rows (in order) of this one; None: no frame has any."""
        mine = np.flatnonzero(np.isin(self.rows, rows))
        if not mine.size:
            return None
        return Vxlan(np.searchsorted(rows, self.rows[mine]), self.vni[mine], self.inner.take(mine))


@dataclass(slots=True)
class Bth:
    """The frames of a batch that carry RoCEv2: InfiniBand's base transport header.

    Attributes:
        rows: Which frames of the batch.
        opcode: Transport service and operation.
        partition: Partition key.
        queue_pair: Destination queue pair (24 bits).
        sequence: Packet sequence number (24 bits).
        acknowledge: The sender asks for an acknowledgement.
    """

    rows: Ints
    opcode: Ints
    partition: Ints
    queue_pair: Ints
    sequence: Ints
    acknowledge: Flags


@dataclass(slots=True)
class Pdu:
    """The frames of a batch whose TCP payload begins as a PDU of NVMe/TCP does.

    TCP knows no records: a segment in the middle of a PDU has none, and data may look like a header by chance.

    Attributes:
        rows: Which frames of the batch.
        kind: PDU type.
        flags: PDU flags.
        header_bytes: Length of the PDU's header.
        data_offset: Where its data begin, 0: nowhere.
        length_bytes: Length of the whole PDU.
    """

    rows: Ints
    kind: Ints
    flags: Ints
    header_bytes: Ints
    data_offset: Ints
    length_bytes: Ints


@dataclass(slots=True)
class Headers:
    """See the module. Fields behind the point where parsing of a frame ended are zero.

    Attributes:
        offsets, lengths: Where the frames lie in their memory.
        head_ends: Positions behind the last byte of each frame, or of its first piece if it lies in several.
        reason: `Reason` of each frame; `FORWARDED`: nothing is wrong with it so far.
        words: Eight rows of 64-bit numbers: the headers as they would lie in an untagged frame whose IP header is IPv4
            without options. `flows` and `rewrite` compute with them, for they hold several fields at a time.
        plain: The words are the frame's own bytes: IPv4 without options and whole, at most one tag, TCP or UDP.
        target_mac: Ethernet destination.
        tags: VLAN tags, 0 to 2.
        vlan: Identifier in the outer tag, 0: untagged or priority tag.
        inner_vlan: Identifier in the inner of two tags.
        family: 4, 6, or 0 for no IP.
        network, transport, payload: Positions in the memory (not in the frame) of IP's header, of what follows IP, and
            of what follows TCP or UDP.
        ends: Positions behind IP's last byte: what lies between it and the frame's end is Ethernet's padding.
        protocol: Transport protocol.
        ttl: Time to live or hop limit.
        source, target: IPv4 addresses, or the lower halves of IPv6 addresses.
        source_high, target_high: Upper halves of IPv6 addresses, 0 with IPv4.
        source_port, target_port: Of TCP and UDP; 0 with others.
        vni: VXLAN network that the frame was taken out of, -1: none (see `encapsulate.unwrap`).
        vxlan, bth, pdu: What is known of special payloads; None: no frame has any.
    """

    offsets: Ints
    lengths: Ints
    head_ends: Ints
    reason: NDArray[np.uint8]
    words: Words
    plain: Flags
    target_mac: Words
    tags: Ints
    vlan: Ints
    inner_vlan: Ints
    family: Ints
    network: Ints
    transport: Ints
    payload: Ints
    ends: Ints
    protocol: Ints
    ttl: Ints
    source: Words
    target: Words
    source_high: Words
    target_high: Words
    source_port: Ints
    target_port: Ints
    vni: Ints
    vxlan: Vxlan | None = None
    bth: Bth | None = None
    pdu: Pdu | None = None

    @property
    def size(self) -> int:
        """Frames in the batch."""
        return int(self.offsets.size)

    @property
    def source_mac(self) -> Words:
        """Ethernet sources."""
        macs: Words = self.words[W_SOURCE_TYPE] >> np.uint64(16)
        return macs

    @property
    def ethertype(self) -> Ints:
        """EtherType of what follows the tags."""
        types: Ints = (self.words[W_SOURCE_TYPE] & np.uint64(0xFFFF)).view(np.int64)
        return types

    def take(self, rows: Ints) -> Headers:
        """The headers of some of the frames, without those of special payloads."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Headers(words=self.words[:, rows], **columns)

    def put(self, rows: Ints, other: Headers) -> None:
        """Replace the headers of some of the frames by those of *other*; columns must be writable."""
        self.words[:, rows] = other.words
        for name in _COLUMNS:
            getattr(self, name)[rows] = getattr(other, name)


_COLUMNS = tuple(name for name in Headers.__dataclass_fields__ if name not in ("words", "vxlan", "bth", "pdu"))
