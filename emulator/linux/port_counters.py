"""Counters of an interface and of the queue in front of it, over netlink: two messages a reading, no text."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from emulator.linux.netlink import NETLINK_ROUTE, Netlink, attributes

_RTM_GETQDISC, _RTM_GETSTATS = 38, 94
_TC_H_ROOT = 0xFFFFFFFF
_IFLA_STATS_LINK_64 = 1
_TCA_STATS2 = 7
_TCA_STATS_BASIC, _TCA_STATS_QUEUE = 1, 3
_STATS64 = struct.Struct("=8Q")
_BASIC = struct.Struct("=QI")
_QUEUE = struct.Struct("=5I")
_IF_STATS_MESSAGE = 12
_TC_MESSAGE = 20
_FEW = 2
"""Up to this many interfaces are asked for one by one; more are cheaper with all others of their namespace."""


@dataclass(frozen=True)
class PortCounters:
    """One reading of an interface, or of one of its queues.

    Attributes:
        rx_packets, tx_packets, rx_bytes, tx_bytes: What the interface received and sent, with Ethernet headers. A queue
            receives nothing here, and what it let go is sent.
        dropped_packets: Packets that the interface or its root queue dropped on the way out.
        queue_packets, queue_bytes: What its root queue holds, packets in flight on an emulated line included.
    """

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    dropped_packets: int
    queue_packets: int
    queue_bytes: int


class PortReader:
    """Reads interfaces of the network namespace in which it was opened, over one socket."""

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_ROUTE)

    def read(self, indices: Sequence[int], queues: Sequence[tuple[int, int]] = ()) -> list[PortCounters]:
        """Read the interfaces with the given indices, and then the given queues.

        Args:
            indices: Interfaces.
            queues: Index of an interface, and the handle of one of its queueing disciplines.

        Raises:
            OSError: One of them is gone.
        """
        roots: dict[int, _Queue] = {}
        inner: dict[tuple[int, int], PortCounters] = {}
        for answer in self._netlink.dump(_RTM_GETQDISC, struct.pack("=BBHiIII", socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0)):
            index, handle, parent = struct.unpack_from("=iII", answer, 4)
            if parent == _TC_H_ROOT and index in indices:
                roots[index] = _queue(answer)
            elif (index, handle) in queues:
                inner[index, handle] = _inner(answer)
        if len(indices) <= _FEW:
            answers = {index: self._netlink.get(_RTM_GETSTATS, _stats_request(index)) for index in indices}
        else:
            everything = self._netlink.dump(_RTM_GETSTATS, _stats_request(0))
            answers = {struct.unpack_from("=I", answer, 4)[0]: answer for answer in everything}
        if any(index not in answers for index in indices) or any(queue not in inner for queue in queues):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        found = [_counters(answers[index], roots.get(index, _NO_QUEUE)) for index in indices]
        return found + [inner[queue] for queue in queues]

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()


_Queue = tuple[int, int, int]
"""Packets and bytes that a queue holds, and packets that it dropped."""
_NO_QUEUE: _Queue = (0, 0, 0)


def _stats_request(index: int) -> bytes:
    return struct.pack("=BBHII", socket.AF_UNSPEC, 0, 0, index, 1 << (_IFLA_STATS_LINK_64 - 1))


def _statistics(answer: bytes) -> dict[int, bytes]:
    for kind, value in attributes(answer[_TC_MESSAGE:]):
        if kind == _TCA_STATS2:
            return dict(attributes(value))
    return {}


def _queue(answer: bytes) -> _Queue:
    data = _statistics(answer).get(_TCA_STATS_QUEUE)
    if data is None:
        return _NO_QUEUE
    packets, size_bytes, drops, _requeues, _overlimits = _QUEUE.unpack_from(data)
    return (packets, size_bytes, drops)


def _inner(answer: bytes) -> PortCounters:
    sent_bytes, sent_packets = _BASIC.unpack_from(_statistics(answer)[_TCA_STATS_BASIC])
    packets, size_bytes, drops = _queue(answer)
    return PortCounters(0, sent_packets, 0, sent_bytes, drops, packets, size_bytes)


def _counters(answer: bytes, queue: _Queue) -> PortCounters:
    stats = dict(attributes(answer[_IF_STATS_MESSAGE:]))[_IFLA_STATS_LINK_64]
    rx_packets, tx_packets, rx_bytes, tx_bytes, _rx_errors, _tx_errors, _rx_drop, tx_drop = _STATS64.unpack_from(stats)
    # A root queue's drops count as the interface's own.
    return PortCounters(rx_packets, tx_packets, rx_bytes, tx_bytes, max(tx_drop, queue[2]), queue[0], queue[1])
