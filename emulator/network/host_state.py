"""What a host's kernel forgets when an interface goes down, as requests that put it back."""

from __future__ import annotations

import socket
import struct

from emulator.network.netlink import RTM_NEWNEIGH, NetlinkSocket, Request, attribute, attributes

_RTM_NEWROUTE, _RTM_GETROUTE, _RTM_GETNEIGH = 24, 26, 30
_ROUTE = struct.Struct("=BBBBBBBBI")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_RTA_OIF = 4
_BY_KERNEL = 2
_MAIN_TABLE = 254
_PERMANENT = 0x80
_REPLACE = 0x400 | 0x100


def forgotten(kernel: NetlinkSocket, index: int, host: str) -> list[Request]:
    """Routes and permanent neighbours of an interface; what the kernel makes itself when it is up again is left out.

    Args:
        kernel: A socket in the host's namespace.
        index: The interface's number.
        host: Name of the host, for messages.
    """
    requests = []
    for body in kernel.dump(_RTM_GETNEIGH, _NEIGHBOUR.pack(socket.AF_INET, 0, 0, 0, 0), f"{host}: neighbours"):
        _family, at, state, _flags, _kind = _NEIGHBOUR.unpack_from(body)
        if at == index and state & _PERMANENT:
            # Address and Ethernet address; counters and times of its use are the kernel's.
            found = attributes(body, _NEIGHBOUR.size)
            tail = b"".join(attribute(one, found[one]) for one in (1, 2))
            header = _NEIGHBOUR.pack(socket.AF_INET, index, _PERMANENT, 0, 0)
            requests.append(Request(RTM_NEWNEIGH, header + tail, f"host {host}: static ARP entry", _REPLACE))
    for body in kernel.dump(_RTM_GETROUTE, _ROUTE.pack(socket.AF_INET, *[0] * 8), f"{host}: routes"):
        table, protocol = body[4], body[5]
        out = attributes(body, _ROUTE.size).get(_RTA_OIF)
        if table == _MAIN_TABLE and protocol != _BY_KERNEL and out == struct.pack("=I", index):
            requests.append(Request(_RTM_NEWROUTE, body, f"host {host}: route", _REPLACE))
    return requests
