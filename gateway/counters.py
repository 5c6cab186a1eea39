"""Counters of the data planes: what came in, what went out, and what was not forwarded, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class Reason(str, Enum):
    """Why a frame was not forwarded."""

    # Frames that are somebody else's business: the host's own stack sees them too.
    NOT_FOR_US = "not_for_us"
    """Its Ethernet destination is another station's (a switch flooded it)."""
    GROUP = "group"
    """Broadcast or multicast on Ethernet."""
    OWN_ADDRESS = "own_address"
    """Its IP destination is this host: left to the kernel."""
    NOT_IP = "not_ip"
    """ARP, LLDP or another protocol that is not forwarded."""
    IPV6 = "ipv6"
    VLAN = "vlan"

    # Frames that are lost here.
    TRUNCATED = "truncated"
    """Shorter than its headers say, or longer than a slot of the ring."""
    MALFORMED = "malformed"
    """Not an IPv4 header."""
    BAD_CHECKSUM = "bad_checksum"
    TTL_EXPIRED = "ttl_expired"
    NO_NEIGHBOUR = "no_neighbour"
    STATION_FULL = "station_full"
    RING_FULL = "ring_full"
    EGRESS_FULL = "egress_full"
    """The interface's queue, or the socket's send buffer, had no room."""
    SEND_FAILED = "send_failed"
    """The interface refused it: too long, or down."""
    DRAINING = "draining"
    """It arrived after the daemon was asked to drain."""


LEFT_TO_KERNEL = frozenset(
    {Reason.NOT_FOR_US, Reason.GROUP, Reason.OWN_ADDRESS, Reason.NOT_IP, Reason.IPV6, Reason.VLAN}
)
"""Reasons that are no loss."""


class Counters:
    """What a forwarder counts. A super-packet is one frame."""

    __slots__ = ("clock_steps", "not_forwarded", "rx_bytes", "rx_frames", "tx_batches", "tx_bytes", "tx_frames")

    def __init__(self) -> None:
        self.rx_frames = 0
        self.rx_bytes = 0
        self.tx_frames = 0
        self.tx_bytes = 0
        self.tx_batches = 0
        self.clock_steps = 0
        self.not_forwarded: dict[Reason, int] = dict.fromkeys(Reason, 0)

    def count(self, reason: Reason, frames: int = 1) -> None:
        """Count frames that are not forwarded."""
        self.not_forwarded[reason] += frames

    @property
    def lost_frames(self) -> int:
        """Frames that were lost here, for whatever reason."""
        return sum(count for reason, count in self.not_forwarded.items() if reason not in LEFT_TO_KERNEL)

    def restore(self, counted: Mapping[str, Any]) -> None:
        """Go on counting where `as_json` left off."""
        for name in ("rx_frames", "rx_bytes", "tx_frames", "tx_bytes", "tx_batches", "clock_steps"):
            setattr(self, name, counted[name])
        self.not_forwarded.update({Reason(name): count for name, count in counted["not_forwarded"].items()})

    def as_json(self) -> dict[str, object]:
        """All counters as plain data."""
        return {
            "rx_frames": self.rx_frames,
            "rx_bytes": self.rx_bytes,
            "tx_frames": self.tx_frames,
            "tx_bytes": self.tx_bytes,
            "tx_batches": self.tx_batches,
            "lost_frames": self.lost_frames,
            "clock_steps": self.clock_steps,
            "not_forwarded": {reason.value: count for reason, count in self.not_forwarded.items()},
        }


class ProxyCounters:
    """What a proxy counts."""

    def __init__(self) -> None:
        self.accepted = 0
        self.completed = 0
        self.not_intercepted = 0
        self.connect_failed = 0
        self.reset = 0
        self.cut = 0
        self.accept_paused = 0
        self.chunks = 0
        self.read_bytes = 0
        self.sent_bytes = 0
        self.discarded_bytes = 0

    def as_json(self) -> dict[str, int]:
        """All counters; ``copied_bytes`` are those that crossed between kernel and user space, in and out."""
        return {**vars(self), "copied_bytes": self.read_bytes + self.sent_bytes}
