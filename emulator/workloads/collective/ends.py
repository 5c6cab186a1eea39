"""The two ends of a connection: messages leave, and are awaited, in the order of their steps."""

from __future__ import annotations

import socket
from typing import Any

import numpy.typing as npt

from emulator.collectives.messages import Messages, connection_orders
from emulator.workloads.collective.links import Links

_MOST_PIECES = 1024
"""Linux's UIO_MAXIOV: most pieces in one call."""
_LOW_WATER_SHARE = 4
"""A reader is woken at the latest when this part of its buffer is full."""


class Sender:
    """The sending end.

    Attributes:
        order: Messages in the order in which they leave.
        following: Place of the next one in it.
        left: What the kernel has not yet taken of it.
        blocked: The kernel takes no more at the moment.
    """

    __slots__ = ("blocked", "following", "left", "order", "socket")

    def __init__(self, one: socket.socket, order: list[int]) -> None:
        self.socket = one
        self.order = order
        self.following = 0
        self.left: list[memoryview] = []
        self.blocked = False

    def push(self) -> bool:
        """Hand to the kernel what it takes of what is left; whether that was all.

        Raises:
            OSError: The connection is broken.
        """
        while self.left:
            offered = self.left[:_MOST_PIECES]
            try:
                sent = self.socket.send(offered[0]) if len(offered) == 1 else self.socket.sendmsg(offered)
            except BlockingIOError:
                sent = 0
            whole = 0
            for part in offered:
                if sent < len(part):
                    break
                sent -= len(part)
                whole += 1
            del self.left[:whole]
            if whole < len(offered):
                self.left[0] = self.left[0][sent:]
                return False
        return True


class Receiver:
    """The receiving end.

    Attributes:
        rank: Whose.
        order: Messages in the order in which they come.
        following: Place of the one in it that is awaited.
        round: The round that this one belongs to.
        numbers: What it is received into, once something came.
        view: The part of that which is still empty.
        paused: Nothing is read, because the rank cannot follow.
    """

    __slots__ = ("_low", "_usual", "following", "numbers", "order", "paused", "rank", "round", "socket", "view")

    def __init__(self, one: socket.socket, rank: int, order: list[int], usual_bytes: int) -> None:
        self.socket = one
        self.rank = rank
        self.order = order
        self.following = 0
        self.round = 0
        self.numbers: npt.NDArray[Any] | None = None
        self.view = memoryview(b"")
        self.paused = False
        self._usual, self._low = usual_bytes, 0
        self.wake_at(usual_bytes)

    def wake_at(self, size_bytes: int) -> None:
        """Let the reader be woken when this much is there, or as much as usual if that is less."""
        size_bytes = min(size_bytes, self._usual)
        if size_bytes != self._low:
            self._low = size_bytes
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)


def ends_of(
    messages: Messages, sizes_bytes: list[int], links: Links, buffer_bytes: int
) -> tuple[list[Sender], list[Receiver]]:
    """The ends of all connections, in order.

    Args:
        messages: What they carry.
        sizes_bytes: Of each message.
        links: The open connections.
        buffer_bytes: Of each socket.
    """
    orders = connection_orders(messages)
    most = max(1, buffer_bytes // _LOW_WATER_SHARE)
    senders, receivers = [], []
    for number, (_, target, _) in enumerate(messages.connections):
        mine = orders[number]
        least = min(sizes_bytes[one] for one in mine)
        senders.append(Sender(links.senders[number], mine))
        receivers.append(Receiver(links.receivers[number], target, mine, min(least, most)))
    return senders, receivers
