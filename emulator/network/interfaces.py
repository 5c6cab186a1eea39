"""Interfaces, addresses and neighbours as netlink requests, and interfaces as the kernel describes them. Pure."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from emulator.network.netlink import (
    CREATE,
    REPLACE,
    RTM_DELLINK,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    Request,
    attribute,
    picked,
    text,
    u32,
)

_IFINFO = struct.Struct("=BxHiII")
_IFADDR = struct.Struct("=BBBBI")
_NDMSG = struct.Struct("=BxxxiHBB")
_UP = 0x1
_PERMANENT = 0x80
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU = 1, 3, 4
_IFLA_OPERSTATE, _OPER_UP = 16, 6
_IFLA_LINKINFO, _IFLA_STATS64, _IFLA_NET_NS_FD, _IFLA_EXT_MASK = 18, 23, 28, 29
_IFLA_GSO_MAX_SEGS, _IFLA_GSO_MAX_SIZE = 40, 41
_RTEXT_FILTER_SKIP_STATS = 0x8
_SHOWN = frozenset((_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_OPERSTATE, _IFLA_GSO_MAX_SEGS))
_COUNTED = frozenset((_IFLA_IFNAME, _IFLA_STATS64))


@dataclass(frozen=True)
class End:
    """One end of a veth pair to be made.

    Attributes:
        name: Interface name.
        namespace_fd: Where it goes.
        mac: Ethernet address.
        mtu_bytes: Largest IP packet.
        super_packets: Whether segments may leave as one large packet; otherwise the stack is told to make single ones.
    """

    name: str
    namespace_fd: int
    mac: str
    mtu_bytes: int
    super_packets: bool

    def attributes(self) -> bytes:
        """The interface's attributes."""
        parts = [
            text(_IFLA_IFNAME, self.name),
            attribute(_IFLA_ADDRESS, mac_bytes(self.mac)),
            u32(_IFLA_MTU, self.mtu_bytes),
            u32(_IFLA_NET_NS_FD, self.namespace_fd),
        ]
        if not self.super_packets:
            # TCP makes super-packets even where the interface has no GSO, and queues would see them as one.
            parts.append(u32(_IFLA_GSO_MAX_SEGS, 1))
        return b"".join(parts)


def mac_bytes(mac: str) -> bytes:
    """Six bytes of an Ethernet address."""
    return bytes.fromhex(mac.replace(":", ""))


def create_pair(link: str, a: End, b: End, *, a_up: bool = False) -> Request:
    """Make a veth pair, both ends in their places. The first may be up at once, the second once both exist."""
    peer = attribute(1, _IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + b.attributes())
    info = attribute(_IFLA_LINKINFO, text(1, "veth") + attribute(2, peer))
    flags = _UP if a_up else 0
    header = _IFINFO.pack(socket.AF_UNSPEC, 0, 0, flags, flags)
    return Request(RTM_NEWLINK, header + a.attributes() + info, f"link {link}", CREATE)


def set_up(index: int, node: str) -> Request:
    """Bring an interface up."""
    return Request(RTM_NEWLINK, _IFINFO.pack(0, 0, index, _UP, _UP), f"{node}: bring interface {index} up")


def set_up_named(name: str, node: str) -> Request:
    """Bring an interface up whose number is not known."""
    body = _IFINFO.pack(0, 0, 0, _UP, _UP) + text(_IFLA_IFNAME, name)
    return Request(RTM_NEWLINK, body, f"{node}: bring interface {name} up")


def set_down(index: int, node: str) -> Request:
    """Take an interface down, and with it the carrier of the other end of its pair."""
    return Request(RTM_NEWLINK, _IFINFO.pack(0, 0, index, 0, _UP), f"{node}: take interface {index} down")


def set_mac(index: int, mac: str, node: str) -> Request:
    """Change an interface's Ethernet address."""
    body = _IFINFO.pack(0, 0, index, 0, 0) + attribute(_IFLA_ADDRESS, mac_bytes(mac))
    return Request(RTM_NEWLINK, body, f"{node}: set the address {mac}")


