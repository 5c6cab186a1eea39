"""Tags and tunnels: frames grow into the room before them and shrink out of it; their payload is not moved."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

import numpy as np
from numpy.typing import NDArray

from gateway.dataplane.checksum import MODULUS, PLENTY
from gateway.dataplane.headers import (
    ETHERNET_BYTES,
    ETHERTYPE_IPV4,
    ETHERTYPE_VLAN,
    IPV4_BYTES,
    TAG_BYTES,
    UDP,
    UDP_BYTES,
    VXLAN_BYTES,
    Headers,
    Vxlan,
)
from gateway.dataplane.memory import Bytes, Ints, Words, move, read, records, word, write
from gateway.dataplane.route import Tunnel

WRAP_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + VXLAN_BYTES
"""What VXLAN puts before a frame."""

_ADDRESSES_BYTES = 12
_VLAN_BITS = 0x0FFF
_TTL, _DONT_FRAGMENT, _VNI_IS_VALID = 64, 0x4000, 0x0800_0000
_FIRST_PORT, _PORT_BITS = 49152, 0x3FFF
_MULTIPLIER, _48 = word(0x9E3779B97F4A7C15), word(48)


def push_tag(memory: Bytes, offsets: Ints, lengths: Ints, vlan: Ints) -> tuple[Ints, Ints]:
    """Put a tag of IEEE 802.1Q before each frame's type; there must be 4 bytes of room before each frame.

    Returns:
        Where the frames lie now, and their lengths.
    """
    start = offsets - TAG_BYTES
    move(memory, offsets, start, _ADDRESSES_BYTES)
    write(memory, start + _ADDRESSES_BYTES, vlan | (ETHERTYPE_VLAN << 16), 4)
    return start, lengths + TAG_BYTES


def pop_tags(memory: Bytes, offsets: Ints, lengths: Ints, tags: Ints) -> tuple[Ints, Ints]:
    """Take all of each frame's *tags* out; see `push_tag`."""
    start = offsets + tags * TAG_BYTES
    move(memory, offsets, start, _ADDRESSES_BYTES)
    return start, lengths - tags * TAG_BYTES


def retag(memory: Bytes, offsets: Ints, lengths: Ints, tags: Ints, vlan: Ints) -> tuple[Ints, Ints]:
    """Give frames the tags that they are to have: one with this identifier, or none where it is 0.

    A single tag that stays keeps its place and its priority.

    Args:
        memory: Where the frames lie.
        offsets: Where exactly.
        lengths: Their lengths.
        tags: Tags that they have.
        vlan: Identifiers that they are to have.

    Returns:
        Where the frames lie now, and their lengths.
    """
    offsets, lengths = offsets.copy(), lengths.copy()
    stays = (tags == 1) & (vlan != 0)
    rows = np.flatnonzero(stays)
    at = offsets[rows] + ETHERNET_BYTES
    write(memory, at, (read(memory, at, 2) & ~_VLAN_BITS) | vlan[rows], 2)
    rows = np.flatnonzero((tags != 0) & ~stays)
    offsets[rows], lengths[rows] = pop_tags(memory, offsets[rows], lengths[rows], tags[rows])
    rows = np.flatnonzero((vlan != 0) & ~stays)
    offsets[rows], lengths[rows] = push_tag(memory, offsets[rows], lengths[rows], vlan[rows])
    return offsets, lengths


class Wraps:
    """What goes before the frames of some tunnels, ready to be copied."""

    def __init__(self, tunnels: Sequence[Tunnel | None]) -> None:
        self._heads = np.frombuffer(b"".join(_head(tunnel) for tunnel in tunnels), f"V{WRAP_BYTES}")
        # The sum of each header while its length is 0.
        self._sums = np.array([_header_sum(tunnel) for tunnel in tunnels], np.uint64)

    def head(self, which: Ints) -> NDArray[np.void]:
        """The bytes for each frame."""
        return self._heads[which]

    def checksum(self, which: Ints, total: Words) -> Words:
        """The checksum of each outer header of *total* bytes."""
        checksum: Words = (PLENTY - self._sums[which] - total) % MODULUS
        return checksum


def wrap(memory: Bytes, offsets: Ints, lengths: Ints, wraps: Wraps, which: Ints, entropy: Words) -> tuple[Ints, Ints]:
    """Put frames into VXLAN (RFC 7348); there must be `WRAP_BYTES` of room before each.

    The outer UDP checksum is zero, as the standard prefers it; the outer source port is a hash of the flow, so that
    networks that spread by ports spread tunnelled flows too.

    Args:
        memory: Where the frames lie.
        offsets: Where exactly.
        lengths: Their lengths.
        wraps: The tunnels.
        which: The number of each frame's tunnel in it.
        entropy: A number for each frame that is the same for all frames of a flow.

    Returns:
        Where the frames lie now, and their lengths.
    """
    start, total = offsets - WRAP_BYTES, lengths + WRAP_BYTES
    if not offsets.size:
        return start, total
    records(memory, WRAP_BYTES)[start] = wraps.head(which)
    packet = total - ETHERNET_BYTES
    write(memory, start + ETHERNET_BYTES + 2, packet, 2)
    write(memory, start + ETHERNET_BYTES + 10, wraps.checksum(which, packet.view(np.uint64)), 2)
    udp = start + ETHERNET_BYTES + IPV4_BYTES
    write(memory, udp, _FIRST_PORT + ((entropy * _MULTIPLIER) >> _48).astype(np.int64) % (_PORT_BITS + 1), 2)
    write(memory, udp + 4, packet - IPV4_BYTES, 2)
    return start, total


def unwrap(headers: Headers, local: Ints) -> Headers:
    """Take the frames out of the VXLAN packets that are for this gateway.

    Args:
        headers: The batch.
        local: Sorted IPv4 addresses at which this gateway's tunnels end.

    Returns:
        The batch, with the frames inside instead of those around them; nothing is written or moved.
    """
    vxlan = headers.vxlan
    if vxlan is None or not vxlan.rows.size:
        return headers
    ours = (headers.family[vxlan.rows] == 4) & np.isin(headers.target[vxlan.rows], local)
    ours &= headers.reason[vxlan.rows] == 0
    if not np.count_nonzero(ours):
        return headers
    rows, inner = vxlan.rows[ours], vxlan.inner.take(np.flatnonzero(ours))
    inner.vni = vxlan.vni[ours]
    merged = headers.take(np.arange(headers.size))
    merged.put(rows, inner)
    others = np.flatnonzero(~ours)
    merged.vxlan = Vxlan(vxlan.rows[others], vxlan.vni[others], vxlan.inner.take(others)) if others.size else None
    merged.bth, merged.pdu = headers.bth, headers.pdu
    return merged


def _head(tunnel: Tunnel | None) -> bytes:
    if tunnel is None:
        return bytes(WRAP_BYTES)
    ethernet = tunnel.target_mac + tunnel.source_mac + pack("!H", ETHERTYPE_IPV4)
    return (
        ethernet
        + _ip_header(tunnel)
        + pack("!HHHH", 0, tunnel.port, 0, 0)
        + pack("!II", _VNI_IS_VALID, tunnel.vni << 8)
    )


def _ip_header(tunnel: Tunnel) -> bytes:
    fields = pack("!BBHHHBBH", 0x45, 0, 0, 0, _DONT_FRAGMENT, _TTL, UDP, 0)
    return fields + tunnel.local.packed + tunnel.remote.packed


def _header_sum(tunnel: Tunnel | None) -> int:
    return int.from_bytes(_ip_header(tunnel), "big") % 0xFFFF if tunnel else 0
