"""Ports: where a forwarder's frames come from and go to. The interface, and an implementation in memory.

A port lends frames: `Port.receive` hands out frames that stay in the port's own memory, each to be given back exactly
once by `Port.release` after it was sent or dropped. A frame that is not given back takes up a slot, and a port without
free slots loses what arrives; that is how a finite ring becomes a finite queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from gateway.pipeline import Buffer

BATCH = 64
"""Frames that are handled at a time, at most."""


class Frame:
    """A frame that lies in its port's memory.

    Attributes:
        buffer: The port's memory.
        start, end: Where the frame lies in it; ``end - start`` is its length in bytes, without preamble and check
            sequence.
        arrival_ns: When it arrived, on the port's clock.
        packets: Packets on a real line that it stands for (more than one: a super-packet).
        whole: False if the port had no room for all of it.
        tagged: It carried a VLAN tag that the kernel took out.
        slot: For the port.
    """

    __slots__ = ("arrival_ns", "buffer", "end", "packets", "slot", "start", "tagged", "whole")

    def __init__(
        self,
        buffer: Buffer,
        start: int,
        end: int,
        arrival_ns: int,
        packets: int = 1,
        whole: bool = True,
        tagged: bool = False,
        slot: int = 0,
    ) -> None:
        self.buffer = buffer
        self.start = start
        self.end = end
        self.arrival_ns = arrival_ns
        self.packets = packets
        self.whole = whole
        self.tagged = tagged
        self.slot = slot


class Sent(Enum):
    """What became of a frame that was to be sent."""

    DONE = "done"
    NO_ROOM = "no_room"
    """The interface's queue or the socket's buffer is full: the frame is lost, as on a full port of a switch."""
    REFUSED = "refused"
    """The interface cannot carry it (too long, or down)."""


class Port(Protocol):
    """One interface of the data plane. Not thread-safe."""

    @property
    def mac(self) -> bytes:
        """Ethernet address, 6 bytes."""
        ...

    def receive(self, limit: int) -> Sequence[Frame]:
        """Up to *limit* frames that arrived and were not handed out before, in order of arrival; never waits."""
        ...

    def send(self, frames: Sequence[Frame]) -> tuple[int, Sent]:
        """Put frames that this port lent on the line, as they now lie in memory and in this order; never waits.

        Returns:
            How many were sent, and what became of the one behind them (`Sent.DONE`: there is none).
        """
        ...

    def release(self, frame: Frame) -> None:
        """Give a frame's memory back."""
        ...

    def lost_frames(self) -> int:
        """Frames that were lost because no slot was free, since the port was opened."""
        ...

    def as_json(self) -> dict[str, int | str]:
        """What the port is, as plain data."""
        ...


class MemoryPort:
    """A port whose line is two lists: for tests and for models without a kernel.

    Args:
        mac: Ethernet address.
        slots: Frames that can be lent at a time.
        slot_bytes: Longest frame that is kept whole.
        room: Frames that the line takes; None: any number.
    """

    def __init__(self, mac: bytes, slots: int = 64, slot_bytes: int = 9216, room: int | None = None) -> None:
        self._mac = mac
        self._memory = bytearray(slots * slot_bytes)
        self._slot_bytes = slot_bytes
        self._free = deque(range(slots))
        self._arrived: deque[Frame] = deque()
        self._lent: set[int] = set()
        self._lost = 0
        self.room = room
        self.line: list[bytes] = []

    @property
    def mac(self) -> bytes:
        """Ethernet address, 6 bytes."""
        return self._mac

    def inject(self, data: bytes, arrival_ns: int, packets: int = 1, *, tagged: bool = False) -> bool:
        """Let a frame arrive.

        Returns:
            Whether a slot was free for it.
        """
        if not self._free:
            self._lost += 1
            return False
        slot = self._free.popleft()
        start = slot * self._slot_bytes
        kept = data[: self._slot_bytes]
        self._memory[start : start + len(kept)] = kept
        frame = Frame(
            self._memory,
            start,
            start + len(kept),
            arrival_ns,
            packets,
            whole=len(kept) == len(data),
            tagged=tagged,
            slot=slot,
        )
        self._arrived.append(frame)
        return True

    def receive(self, limit: int) -> Sequence[Frame]:
        """See `Port.receive`."""
        frames = [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]
        self._lent.update(frame.slot for frame in frames)
        return frames

    def send(self, frames: Sequence[Frame]) -> tuple[int, Sent]:
        """See `Port.send`."""
        for count, frame in enumerate(frames):
            if self.room is not None and len(self.line) >= self.room:
                return count, Sent.NO_ROOM
            self.line.append(bytes(self._memory[frame.start : frame.end]))
        return len(frames), Sent.DONE

    def release(self, frame: Frame) -> None:
        """See `Port.release`.

        Raises:
            ValueError: The frame is not lent, or was given back before.
        """
        if frame.slot not in self._lent:
            raise ValueError(f"slot {frame.slot} is given back but was not lent")
        self._lent.remove(frame.slot)
        self._free.append(frame.slot)

    def lost_frames(self) -> int:
        """See `Port.lost_frames`."""
        return self._lost

    @property
    def lent_frames(self) -> int:
        """Frames that are lent now."""
        return len(self._lent)

    def as_json(self) -> dict[str, int | str]:
        """See `Port.as_json`."""
        return {"kind": "memory", "slot_bytes": self._slot_bytes}
