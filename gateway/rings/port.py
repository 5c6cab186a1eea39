"""What all batch ports have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from gateway.rings.batch import Batch
from gateway.rings.copies import CopyLedger, Crossing
from gateway.rings.frames import Accounting

BATCH_FRAMES = 256
"""Frames that are handled at a time: enough that the cost of a call is shared by many, few enough to stay in cache."""


@dataclass
class PortCounters:
    """What a port did since it was opened. Frames, not packets of super-packets.

    Attributes:
        rx_frames, rx_bytes: Received.
        tx_frames, tx_bytes: Taken over for sending.
        tx_full: Frames that were not taken because the port had no room: the caller still has them.
        tx_refused: Frames that the port dropped because the interface cannot carry them.
        wakeups: System calls that were made to send or to receive.
        cut_frames: Frames that were longer than the port could take, and were lost.
    """

    rx_frames: int = 0
    rx_bytes: int = 0
    tx_frames: int = 0
    tx_bytes: int = 0
    tx_full: int = 0
    tx_refused: int = 0
    wakeups: int = 0
    cut_frames: int = 0

    def as_json(self) -> dict[str, int]:
        """All of them as plain data."""
        return asdict(self)


class Port(Protocol):
    """A batch port."""

    @property
    def interface(self) -> str:
        """Name of its interface."""
        ...

    @property
    def mac(self) -> bytes:
        """Ethernet address, 6 bytes."""
        ...

    @property
    def counters(self) -> PortCounters:
        """What it did so far."""
        ...

    @property
    def copies(self) -> CopyLedger:
        """Where its copies of frames are counted."""
        ...

    @property
    def crossing(self) -> Crossing:
        """What the kernel does with the bytes."""
        ...

    def receive(self, limit: int) -> Batch:
        """Up to *limit* frames that arrived, in order of arrival, lent to the caller; never waits.

        Fewer than *limit*, even none, does not mean that no more wait.
        """
        ...

    def send(self, batch: Batch) -> int:
        """Take frames over for sending, as they now lie in memory and in this order; never waits.

        The frames may have been received by another port. If they lie in this port's memory they are sent from where
        they lie; else they are copied, and counted as such.

        Returns:
            How many were taken over, from the first; the rest are still the caller's.
        """
        ...

    def flush(self) -> bool:
        """Push on what was taken over, take back what was sent, offer free frames for what arrives.

        Returns:
            Whether all that was taken over has left.
        """
        ...

    def fileno(self) -> int:
        """To wait for arrivals (readable)."""
        ...

    def check(self) -> None:
        """Make sure that the interface is still there, after waiting for it ended with an error.

        Raises:
            GatewayError: It is gone. (One that is merely down may come up again.)
        """
        ...

    def accounting(self) -> Accounting:
        """Where the frames are that this port has given to the kernel."""
        ...

    def lost_frames(self) -> int:
        """Frames that arrived and were lost because the port had no room, since it was opened."""
        ...

    def as_json(self) -> dict[str, Any]:
        """What the port is and did, as plain data."""
        ...

    def close(self) -> None:
        """Give everything back. Frames that are lent from its memory are gone, if the memory is its own."""
        ...
