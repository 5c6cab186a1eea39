"""Classic BPF programs for sockets: which packets are kept, and how much of each."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address

_SO_ATTACH_FILTER = 26
_LOAD_BYTE, _LOAD_HALF, _LOAD_WORD, _JUMP_EQUAL, _RETURN = 0x30, 0x28, 0x20, 0x15, 0x06

_ETHERTYPE_OFFSET, _ETHERTYPE_IPV4 = 12, 0x0800
_PROTOCOL_OFFSET = 14 + 9
_ADDRESS_OFFSET = 14 + 16
_PORT_OFFSET = 14 + 20 + 2
"""Destination port of TCP or UDP after an IPv4 header without options."""

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def keep_udp_port(port: int, keep_bytes: int, address: str = "") -> list[Instruction]:
    """Keep the first *keep_bytes* of Ethernet frames with IPv4 UDP to *port*, nothing of any other.

    Args:
        port: Destination port.
        keep_bytes: How much of each.
        address: Also the destination address; empty: any.
    """
    wanted = [
        (_LOAD_HALF, _ETHERTYPE_OFFSET, _ETHERTYPE_IPV4),
        (_LOAD_BYTE, _PROTOCOL_OFFSET, socket.IPPROTO_UDP),
        (_LOAD_HALF, _PORT_OFFSET, port),
    ]
    if address:
        wanted.append((_LOAD_WORD, _ADDRESS_OFFSET, int(IPv4Address(address))))
    program: list[Instruction] = []
    for number, (load, offset, value) in enumerate(wanted):
        others = len(wanted) - 1 - number
        # To the last instruction, over the other pairs and the one that keeps.
        program += [(load, 0, 0, offset), (_JUMP_EQUAL, 0, 2 * others + 1, value)]
    return [*program, (_RETURN, 0, 0, keep_bytes), (_RETURN, 0, 0, 0)]


def keep_all(keep_bytes: int) -> list[Instruction]:
    """Keep the first *keep_bytes* of every packet; 0 drops every packet."""
    return [(_RETURN, 0, 0, keep_bytes)]


def attach(sock: socket.socket, program: Sequence[Instruction]) -> None:
    """Make *sock* see only what *program* keeps."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    # struct sock_fprog: a length, padding, and a pointer that only has to live until the call returns.
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))
