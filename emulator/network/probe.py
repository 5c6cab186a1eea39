"""Finds out whether hosts reach each other, by ICMP echoes from this process: no ping to start in each host."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack

from emulator.network.host import EmulatedHost

_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_ICMP = struct.Struct("!BBHHH")
_IPV4_HEADER_BYTES = 20


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of data of even length."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo_request(identifier: int, sequence: int) -> bytes:
    """An ICMP echo request without payload."""
    blank = _ICMP.pack(_ECHO_REQUEST, 0, 0, identifier, sequence)
    return _ICMP.pack(_ECHO_REQUEST, 0, checksum(blank), identifier, sequence)


def is_reply(packet: bytes, identifier: int, sequence: int) -> bool:
    """Whether a packet that a raw socket received answers an echo request."""
    if len(packet) < _IPV4_HEADER_BYTES + _ICMP.size:
        return False
    kind, _code, _sum, got_identifier, got_sequence = _ICMP.unpack_from(packet, (packet[0] & 0xF) * 4)
    return (kind, got_identifier, got_sequence) == (_ECHO_REPLY, identifier, sequence)


def unreachable(
    pairs: Sequence[tuple[EmulatedHost, EmulatedHost]], timeout_s: float
) -> list[tuple[EmulatedHost, EmulatedHost]]:
    """Send one echo for each pair, all at once, and return the pairs that got no answer.

    Args:
        pairs: Who asks whom.
        timeout_s: How long to wait for answers, by the clock of the kernel that this runs in.
    """
    identifier = os.getpid() & 0xFFFF
    with ExitStack() as stack:
        poller = select.poll()
        waiting: dict[int, tuple[socket.socket, int]] = {}
        lost: list[int] = []
        for sequence, (source, target) in enumerate(pairs):
            with source.namespace():
                one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
            one.setblocking(False)
            try:
                one.sendto(echo_request(identifier, sequence & 0xFFFF), (target.ip, 0))
            except OSError:  # its own kernel says so already: no route, no such device
                lost.append(sequence)
                continue
            poller.register(one, select.POLLIN)
            waiting[one.fileno()] = (one, sequence)
        deadline = time.monotonic() + timeout_s
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _event in poller.poll(left * 1000):
                one, sequence = waiting[descriptor]
                if is_reply(one.recv(2048), identifier, sequence & 0xFFFF):
                    poller.unregister(descriptor)
                    del waiting[descriptor]
        lost += (sequence for _one, sequence in waiting.values())
        return [pairs[sequence] for sequence in sorted(lost)]
