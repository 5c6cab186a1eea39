"""A schedule as what each rank does: messages in the order of each connection, and what must be done before what.

Transfers of a step between the same two ranks make one *message*. Messages of one part of the buffer (see
`Schedule.parts`) between the same two ranks share a *connection*, on which they follow each other in the order of their
steps, so that nothing but data has to be sent.

A rank need not go from step to step: what it does with chunks that have nothing to do with each other can go on
independently. Chunks that are never in a message together make different *strands*. In each strand a rank sends what a
step says, then takes in what arrives in that step, then goes on to the next: a stage begins when the one before is
over. Everything depends on earlier stages only, so ranks cannot wait for each other in a circle.

Messages of nothing, where a buffer has fewer items than chunks, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from emulator.collectives.schedule import Collective, Flags, Integers, Schedule, Step
from emulator.errors import ScenarioError

Connection = tuple[int, int, int]
"""Rank that sends, rank that receives, part of the buffer."""

MOST_MESSAGES = 4_000_000


@dataclass(frozen=True)
class Messages:
    """All messages of a schedule, in the order of steps.

    Attributes:
        ranks: How many take part.
        connections: Who sends to whom.
        connection: Number of each message's connection.
        source, target: Its ranks.
        step: Its step.
        reduce: Whether what arrives is added.
        strand: Number of its strand.
        ranges: Where the chunks of each message begin in `first` and `count`, and the end.
        first, count: Consecutive chunks, by range.
        last_use: Whether the sending rank needs none of these chunks any more.
    """

    ranks: int
    connections: tuple[Connection, ...]
    connection: Integers
    source: Integers
    target: Integers
    step: Integers
    reduce: Flags
    strand: Integers
    ranges: Integers
    first: Integers
    count: Integers
    last_use: Flags

    def __len__(self) -> int:
        return len(self.source)

    def sizes(self, edges: Integers) -> Integers:
        """How much each message carries, in the unit of where chunks begin."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(edges[self.first + self.count] - edges[self.first], self.ranges[:-1])


@dataclass(frozen=True)
class Stages:
    """What ranks do, in stages: messages that are sent, or taken in, before the same rank and strand goes on.

    Attributes:
        of_rank: First stage of each rank, and the end.
        messages: Where each stage's messages begin in `message`, and the end.
        message: Numbers of messages.
        receives: Whether a stage takes messages in.
        following: The next stage of the same rank and strand, -1: there is none.
        opening: Stages that begin at once.
        sends_in, arrives_in: The stage in which each message is sent, and taken in.
    """

    of_rank: Integers
    messages: Integers
    message: Integers
    receives: Flags
    following: Integers
    opening: Integers
    sends_in: Integers
    arrives_in: Integers


