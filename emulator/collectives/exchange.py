"""All-to-all: everyone has something else for everyone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from emulator.collectives.schedule import Collective, Schedule, Step, need_ranks, step


def shifted_exchange(ranks: int) -> Schedule:
    """Each rank sends directly to the one after it, to the one after that, and so on: in each step to one rank."""
    here = np.arange(need_ranks(ranks))

    def make(number: int) -> Step:
        there = (here + number + 1) % ranks
        return step(here, there, here * ranks + there, 1, False)

    return Schedule("shift", Collective.ALL_TO_ALL, ranks, ranks * ranks, ranks - 1, make)


def torus_exchange(shape: Sequence[int]) -> Schedule:
    """Along one dimension after the other: each rank sends what is for other coordinates, and passes on what it got.

    Everything moves up to as often as there are dimensions, but in Σ(k-1) steps instead of N-1, and no path turns.

    Raises:
        ScenarioError: A dimension without ranks.
    """
    for size in shape:
        need_ranks(size)
    ranks = prod(shape)
    places = np.indices(tuple(shape)).reshape(len(shape), -1)
    plan = [(dimension, shift) for dimension, size in enumerate(shape) for shift in range(1, size)]

    def make(number: int) -> Step:
        dimension, shift = plan[number]
        # Chunk (i, j) is by now where the coordinates before this dimension are j's and the others i's.
        origin, goal = np.divmod(np.arange(ranks * ranks), ranks)
        at = places[:, origin].copy()
        at[:dimension] = places[:dimension, goal]
        moves = (places[dimension, goal] - at[dimension]) % shape[dimension] == shift
        at, chunks = at[:, moves], np.flatnonzero(moves)
        ahead = at.copy()
        ahead[dimension] = (at[dimension] + shift) % shape[dimension]
        source, target = (np.ravel_multi_index(tuple(one), tuple(shape)) for one in (at, ahead))
        return step(source, target, chunks, 1, False)

    return Schedule("torus-exchange", Collective.ALL_TO_ALL, ranks, ranks * ranks, len(plan), make)
