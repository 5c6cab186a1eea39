"""A port whose line is two lists instead of a kernel: for tests, and for models that need none."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from typing import Any

import numpy as np

from gateway.rings.batch import Batch
from gateway.rings.copies import CopyLedger, Crossing
from gateway.rings.frames import LENT, Accounting, FramePool
from gateway.rings.port import PortCounters


def make_pool(frames: int = 64, frame_bytes: int = 2048) -> FramePool:
    """A memory of its own, for ports that are to share one."""
    return FramePool(np.zeros(frames * frame_bytes, dtype=np.uint8), frame_bytes)


class MemoryPort:
    """See the module.

    Args:
        pool: Where its frames lie.
        interface: What it is called.
        mac: Its Ethernet address.
        room: Frames that its line takes; None: any number.
        headroom_bytes: Room before an arriving frame.
    """

    crossing = Crossing.NONE

    def __init__(
        self,
        pool: FramePool,
        interface: str = "memory",
        mac: bytes = b"\x02\0\0\0\0\x01",
        room: int | None = None,
        headroom_bytes: int = 256,
    ) -> None:
        self.interface = interface
        self.mac = mac
        self.room = room
        self.line: list[bytes] = []
        self.counters = PortCounters()
        self.copies = CopyLedger()
        self._pool = pool
        self._headroom = headroom_bytes
        self._receiver, self._sender = pool.add_port()
        self._arrived: deque[tuple[int, int, int]] = deque()
        self._lost = 0

    def inject(self, frame: bytes, arrival_ns: int = 0) -> bool:
        """Let a frame arrive; whether there was room for it."""
        if len(frame) > self._pool.frame_bytes - self._headroom:
            self.counters.cut_frames += 1
            return False
        taken = self._pool.take(1, self._receiver)
        if not len(taken):
            self._lost += 1
            return False
        offset = int(taken[0]) + self._headroom
        self._pool.memory[offset : offset + len(frame)] = np.frombuffer(frame, dtype=np.uint8)
        self._arrived.append((offset, len(frame), arrival_ns))
        return True

    def receive(self, limit: int) -> Batch:
        """See `Port.receive`."""
        taken = [self._arrived.popleft() for _ in range(min(limit, len(self._arrived)))]
        table = np.array(taken, dtype=np.int64).reshape(-1, 3)
        offsets, lengths, arrivals = (column.copy() for column in table.T)
        self._pool.hand_over(offsets, self._receiver, LENT)
        self.counters.rx_frames += len(taken)
        self.counters.rx_bytes += int(lengths.sum())
        return Batch(self._pool, offsets, lengths, arrivals)

    def send(self, batch: Batch) -> int:
        """See `Port.send`; what the line is given is not a copy of the data plane's and is not counted as one."""
        count = len(batch) if self.room is None else max(0, min(len(batch), self.room - len(self.line)))
        taken = batch.take(slice(count))
        self.line += [taken.frame(number) for number in range(count)]
        taken.release()
        self.counters.tx_frames += count
        self.counters.tx_bytes += int(taken.lengths.sum())
        self.counters.tx_full += len(batch) - count
        return count

    def flush(self) -> bool:
        """See `Port.flush`."""
        return True

    def fileno(self) -> int:
        """See `Port.fileno`; there is nothing to wait for."""
        return -1

    def check(self) -> None:
        """See `Port.check`: it is always there."""

    def accounting(self) -> Accounting:
        """See `Port.accounting`."""
        return Accounting(rx=len(self._arrived))

    def lost_frames(self) -> int:
        """See `Port.lost_frames`."""
        return self._lost

    def as_json(self) -> dict[str, Any]:
        """See `Port.as_json`."""
        return {
            "kind": "memory",
            "interface": self.interface,
            "crossing": self.crossing.value,
            "lost_frames": self._lost,
            "counters": self.counters.as_json(),
            "accounting": asdict(self.accounting()),
        }

    def close(self) -> None:
        """See `Port.close`."""
        self._arrived.clear()
        self._pool.reclaim(self._receiver)
