"""Single-producer single-consumer rings in memory shared with the kernel, as it lays them out for AF_XDP.

A ring has an index of what was produced, one of what was consumed, flags, and a power of two of entries. Indices run
freely through 32 bits; an entry's place is its index without the upper bits. Each side writes one index only.

**Memory ordering.** Entries must be seen before the index that tells of them, and must have been read before the index
that gives them back. An x86 processor never lets a store pass an earlier load or store, nor a load an earlier load, so
plain aligned 32-bit accesses are acquire and release there; each index access is a call of a function that no compiler
can reorder. Weaker machines would need barriers that Python does not have: `require_ordered_memory` refuses them. What
x86 does let pass is a load before an earlier store: after publishing, a wake-up flag may be read too early. Its reader
looks again before it sleeps (by poll(2), which is a barrier and wakes the kernel itself).
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.errors import MissingCapability
from gateway.rings.batch import Memory

NEED_WAKEUP = 1
_WRAP = 0xFFFFFFFF


def require_ordered_memory() -> None:
    """Make sure that the processor keeps loads and stores in order.

    Raises:
        MissingCapability: It does not.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise MissingCapability(
            "ordered memory", f"rings shared with the kernel work on x86_64 only, this is {platform.machine()}"
        )


class RingMemory:
    """Where the parts of a ring lie.

    Args:
        memory: The mapping.
        producer, consumer, flags, entries: Offsets in it.
        size: Number of entries, a power of two.
        kind: Type of an entry.
    """

    def __init__(
        self, memory: Memory, producer: int, consumer: int, flags: int, entries: int, size: int, kind: np.dtype[Any]
    ) -> None:
        if size <= 0 or size & (size - 1):
            raise ValueError(f"a ring of {size} entries: it must be a power of two")
        self.size = size
        self.producer = memory[producer : producer + 4].data.cast("I")
        self.consumer = memory[consumer : consumer + 4].data.cast("I")
        self.flags = memory[flags : flags + 4].data.cast("I")
        self.entries: npt.NDArray[Any] = memory[entries : entries + size * kind.itemsize].view(kind)

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """One view for each field of the entries; the entries themselves if they have none."""
        names = self.entries.dtype.names
        return tuple(self.entries[name] for name in names) if names else (self.entries,)

    def close(self) -> None:
        """Let go of the mapping."""
        self.producer.release()
        self.consumer.release()
        self.flags.release()
        self.entries = self.entries[:0].copy()


class Producer:
    """Our side of a ring that we fill."""

    def __init__(self, ring: RingMemory) -> None:
        self._ring = ring
        self._columns = ring.columns()
        self._size = ring.size
        self._mask = ring.size - 1
        self._produced = ring.producer[0]

    def waiting(self) -> int:
        """Entries that the other side has not consumed."""
        return (self._produced - self._ring.consumer[0]) & _WRAP

    def room(self) -> int:
        """Entries that can be written."""
        return self._size - self.waiting()

    def needs_wakeup(self) -> bool:
        """Whether the other side asks to be woken."""
        return bool(self._ring.flags[0] & NEED_WAKEUP)

    def push(self, *columns: npt.NDArray[Any]) -> None:
        """Write entries, given as one array for each of the first fields, and publish them; `room` must be enough."""
        count = len(columns[0])
        start = self._produced & self._mask
        first = min(count, self._size - start)
        for target, column in zip(self._columns, columns, strict=False):
            target[start : start + first] = column[:first]
            if first < count:
                target[: count - first] = column[first:]
        self._produced = (self._produced + count) & _WRAP
        self._ring.producer[0] = self._produced

    def close(self) -> None:
        """Let go of the mapping."""
        self._columns = ()
        self._ring.close()


class Consumer:
    """Our side of a ring that we empty."""

    def __init__(self, ring: RingMemory) -> None:
        self._ring = ring
        self._columns = ring.columns()
        self._size = ring.size
        self._mask = ring.size - 1
        self._consumed = ring.consumer[0]

    def waiting(self) -> int:
        """Entries that wait for us."""
        return (self._ring.producer[0] - self._consumed) & _WRAP

    def read(self, limit: int) -> tuple[npt.NDArray[Any], ...]:
        """Copy up to *limit* entries out of the ring, one array for each field; they stay ours until `consume`."""
        start = self._consumed & self._mask
        count = min(limit, self.waiting())
        first = self._size - start
        if count <= first:
            return tuple(column[start : start + count].copy() for column in self._columns)
        return tuple(np.concatenate((column[start:], column[: count - first])) for column in self._columns)

    def consume(self, count: int) -> None:
        """Give the next entries back to the other side."""
        self._consumed = (self._consumed + count) & _WRAP
        self._ring.consumer[0] = self._consumed

    def close(self) -> None:
        """Let go of the mapping."""
        self._columns = ()
        self._ring.close()
