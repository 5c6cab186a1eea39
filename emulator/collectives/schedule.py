"""Schedules: collectives as steps of transfers between ranks.

The buffer of every rank is divided into equal *chunks*, numbered from 0. A transfer takes consecutive chunks of one
rank to the same chunks of another, where they are added to what is there or replace it. All transfers of a step read
what was there before the step: a rank sends before it adds or replaces what arrives. A transfer depends on earlier
steps of its own two ranks only, so ranks need not wait for each other at the end of a step, and none can wait for ever.

Steps are made when asked for, as arrays: a schedule of a thousand steps for 512 ranks takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from emulator.errors import ScenarioError

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Collective(str, Enum):
    """What a schedule computes."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "alltoall"
    BROADCAST = "broadcast"
    REDUCE = "reduce"

    @property
    def reduces(self) -> bool:
        """Whether ranks' buffers are added up."""
        return self in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)


@dataclass(frozen=True)
class Step:
    """Transfers that may go on at the same time, one for each place of the arrays.

    Attributes:
        source: Ranks that send.
        target: Ranks that receive.
        first: First chunk.
        count: Number of chunks.
        reduce: Whether what arrives is added; else it replaces.
    """

    source: Integers
    target: Integers
    first: Integers
    count: Integers
    reduce: Flags

    def __len__(self) -> int:
        return len(self.source)


def step(
    source: npt.ArrayLike, target: npt.ArrayLike, first: npt.ArrayLike, count: npt.ArrayLike, reduce: npt.ArrayLike
) -> Step:
    """A step from anything that broadcasts to equally long arrays."""
    arrays = np.broadcast_arrays(source, target, first, count, np.asarray(reduce, dtype=bool))
    numbers = [np.atleast_1d(one).astype(np.int64) for one in arrays[:4]]
    return Step(numbers[0], numbers[1], numbers[2], numbers[3], np.atleast_1d(arrays[4]).astype(bool))


def merged(steps: Sequence[Step]) -> Step:
    """All transfers of several steps in one."""
    return Step(
        source=np.concatenate([one.source for one in steps]),
        target=np.concatenate([one.target for one in steps]),
        first=np.concatenate([one.first for one in steps]),
        count=np.concatenate([one.count for one in steps]),
        reduce=np.concatenate([one.reduce for one in steps]),
    )


@dataclass(frozen=True)
class Schedule:
    """A collective as steps.

    Attributes:
        name: Of the algorithm.
        collective: What it computes.
        ranks: How many take part.
        chunks: Equal parts of each rank's buffer; with all-to-all, part ``i * ranks + j`` is from rank i to rank j.
        length: Number of steps.
        make: Makes the step of a number from 0.
        owners: Rank that has each chunk in the end (reduce-scatter) or in the beginning (all-gather).
        root: Rank that has everything in the end (reduce) or in the beginning (broadcast).
        parts: First chunk of each part of the buffer that goes its own way beside the others; None: there is one.
        stripes: Equal numbers of consecutive parts, each for a plane of a network that has several; see `striped`.
    """

    name: str
    collective: Collective
    ranks: int
    chunks: int
    length: int
    make: Callable[[int], Step] = field(compare=False, repr=False)
    owners: Integers | None = field(default=None, compare=False, repr=False)
    root: int = 0
    parts: Integers | None = field(default=None, compare=False, repr=False)
    stripes: int = 1

    @property
    def part_count(self) -> int:
        """Number of parts of the buffer that go their own ways."""
        return 1 if self.parts is None else len(self.parts)

    def stripe_of(self, part: int) -> int:
        """Which stripe a part belongs to."""
        return part * self.stripes // self.part_count

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Step]:
        return (self.make(number) for number in range(self.length))

    def named(self, name: str) -> Schedule:
        """The same under another name."""
        return replace(self, name=name)


def finer(schedule: Schedule, times: int) -> Schedule:
    """The same with chunks cut into several, so that it gets a larger part of the buffer beside others."""

    def make(number: int) -> Step:
        made = schedule.make(number)
        return replace(made, first=made.first * times, count=made.count * times)

    owners = None if schedule.owners is None else np.repeat(schedule.owners, times)
    parts = None if schedule.parts is None else schedule.parts * times
    return replace(schedule, chunks=schedule.chunks * times, make=make, owners=owners, parts=parts)


def striped(schedule: Schedule, planes: int) -> Schedule:
    """The same on equal parts of the buffer at the same time, one for each plane of a network: ``ring@2``."""
    if planes < 2:
        return schedule
    return replace(beside([schedule] * planes, f"{schedule.name}@{planes}"), stripes=planes)


def need_ranks(ranks: int, least: int = 1) -> int:
    """Check a number of ranks.

    Raises:
        ScenarioError: It is not a whole number from *least*.
    """
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < least:
        raise ScenarioError(f"{ranks!r} is no number of ranks: at least {least}", key="ranks")
    return ranks


def after(first: Schedule, second: Schedule, collective: Collective, name: str) -> Schedule:
    """One schedule, then another on the same chunks."""
    if (first.ranks, first.chunks) != (second.ranks, second.chunks):
        raise ValueError((first, second))

    def make(number: int) -> Step:
        return first.make(number) if number < first.length else second.make(number - first.length)

    same = first.parts is not None and second.parts is not None and np.array_equal(first.parts, second.parts)
    parts = first.parts if same else None
    return Schedule(name, collective, first.ranks, first.chunks, first.length + second.length, make, parts=parts)


def beside(parts: Sequence[Schedule], name: str) -> Schedule:
    """Schedules of the same collective at the same time, each on its own part of the buffer."""
    kinds = {(one.collective, one.ranks, one.root) for one in parts}
    if len(kinds) != 1:
        raise ValueError(kinds)
    starts = np.concatenate([[0], np.cumsum([one.chunks for one in parts])])

    def make(number: int) -> Step:
        steps = [
            replace(made, first=made.first + start)
            for one, start in zip(parts, starts, strict=False)
            if number < one.length
            for made in (one.make(number),)
        ]
        return merged(steps)

    owners = [one.owners for one in parts if one.owners is not None]
    firsts = [np.zeros(1, dtype=np.int64) if one.parts is None else one.parts for one in parts]
    return replace(
        parts[0],
        name=name,
        chunks=int(starts[-1]),
        length=max(one.length for one in parts),
        make=make,
        owners=np.concatenate(owners) if owners else None,
        parts=np.concatenate([one + start for one, start in zip(firsts, starts, strict=False)]),
    )


def chunk_edges(size_bytes: int, chunks: int, item_bytes: int = 4) -> Integers:
    """Where chunks begin in a buffer, and its end, in bytes: whole items, as evenly as they go.

    Raises:
        ScenarioError: The size is not a whole number of items.
    """
    if size_bytes < 0 or item_bytes < 1 or size_bytes % item_bytes:
        raise ScenarioError(f"{size_bytes} bytes are not a whole number of items of {item_bytes} bytes", key="size")
    items = size_bytes // item_bytes
    return np.arange(chunks + 1, dtype=np.int64) * items // chunks * item_bytes
