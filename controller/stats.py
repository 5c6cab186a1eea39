"""Counters as read from a switch, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.flows import FlowRule


@dataclass(frozen=True)
class FlowStat:
    """One flow entry with its counters.

    Attributes:
        rule: What it does, or None: nothing that a rule of ours can express.
        packets: Packets that matched.
        bytes: Their bytes, Ethernet headers included.
        duration_ns: Since it was installed, on the switch's clock.
        ryu: The same entry in the shape of Ryu's ``/stats/flow``.
    """

    rule: FlowRule | None
    packets: int
    bytes: int
    duration_ns: int
    ryu: dict[str, Any]


@dataclass(frozen=True)
class GroupStat:
    """One group's counters.

    Attributes:
        number: Group id.
        packets: Packets that were sent to it.
        bytes: Their bytes.
        buckets: Packets and bytes of each bucket, in order.
    """

    number: int
    packets: int
    bytes: int
    buckets: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PortStat:
    """One port's counters, received and sent as the switch sees it.

    Attributes:
        port: Port number; reserved ports are above 0xffffff00.
        rx_packets: Received packets.
        tx_packets: Sent packets.
        rx_bytes: Received bytes, Ethernet headers included.
        tx_bytes: Sent bytes, Ethernet headers included.
        rx_dropped: Dropped on the way in.
        tx_dropped: Dropped on the way out.
        rx_errors: Faulty on the way in.
        tx_errors: Faulty on the way out.
        duration_ns: Since the port exists, on the switch's clock.
        ryu: The same counters in the shape of Ryu's ``/stats/port``.
    """

    port: int
    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int
    rx_errors: int
    tx_errors: int
    duration_ns: int
    ryu: dict[str, Any]
