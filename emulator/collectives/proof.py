"""Proof that a schedule computes what its collective promises, by following every contribution.

Instead of numbers, chunks hold the set of ranks that have been added up in them. The proof fails if a rank sends what
it does not hold, if a contribution would be added twice, if transfers of one step get in each other's way, or if at
the end any chunk holds anything but what it should. Sets are bits, and all transfers of a step are followed at once;
chunks are treated in portions, so that hundreds of ranks need little memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.collectives.schedule import Collective, Flags, Integers, Schedule, Step
from emulator.errors import WorkloadError

_WORD = 64
DEFAULT_MEMORY_BYTES = 128 << 20

Sets = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Proof:
    """What was followed.

    Attributes:
        steps: Number of steps.
        transfers: Number of transfers.
        chunks_moved: Chunks that were sent, each as often as it was.
    """

    steps: int
    transfers: int
    chunks_moved: int


def check(schedule: Schedule, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> Proof:
    """Prove a schedule.

    Args:
        schedule: Which.
        memory_bytes: For the sets of all ranks; if they do not fit, chunks are followed in portions.

    Raises:
        WorkloadError: It does not compute what it promises; names step, rank and chunk.
    """
    if schedule.ranks < 1 or schedule.chunks < 1:
        raise WorkloadError(f"{schedule.name}: {schedule.ranks} ranks and {schedule.chunks} chunks")
    transfers = moved = 0
    for number, made in enumerate(schedule):
        _check_bounds(schedule, number, made)
        transfers += len(made)
        moved += int(made.count.sum())
    words = -(-schedule.ranks // _WORD) if schedule.collective.reduces else 1
    portion = max(1, memory_bytes // (8 * words * schedule.ranks))
    for first in range(0, schedule.chunks, portion):
        _Portion(schedule, first, min(portion, schedule.chunks - first), words).follow()
    return Proof(schedule.length, transfers, moved)


def _check_bounds(schedule: Schedule, number: int, made: Step) -> None:
    where = f"{schedule.name}, step {number}"
    if np.any(made.count < 1):
        raise WorkloadError(f"{where}: a transfer of nothing")
    for name, values, most in (
        ("source", made.source, schedule.ranks),
        ("target", made.target, schedule.ranks),
        ("chunk", made.first, schedule.chunks),
        ("last chunk", made.first + made.count - 1, schedule.chunks),
    ):
        wrong = np.flatnonzero((values < 0) | (values >= most))
        if len(wrong):
            raise WorkloadError(f"{where}: there is no {name} {values[wrong[0]]}")
    itself = np.flatnonzero(made.source == made.target)
    if len(itself):
        raise WorkloadError(f"{where}: rank {made.source[itself[0]]} sends to itself")


class _Portion:
    """The sets of some chunks of all ranks."""

    def __init__(self, schedule: Schedule, first: int, count: int, words: int) -> None:
        self._schedule = schedule
        self._chunks = np.arange(first, first + count)
        self._sets = _initial(schedule, self._chunks, words)

    def follow(self) -> None:
        for number, made in enumerate(self._schedule):
            self._apply(number, made)
        wanted, counts = _final(self._schedule, self._chunks, self._sets.shape[2])
        wrong = np.argwhere(counts & np.any(self._sets != wanted, axis=2))
        if len(wrong):
            rank, place = wrong[0]
            raise WorkloadError(
                f"{self._schedule.name}: at the end rank {rank} has "
                f"{_members(self._sets[rank, place])} in chunk {self._chunks[place]}"
            )

    def _apply(self, number: int, made: Step) -> None:
        source, target, place, reduce = self._expand(made)
        if not len(source):
            return
        sent = self._sets[source, place]
        empty = np.flatnonzero(~sent.any(axis=1))
        if len(empty):
            raise self._error(number, source[empty[0]], place[empty[0]], "sends", "which it does not hold")
        for chosen in self._rounds(number, target, place, reduce):
            there = self._sets[target[chosen], place[chosen]]
            twice = np.flatnonzero((there & sent[chosen]).any(axis=1) & reduce[chosen])
            if len(twice):
                one = chosen[twice[0]]
                raise self._error(number, target[one], place[one], "adds to", "what is in it already")
            self._sets[target[chosen], place[chosen]] = np.where(
                reduce[chosen, None], there | sent[chosen], sent[chosen]
            )

    def _expand(self, made: Step) -> tuple[Integers, Integers, Integers, Flags]:
        """Transfers of single chunks of this portion, by their place in it."""
        low = np.maximum(made.first, self._chunks[0])
        high = np.minimum(made.first + made.count, self._chunks[-1] + 1)
        lengths = np.maximum(high - low, 0)
        which = np.repeat(np.arange(len(made)), lengths)
        within = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return made.source[which], made.target[which], low[which] - self._chunks[0] + within, made.reduce[which]

    def _rounds(self, number: int, target: Integers, place: Integers, reduce: Flags) -> list[Integers]:
        """Transfers in portions none of which has the same target twice; only additions may have the same one."""
        keys = target * len(self._chunks) + place
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        sizes = np.diff(np.concatenate([starts, [len(ordered)]]))
        if sizes.max() == 1:
            return [np.arange(len(keys))]
        turn = np.arange(len(ordered)) - np.repeat(starts, sizes)
        shared = order[np.repeat(sizes, sizes) > 1]
        replaced = shared[~reduce[shared]]
        if len(replaced):
            one = replaced[0]
            raise self._error(number, target[one], place[one], "replaces", "while something else arrives in it")
        return [order[turn == one] for one in range(int(sizes.max()))]

    def _error(self, number: int, rank: int, place: int, does: str, why: str) -> WorkloadError:
        return WorkloadError(
            f"{self._schedule.name}, step {number}: rank {rank} {does} chunk {self._chunks[place]}, {why}"
        )


def _members(sets: Sets) -> str:
    """A set in words."""
    bits = [rank for rank in range(len(sets) * _WORD) if int(sets[rank // _WORD]) >> rank % _WORD & 1]
    return f"the sum of {len(bits)} ranks" if bits else "nothing"


def _everyone(ranks: int, words: int) -> Sets:
    return np.array([(1 << min(_WORD, max(0, ranks - _WORD * word))) - 1 for word in range(words)], dtype=np.uint64)


def _initial(schedule: Schedule, chunks: Integers, words: int) -> Sets:
    """What each rank holds of each chunk before the first step: its own contribution, or data that only some have."""
    ranks = np.arange(schedule.ranks)
    sets = np.zeros((schedule.ranks, len(chunks), words), dtype=np.uint64)
    if schedule.collective.reduces:
        sets[ranks, :, ranks // _WORD] = (np.uint64(1) << (ranks % _WORD).astype(np.uint64))[:, None]
    elif schedule.collective is Collective.BROADCAST:
        sets[schedule.root] = 1
    else:
        owners = chunks // schedule.ranks if schedule.collective is Collective.ALL_TO_ALL else _owners(schedule)[chunks]
        sets[owners, np.arange(len(chunks))] = 1
    return sets


def _final(schedule: Schedule, chunks: Integers, words: int) -> tuple[Sets, Flags]:
    """What each chunk must hold after the last step, and for which ranks it matters."""
    everything = np.ones((schedule.ranks, len(chunks)), dtype=bool)
    whole = _everyone(schedule.ranks, words) if schedule.collective.reduces else np.ones(1, dtype=np.uint64)
    kind = schedule.collective
    if kind in (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.ALL_GATHER):
        return whole, everything
    matters = np.zeros_like(everything)
    if kind is Collective.REDUCE:
        matters[schedule.root] = True
    else:
        owners = chunks % schedule.ranks if kind is Collective.ALL_TO_ALL else _owners(schedule)[chunks]
        matters[owners, np.arange(len(chunks))] = True
    return whole, matters


def _owners(schedule: Schedule) -> Integers:
    owners = schedule.owners
    if owners is None or len(owners) != schedule.chunks or owners.min() < 0 or owners.max() >= schedule.ranks:
        raise WorkloadError(f"{schedule.name}: it is not said which rank has each chunk")
    return owners