def messages_of(schedule: Schedule, edges: Integers) -> Messages:
    """The messages of a schedule.

    Args:
        schedule: Which.
        edges: Where its chunks begin in the buffer, and the end.

    Raises:
        ScenarioError: There are too many to be carried out one by one.
    """
    made = [_merged(schedule, number, one) for number, one in enumerate(_filled(schedule, edges))]
    total = sum(len(one.source) for one in made)
    if total > MOST_MESSAGES:
        raise ScenarioError(
            f"{schedule.name} makes {total} messages, at most {MOST_MESSAGES} are sent", key="algorithm"
        )
    source, target, step, part = (
        np.concatenate([getattr(one, name) for one in made] or [np.zeros(0, dtype=np.int64)])
        for name in ("source", "target", "step", "part")
    )
    reduce = np.concatenate([one.reduce for one in made] or [np.zeros(0, dtype=bool)])
    sizes = np.concatenate([one.sizes for one in made] or [np.zeros(0, dtype=np.int64)])
    first, count = (
        np.concatenate([getattr(one, name) for one in made] or [np.zeros(0, dtype=np.int64)])
        for name in ("first", "count")
    )
    ranges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    parts = schedule.part_count
    keys, connection = np.unique((source * schedule.ranks + target) * parts + part, return_inverse=True)
    pairs, in_part = np.divmod(keys, parts)
    connections = tuple(
        zip((pairs // schedule.ranks).tolist(), (pairs % schedule.ranks).tolist(), in_part.tolist(), strict=True)
    )
    return Messages(
        ranks=schedule.ranks,
        connections=connections,
        connection=connection.reshape(-1),
        source=source,
        target=target,
        step=step,
        reduce=reduce,
        strand=_strands(schedule.chunks, ranges, first, count),
        ranges=ranges,
        first=first,
        count=count,
        last_use=_last_uses(schedule, made),
    )


def stages_of(messages: Messages) -> Stages:
    """The order in which each rank does its part."""
    total = len(messages)
    number = np.concatenate([np.arange(total), np.arange(total)])
    receives: Flags = np.repeat([False, True], total)
    rank = np.where(receives, np.tile(messages.target, 2), np.tile(messages.source, 2))
    strand, step = np.tile(messages.strand, 2), np.tile(messages.step, 2)
    order = np.lexsort((number, receives, step, strand, rank))
    receives = receives[order]
    number, rank, strand, step = (one[order] for one in (number, rank, strand, step))
    begins = runs(rank, strand, step, receives)
    stage = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    same = (rank[starts][1:] == rank[starts][:-1]) & (strand[starts][1:] == strand[starts][:-1])
    following = np.full(len(starts), -1, dtype=np.int64)
    following[:-1][same] = np.flatnonzero(same) + 1
    sends_in, arrives_in = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    sends_in[number[~receives]] = stage[~receives]
    arrives_in[number[receives]] = stage[receives]
    return Stages(
        of_rank=np.searchsorted(rank[starts], np.arange(messages.ranks + 1)),
        messages=np.append(starts, 2 * total),
        message=number,
        receives=receives[starts],
        following=following,
        opening=np.flatnonzero(np.concatenate([[True], ~same])) if total else np.zeros(0, dtype=np.int64),
        sends_in=sends_in,
        arrives_in=arrives_in,
    )


def connection_orders(messages: Messages) -> list[list[int]]:
    """The messages of each connection in the order in which they leave."""
    order = np.argsort(messages.connection, kind="stable")
    bounds = np.searchsorted(messages.connection[order], np.arange(len(messages.connections) + 1)).tolist()
    numbers: list[int] = order.tolist()
    return [numbers[begin:end] for begin, end in pairwise(bounds)]


def runs(*columns: Integers | Flags) -> Flags:
    """Where sorted rows begin to be others than those before: in any of their columns."""
    begins = np.ones(len(columns[0]), dtype=bool)
    begins[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in columns])
    return begins


def needed(schedule: Schedule) -> list[Integers | None]:
    """The chunks that each rank must have in the end; None: all."""
    ranks = range(schedule.ranks)
    kind = schedule.collective
    if kind in (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.ALL_GATHER):
        return [None for _ in ranks]
    if kind is Collective.REDUCE:
        return [None if rank == schedule.root else np.zeros(0, dtype=np.int64) for rank in ranks]
    if kind is Collective.ALL_TO_ALL:
        return [np.arange(schedule.ranks, dtype=np.int64) * schedule.ranks + rank for rank in ranks]
    return [np.flatnonzero(schedule.owners == rank) for rank in ranks]


@dataclass(frozen=True)
class _Merged:
    """The messages of one step, and their ranges of chunks one after the other."""

    source: Integers
    target: Integers
    part: Integers
    step: Integers
    reduce: Flags
    sizes: Integers
    first: Integers
    count: Integers


def _filled(schedule: Schedule, edges: Integers) -> Iterator[Step]:
    """The steps without transfers of nothing."""
    for made in schedule:
        full = edges[made.first + made.count] > edges[made.first]
        yield Step(*(one[full] for one in (made.source, made.target, made.first, made.count, made.reduce)))


def _merged(schedule: Schedule, number: int, made: Step) -> _Merged:
    """One message for all transfers of a step between two ranks in one part, neighbouring chunks in one range."""
    parts = np.zeros(len(made), dtype=np.int64)
    if schedule.parts is not None:
        parts = np.searchsorted(schedule.parts, made.first, side="right") - 1
    order = np.lexsort((made.first, made.reduce, made.target, made.source, parts))
    reduce = made.reduce[order]
    part, source, target, first, count = (
        one[order] for one in (parts, made.source, made.target, made.first, made.count)
    )
    begins = runs(part, source, target, reduce)
    apart = begins.copy()
    apart[1:] |= first[1:] != (first + count)[:-1]
    starts, pieces = np.flatnonzero(begins), np.flatnonzero(apart)
    return _Merged(
        source=source[starts],
        target=target[starts],
        part=part[starts],
        step=np.full(len(starts), number, dtype=np.int64),
        reduce=reduce[starts],
        sizes=np.diff(np.append(np.searchsorted(pieces, starts), len(pieces))),
        first=first[pieces],
        count=np.add.reduceat(count, pieces) if len(pieces) else count,
    )


def _strands(chunks: int, ranges: Integers, first: Integers, count: Integers) -> Integers:
    """Which messages have chunks in common, by way of others too: the number of each one's set."""
    joined = np.zeros(chunks + 1, dtype=np.int64)
    np.add.at(joined, first, 1)
    np.add.at(joined, first + count - 1, -1)
    # Chunk i and the next one are in a range together where more ranges began than ended.
    row = np.concatenate([[0], np.cumsum(np.cumsum(joined)[: chunks - 1] == 0)])
    of_range = row[first]
    parents = list(range(int(row[-1]) + 1))

    def root(one: int) -> int:
        while parents[one] != one:
            parents[one] = parents[parents[one]]
            one = parents[one]
        return one

    leading = np.repeat(of_range[ranges[:-1]], np.diff(ranges))
    pairs = np.unique(np.stack([leading, of_range])[:, leading != of_range], axis=1)
    for one, other in pairs.T.tolist():
        parents[root(other)] = root(one)
    found = np.array([root(one) for one in range(len(parents))], dtype=np.int64)
    return found[of_range[ranges[:-1]]] if len(first) else np.zeros(0, dtype=np.int64)


def _last_uses(schedule: Schedule, made: list[_Merged]) -> Flags:
    """Whether what a message takes along is replaced at its source, or of no use there, before it is read again."""
    alive = np.zeros((schedule.ranks, schedule.chunks), dtype=bool)
    for rank, chunks in enumerate(needed(schedule)):
        alive[rank, slice(None) if chunks is None else chunks] = True
    found = []
    for one in reversed(made):
        which = np.repeat(np.arange(len(one.source)), one.sizes)
        message, chunk = _chunks(which, one.first, one.count)
        alive[one.target[message], chunk] = one.reduce[message]
        used = np.zeros(len(one.source), dtype=bool)
        np.logical_or.at(used, message, alive[one.source[message], chunk])
        alive[one.source[message], chunk] = True
        found.append(~used)
    return np.concatenate(found[::-1] or [np.zeros(0, dtype=bool)])


def _chunks(which: Integers, first: Integers, count: Integers) -> tuple[Integers, Integers]:
    """Ranges as single chunks: what each belongs to, and its number."""
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(which, count), np.repeat(first, count) + within
