"""Finds out whether hosts reach each other, by ICMP echoes from this process: no ping to start in each host."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache

from emulator.network.host import EmulatedHost
from emulator.network.namespace import coming_back

_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_ICMP = struct.Struct("!BBHHH")
_IPV4_HEADER_BYTES = 20
_SOL_RAW, _ICMP_FILTER = 255, 1
_FULL = (errno.ENOBUFS, errno.EAGAIN)
_AGAIN_S = 1.0


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of data of even length."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@lru_cache(maxsize=1024)
def echo_request(identifier: int, sequence: int) -> bytes:
    """An ICMP echo request without payload."""
    blank = _ICMP.pack(_ECHO_REQUEST, 0, 0, identifier, sequence)
    return _ICMP.pack(_ECHO_REQUEST, 0, checksum(blank), identifier, sequence)


def reply_sequence(packet: bytes, identifier: int) -> int | None:
    """The number of the echo request that a packet from a raw socket answers; None: it answers none of ours."""
    if len(packet) < _IPV4_HEADER_BYTES + _ICMP.size:
        return None
    kind, _code, _sum, got_identifier, sequence = _ICMP.unpack_from(packet, (packet[0] & 0xF) * 4)
    return sequence if (kind, got_identifier) == (_ECHO_REPLY, identifier) else None


def unreachable(
    pairs: Sequence[tuple[EmulatedHost, EmulatedHost]], timeout_s: float
) -> list[tuple[EmulatedHost, EmulatedHost]]:
    """Send one echo for each pair, all at once, and return the pairs that got no answer.

    One socket for each host that asks, all of them read by this process. What is not answered is asked again every
    second: a full queue or a line with losses is no fault.

    Args:
        pairs: Who asks whom.
        timeout_s: How long to wait for answers, by the clock of the kernel that this runs in.
    """
    identifier = os.getpid() & 0xFFFF
    with ExitStack() as stack:
        asking: dict[str, _Asking] = {}
        with coming_back("echoes"):
            for number, (source, target) in enumerate(pairs):
                if source.name not in asking:
                    source.network_namespace.enter()
                    asking[source.name] = _Asking(stack.enter_context(_echo_socket()))
                asking[source.name].targets[len(asking[source.name].targets)] = (number, target.ip)
        lost: list[int] = []
        deadline = time.monotonic() + timeout_s
        while (waiting := [one for one in asking.values() if one.targets]) and time.monotonic() < deadline:
            for one in waiting:
                lost += one.ask(identifier)
            again = min(deadline, time.monotonic() + _AGAIN_S)
            # One after the other: while the first waits, most answers to the others come.
            for one in waiting:
                one.collect(identifier, again)
        lost += (number for one in asking.values() for number, _ip in one.targets.values())
        return [pairs[number] for number in sorted(lost)]


def _echo_socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMP)
    # Nothing but answers: others' questions come here too.
    made.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~(1 << _ECHO_REPLY) & 0xFFFFFFFF))
    return made


@dataclass
class _Asking:
    """A host that asks others, until they have answered.

    Attributes:
        socket: In its namespace.
        targets: By the number of the echo: the pair's number, and who is asked.
    """

    socket: socket.socket
    targets: dict[int, tuple[int, str]] = field(default_factory=dict)

    def ask(self, identifier: int) -> list[int]:
        """Ask all that have not answered; return the pairs for which the host's own kernel knows no way."""
        refused = []
        for sequence, (number, ip) in list(self.targets.items()):
            try:
                self.socket.sendto(echo_request(identifier, sequence), (ip, 0))
            except OSError as error:
                if error.errno not in _FULL:
                    del self.targets[sequence]
                    refused.append(number)
        return refused

    def collect(self, identifier: int, until: float) -> None:
        """Read answers until there are all, or none is left and it is late.

        Args:
            identifier: Of our echoes.
            until: When to wait no longer, by this process's monotonic clock in seconds.
        """
        poller = None
        while self.targets:
            try:
                packet = self.socket.recv(2048)
            except BlockingIOError:
                if poller is None:
                    poller = select.poll()
                    poller.register(self.socket, select.POLLIN)
                left = until - time.monotonic()
                if left <= 0 or not poller.poll(left * 1e3):
                    return
                continue
            sequence = reply_sequence(packet, identifier)
            if sequence is not None:
                self.targets.pop(sequence, None)