def delete(index: int, name: str) -> Request:
    """Remove an interface, and with it the other end of its pair."""
    return Request(RTM_DELLINK, _IFINFO.pack(0, 0, index, 0, 0), f"interface {name}: remove")


def add_address(index: int, address: IPv4Interface, node: str) -> Request:
    """Give an interface an address; the kernel adds the route to its subnet."""
    packed = address.ip.packed
    body = _IFADDR.pack(socket.AF_INET, address.network.prefixlen, 0, 0, index)
    body += attribute(2, packed) + attribute(1, packed) + attribute(4, address.network.broadcast_address.packed)
    return Request(RTM_NEWADDR, body, f"host {node}: address {address}", CREATE)


def neighbour_tail(address: IPv4Address, mac: str) -> bytes:
    """The part of a permanent ARP entry that is the same in every host."""
    return attribute(1, address.packed) + attribute(2, mac_bytes(mac))


def add_neighbours(index: int, tails: Sequence[bytes], node: str) -> list[Request]:
    """Enter permanent ARP entries made by `neighbour_tail`."""
    header = _NDMSG.pack(socket.AF_INET, index, _PERMANENT, 0, 0)
    what = f"host {node}: static ARP entries"
    # Without NLM_F_EXCL: an entry that is there already is replaced.
    return [Request(RTM_NEWNEIGH, header + tail, what, REPLACE) for tail in tails]


def one(index: int) -> bytes:
    """Body of RTM_GETLINK that asks for one interface without its counters."""
    return _IFINFO.pack(0, 0, index, 0, 0) + u32(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS)


DUMP_ALL = _IFINFO.pack(0, 0, 0, 0, 0) + u32(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS)
"""Body of RTM_GETLINK that asks for every interface without its counters."""

DUMP_COUNTERS = _IFINFO.pack(0, 0, 0, 0, 0)
"""Body of RTM_GETLINK that asks for every interface with its counters."""


@dataclass(frozen=True)
class Interface:
    """An interface as the kernel has it.

    Attributes:
        index: The kernel's number.
        name: Its name.
        mac: Ethernet address.
        mtu_bytes: Largest IP packet.
        up: Whether it is up.
        running: Whether the kernel has noticed that the other end is up too: before, it drops what is sent.
        gso_max_segments: Most segments that the stack sends as one packet.
    """

    index: int
    name: str
    mac: str
    mtu_bytes: int
    up: bool
    running: bool
    gso_max_segments: int


@dataclass(frozen=True)
class InterfaceCounters:
    """What went through an interface since it was made."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int


def decode(body: bytes) -> Interface:
    """Read an answer to RTM_GETLINK."""
    _family, _kind, index, flags, _change = _IFINFO.unpack_from(body)
    found = picked(body, _SHOWN, _IFINFO.size)
    return Interface(
        index,
        found[_IFLA_IFNAME].rstrip(b"\0").decode(),
        found.get(_IFLA_ADDRESS, b"").hex(":"),
        struct.unpack("=I", found[_IFLA_MTU])[0],
        bool(flags & _UP),
        found.get(_IFLA_OPERSTATE, b"")[:1] == bytes([_OPER_UP]),
        struct.unpack("=I", found[_IFLA_GSO_MAX_SEGS])[0] if _IFLA_GSO_MAX_SEGS in found else 0,
    )


def decode_counters(body: bytes) -> tuple[str, InterfaceCounters]:
    """Read name and counters from an answer to RTM_GETLINK."""
    found = picked(body, _COUNTED, _IFINFO.size)
    # rtnl_link_stats64: rx_packets tx_packets rx_bytes tx_bytes rx_errors tx_errors rx_dropped tx_dropped …
    rx_packets, tx_packets, rx_bytes, tx_bytes, _, _, rx_dropped, tx_dropped = struct.unpack_from(
        "=8Q", found[_IFLA_STATS64]
    )
    name = found[_IFLA_IFNAME].rstrip(b"\0").decode()
    return name, InterfaceCounters(rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped)
