"""What happens to a frame: pure functions from its headers to a decision. No clock, no sockets, no counters.

`decide` reads Ethernet and IPv4 headers in place and returns either the new Ethernet addresses or the reason why the
frame is not forwarded; `rewrite` writes a forwarded frame's headers in place. Neither copies the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from struct import Struct

from gateway.counters import Reason

ETHERNET_HEADER_BYTES = 14
IPV4_MIN_BYTES = 20
HEADERS_BYTES = ETHERNET_HEADER_BYTES + IPV4_MIN_BYTES

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPES_VLAN = frozenset({0x8100, 0x88A8, 0x9100})

_ETHERNET = Struct("!6s6xH")
# Ethernet destination, EtherType, version and header length, total length, time to live, IP destination.
_HEADERS = Struct("!6s6xHBxHxxxxBxxxxxxxI")
_TTL_CHECKSUM = Struct("!BxH")
_TTL_OFFSET = ETHERNET_HEADER_BYTES + 8

Buffer = bytearray | memoryview
"""A writable, mapped or in-memory, piece of memory that holds frames."""


@dataclass(frozen=True)
class ForwardingTable:
    """What a forwarder knows of its surroundings.

    Attributes:
        mac: Its own Ethernet address (6 bytes).
        own: Its own IPv4 addresses.
        neighbours: Ethernet address (6 bytes) for each IPv4 destination that can be reached.
        addresses: For each destination the 12 bytes that begin a forwarded frame (derived).
    """

    mac: bytes
    own: frozenset[int]
    neighbours: Mapping[int, bytes]
    addresses: Mapping[int, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        derived = {ip: mac + self.mac for ip, mac in self.neighbours.items() if ip not in self.own}
        object.__setattr__(self, "addresses", derived)

    @classmethod
    def build(cls, mac: bytes, own: Iterable[IPv4Address], neighbours: Mapping[IPv4Address, bytes]) -> ForwardingTable:
        """Make a table from addresses as Python has them."""
        return cls(
            mac,
            frozenset(int(ip) for ip in own),
            {int(ip): neighbour for ip, neighbour in neighbours.items()},
        )


def header_is_intact(buffer: Buffer, start: int, length: int) -> bool:
    """Whether the one's complement sum over an IPv4 header is right (RFC 1071).

    The sum of 16-bit words with end-around carry is the remainder modulo 65535 of the header read as one number; a
    header is never all zero (its version is 4), so a remainder of 0 can only mean a sum of all ones.
    """
    return int.from_bytes(buffer[start : start + length], "big") % 0xFFFF == 0


def decide(buffer: Buffer, start: int, end: int, table: ForwardingTable) -> bytes | Reason:
    """Say what is to become of a frame.

    Args:
        buffer: Where the frame lies.
        start: Offset of its first byte.
        end: Offset behind its last byte.
        table: The forwarder's addresses and neighbours.

    Returns:
        The Ethernet destination and source that it is forwarded with (12 bytes), or the reason why it is not.
    """
    if end - start < HEADERS_BYTES:
        return _decide_short(buffer, start, end, table)
    destination, ethertype, version_length, total_bytes, ttl, ip = _HEADERS.unpack_from(buffer, start)
    if destination != table.mac or ethertype != ETHERTYPE_IPV4:
        return _why_not_ours(destination, ethertype, table)
    header_bytes = (version_length & 15) * 4
    if version_length >> 4 != 4 or header_bytes < IPV4_MIN_BYTES or total_bytes < header_bytes:
        return Reason.MALFORMED
    if start + ETHERNET_HEADER_BYTES + total_bytes > end:
        return Reason.TRUNCATED
    if not header_is_intact(buffer, start + ETHERNET_HEADER_BYTES, header_bytes):
        return Reason.BAD_CHECKSUM
    addresses = table.addresses.get(ip)
    if addresses is None:
        return Reason.OWN_ADDRESS if ip in table.own else Reason.NO_NEIGHBOUR
    if ttl <= 1:
        return Reason.TTL_EXPIRED
    return addresses


def _why_not_ours(destination: bytes, ethertype: int, table: ForwardingTable) -> Reason:
    if destination[0] & 1:
        return Reason.GROUP
    if destination != table.mac:
        return Reason.NOT_FOR_US
    if ethertype in ETHERTYPES_VLAN:
        return Reason.VLAN
    return Reason.IPV6 if ethertype == ETHERTYPE_IPV6 else Reason.NOT_IP


def _decide_short(buffer: Buffer, start: int, end: int, table: ForwardingTable) -> Reason:
    if end - start < ETHERNET_HEADER_BYTES:
        return Reason.TRUNCATED
    destination, ethertype = _ETHERNET.unpack_from(buffer, start)
    if destination == table.mac and ethertype == ETHERTYPE_IPV4:
        return Reason.TRUNCATED
    return _why_not_ours(destination, ethertype, table)


def rewrite(buffer: Buffer, start: int, addresses: bytes) -> None:
    """Make a frame ready for its next hop, in place: new Ethernet addresses, time to live less one, new checksum.

    The checksum is updated incrementally by RFC 1624, equation 3: the word with the time to live falls by 0x0100, so
    the checksum rises by 0x0100 with end-around carry, and all ones (minus zero) becomes zero.

    Args:
        buffer: Where the frame lies.
        start: Offset of its first byte.
        addresses: What `decide` returned.
    """
    buffer[start : start + 12] = addresses
    at = start + _TTL_OFFSET
    ttl, checksum = _TTL_CHECKSUM.unpack_from(buffer, at)
    checksum += 0x0100
    if checksum >= 0xFFFF:
        checksum -= 0xFFFF
    buffer[at] = ttl - 1
    buffer[at + 2] = checksum >> 8
    buffer[at + 3] = checksum & 0xFF
