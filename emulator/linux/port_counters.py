"""Counters of an interface and of the queue in front of it, over netlink: two messages a reading, no text."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from emulator.linux.netlink import NETLINK_ROUTE, Netlink, attributes

_RTM_GETQDISC, _RTM_GETSTATS = 38, 94
_TC_H_ROOT = 0xFFFFFFFF
_IFLA_STATS_LINK_64 = 1
_TCA_STATS2 = 7
_TCA_STATS_BASIC, _TCA_STATS_QUEUE = 1, 3
_STATS64 = struct.Struct("=8Q")
_QUEUE = struct.Struct("=5I")
_IF_STATS_MESSAGE = 12
_TC_MESSAGE = 20


@dataclass(frozen=True)
class PortCounters:
    """One reading.

    Attributes:
        rx_packets, tx_packets, rx_bytes, tx_bytes: What the interface received and sent, with Ethernet headers.
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

    def read(self, index: int) -> PortCounters:
        """Read the interface with the given index.

        Raises:
            OSError: It is gone.
        """
        answer = self._netlink.get(_RTM_GETSTATS, struct.pack("=BBHII", socket.AF_UNSPEC, 0, 0, index, 1))
        stats = dict(attributes(answer[_IF_STATS_MESSAGE:]))[_IFLA_STATS_LINK_64]
        rx_packets, tx_packets, rx_bytes, tx_bytes, _rx_errors, _tx_errors, _rx_drop, tx_drop = _STATS64.unpack_from(
            stats
        )
        queued = self._queue(index)
        return PortCounters(rx_packets, tx_packets, rx_bytes, tx_bytes, tx_drop + queued[2], queued[0], queued[1])

    def _queue(self, index: int) -> tuple[int, int, int]:
        """Packets and bytes held by the root queue, and packets that it dropped; zeros where there is none."""
        body = struct.pack("=BBHiIII", socket.AF_UNSPEC, 0, 0, index, 0, _TC_H_ROOT, 0)
        try:
            answer = self._netlink.get(_RTM_GETQDISC, body)
        except FileNotFoundError:
            return (0, 0, 0)
        for kind, value in attributes(answer[_TC_MESSAGE:]):
            if kind != _TCA_STATS2:
                continue
            for inner, data in attributes(value):
                if inner == _TCA_STATS_QUEUE:
                    packets, size_bytes, drops, _requeues, _overlimits = _QUEUE.unpack_from(data)
                    return (packets, size_bytes, drops)
        return (0, 0, 0)

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()
