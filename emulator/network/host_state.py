"""What a host's kernel forgets when an interface goes down, as requests that put it back."""

from __future__ import annotations

import socket
import struct
from collections.abc import Container, Iterator
from dataclasses import dataclass

from emulator.network.netlink import (
    MAIN_TABLE,
    NEXT_HOP,
    ONLINK,
    REPLACE,
    ROUTE,
    RTA_MULTIPATH,
    RTA_OIF,
    RTM_GETROUTE,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    NetlinkSocket,
    Request,
    attribute,
    attribute_list,
    attributes,
)

_RTM_GETNEIGH = 30
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_BY_KERNEL = 2
_PERMANENT = 0x80


@dataclass(frozen=True)
class NextHop:
    """One of several next hops of a route: the interface's number, and the message's part about it."""

    index: int
    part: bytes


@dataclass(frozen=True)
class Forgotten:
    """Something that the kernel forgets.

    Attributes:
        request: Puts it back; of a route with several next hops all but these.
        hops: The next hops, if there are several.
    """

    request: Request
    hops: tuple[NextHop, ...] = ()

    def again(self, down: Container[int]) -> Request:
        """The request that puts it back while some other interfaces are still down.

        Args:
            down: Their numbers.
        """
        if not self.hops:
            return self.request
        parts = b"".join(hop.part for hop in self.hops if hop.index not in down)
        body = self.request.body + attribute(RTA_MULTIPATH, parts)
        return Request(RTM_NEWROUTE, body, self.request.what, self.request.flags)


def forgotten(kernel: NetlinkSocket, index: int, host: str) -> list[Forgotten]:
    """Routes and permanent neighbours of an interface; what the kernel makes itself when it is up again is left out.

    Args:
        kernel: A socket in the host's namespace.
        index: The interface's number.
        host: Name of the host, for messages.
    """
    found = []
    for body in kernel.dump(_RTM_GETNEIGH, _NEIGHBOUR.pack(socket.AF_INET, 0, 0, 0, 0), f"{host}: neighbours"):
        _family, at, state, _flags, _kind = _NEIGHBOUR.unpack_from(body)
        if at == index and state & _PERMANENT:
            # Address and Ethernet address; counters and times of its use are the kernel's.
            parts = attributes(body, _NEIGHBOUR.size)
            tail = b"".join(attribute(one, parts[one]) for one in (1, 2))
            header = _NEIGHBOUR.pack(socket.AF_INET, index, _PERMANENT, 0, 0)
            found.append(Forgotten(Request(RTM_NEWNEIGH, header + tail, f"host {host}: static ARP entry", REPLACE)))
    for body in kernel.dump(RTM_GETROUTE, ROUTE.pack(socket.AF_INET, *[0] * 8), f"{host}: routes"):
        table, protocol = body[4], body[5]
        if table != MAIN_TABLE or protocol == _BY_KERNEL:
            continue
        parts = attributes(body, ROUTE.size)
        hops = tuple(_next_hops(parts.get(RTA_MULTIPATH, b"")))
        what = f"host {host}: route"
        if parts.get(RTA_OIF) == struct.pack("=I", index):
            found.append(Forgotten(Request(RTM_NEWROUTE, body, what, REPLACE)))
        elif index in [hop.index for hop in hops]:
            rest = b"".join(
                attribute(kind, value) for kind, value in attribute_list(body, ROUTE.size) if kind != RTA_MULTIPATH
            )
            found.append(Forgotten(Request(RTM_NEWROUTE, body[: ROUTE.size] + rest, what, REPLACE), hops))
    return found


def _next_hops(data: bytes) -> Iterator[NextHop]:
    offset = 0
    while offset + NEXT_HOP.size <= len(data):
        length, flags, weight, index = NEXT_HOP.unpack_from(data, offset)
        if length < NEXT_HOP.size:
            return
        # That it was dead or without carrier is the kernel's to say.
        tail = data[offset + NEXT_HOP.size : offset + length]
        yield NextHop(index, NEXT_HOP.pack(length, flags & ONLINK, weight, index) + tail)
        offset += length + (-length % 4)
