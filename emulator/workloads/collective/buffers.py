"""What each rank holds, chunk by chunk: its input, a sum on its way, or the result.

Data is never copied between ranks but by sockets. To hold the buffers of hundreds of ranks in little memory, a chunk
that a rank received for good is compared with what it must be, number by number, and if it is that, the rank remembers
just this; else it keeps what it got, sends that on, and all that is wrong is counted in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.collectives.messages import Messages, needed
from emulator.collectives.payload import Payload, initial_owner
from emulator.collectives.schedule import Integers, Schedule
from emulator.errors import InternalError

Numbers = npt.NDArray[Any]


class Held:
    """Numbers, and which item of the buffer the first of them is; equal to itself only."""

    __slots__ = ("numbers", "start")

    def __init__(self, numbers: Numbers, start: int) -> None:
        self.numbers = numbers
        self.start = start

    def part(self, low: int, high: int) -> Numbers:
        """The items of the buffer from one to before another."""
        return self.numbers[low - self.start : high - self.start]


class Buffers:
    """The buffers of all ranks.

    Args:
        schedule: What is done.
        messages: Its messages.
        edges: Where chunks begin, in items, and the end.
        payload: The numbers.
    """

    def __init__(self, schedule: Schedule, messages: Messages, edges: Integers, payload: Payload) -> None:
        self._edges: list[int] = edges.tolist()
        self._combine = payload.combine
        self._dtype = payload.truth.dtype
        self._right = Held(payload.truth, 0)
        self._needed = needed(schedule)
        self._first = [self._beginning(schedule, payload, rank) for rank in range(schedule.ranks)]
        self._held: list[list[Held | None]] = [[] for _ in range(schedule.ranks)]
        self._ranges: list[list[tuple[int, int]]] = _ranges(messages)
        #: Items of each message.
        self.items: list[int] = messages.sizes(edges).tolist()
        self.item_bytes = self._dtype.itemsize

    def _beginning(self, schedule: Schedule, payload: Payload, rank: int) -> list[Held | None]:
        if payload.inputs:
            return [Held(payload.inputs[rank], 0)] * schedule.chunks
        return [self._right if owner == rank else None for owner in initial_owner(schedule).tolist()]

    def begin(self, rank: int) -> None:
        """Give a rank its input."""
        self._held[rank] = self._first[rank].copy()

    def room(self, message: int) -> Numbers:
        """Where a message can be received."""
        return np.empty(self.items[message], dtype=self._dtype)

    def outgoing(self, rank: int, message: int) -> list[Numbers]:
        """The numbers of a message that a rank sends, in order."""
        return [part for first, count in self._ranges[message] for part in self._parts(rank, first, count)]

    def forget(self, rank: int, message: int) -> None:
        """Let go of what a rank sent and does not need any more."""
        for first, count in self._ranges[message]:
            self._held[rank][first : first + count] = [None] * count

    def add(self, rank: int, message: int, arrived: Numbers) -> None:
        """Combine what arrived with what a rank has."""
        begin = 0
        for first, count in self._ranges[message]:
            start = begin
            for part in self._parts(rank, first, count):
                target = arrived[start : start + len(part)]
                self._combine(target, part, out=target)
                start += len(part)
            self._held[rank][first : first + count] = [Held(arrived[begin:start], self._edges[first])] * count
            begin = start

    def replace(self, rank: int, message: int, arrived: Numbers) -> None:
        """Put what arrived in the place of what a rank has."""
        begin = 0
        for first, count in self._ranges[message]:
            low, high = self._edges[first], self._edges[first + count]
            part = arrived[begin : begin + high - low]
            right = np.array_equal(part, self._right.numbers[low:high])
            self._held[rank][first : first + count] = [self._right if right else Held(part, low)] * count
            begin += high - low

    def wrong(self, rank: int) -> int:
        """Numbers of a rank's result that are not what they should be."""
        held, chunks = self._held[rank], self._needed[rank]
        if chunks is None:
            if held.count(self._right) == len(held):
                return 0
            places: Any = range(len(held))
        else:
            places = chunks.tolist()
        wrong = 0
        for chunk in places:
            low, high = self._edges[chunk], self._edges[chunk + 1]
            one = held[chunk]
            if one is self._right or low == high:
                continue
            if one is None:
                wrong += high - low
            else:
                wrong += int(np.count_nonzero(one.part(low, high) != self._right.numbers[low:high]))
        return wrong

    def _parts(self, rank: int, first: int, count: int) -> list[Numbers]:
        """What a rank has of consecutive chunks, as few pieces as possible."""
        held, edges = self._held[rank], self._edges
        parts = []
        at, last = first, first + count
        while at < last:
            one, end = held[at], at + 1
            while end < last and held[end] is one:
                end += 1
            if one is None:
                raise InternalError(f"rank {rank} has nothing in chunk {at}")
            if edges[end] > edges[at]:
                parts.append(one.part(edges[at], edges[end]))
            at = end
        return parts


def _ranges(messages: Messages) -> list[list[tuple[int, int]]]:
    pairs = list(zip(messages.first.tolist(), messages.count.tolist(), strict=True))
    bounds = messages.ranges.tolist()
    return [pairs[bounds[number] : bounds[number + 1]] for number in range(len(messages))]
