"""Collectives for tori: rings along the dimensions, so that every transfer crosses a single link.

Ranks count through the torus with the last coordinate changing fastest, as cards do.

*One dimension after the other* (`torus_rings`): ranks reduce-scatter along the first dimension, then what is left
along the second, and so on, and gather in reverse. It takes 2·Σ(k-1) steps where a ring takes 2(N-1), with as little
data. But only one of a card's links is in use at a time.

*All dimensions at once* (`torus_buckets`): the buffer is divided among as many of these schedules as a card has links.
They begin with different dimensions and go around in both directions, so that in every step each of them uses another
link (the multi-ported bucket algorithm of Sack and Gropp, Collective Algorithms for Multiported Torus Networks, 2015).
In a torus with equal sides all links of all cards are busy from the first to the last step, and the time for large
messages is the least there is: 2(N-1)/N of the buffer over all links of a card. Where sides differ some wait.

*Hamiltonian rings* (`torus_hamiltonian`): rings through all cards that have no link in common, in both directions,
each with an equal part of the buffer. All links are busy whatever the sides, at the price of 2(N-1) steps; see
`hamiltonian`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

import numpy as np

from emulator.collectives.hamiltonian import torus_cycles
from emulator.collectives.ring import rings
from emulator.collectives.schedule import Collective, Integers, Schedule, Step, after, beside, finer, need_ranks, step
from emulator.errors import ScenarioError

Shape = Sequence[int]


def torus_rings(collective: Collective, shape: Shape) -> Schedule:
    """One dimension after the other.

    Args:
        collective: All-reduce, reduce-scatter or all-gather.
        shape: Ranks in each dimension.

    Raises:
        ScenarioError: No such torus, or another collective.
    """
    dimensions = _dimensions(shape)
    return _by_dimensions(collective, tuple(shape), dimensions, 1, "torus-rings")


def torus_buckets(collective: Collective, shape: Shape) -> Schedule:
    """All dimensions at once, in both directions (see `torus_rings`).

    What begins with a longer dimension gets a larger part of the buffer, so that the first steps, which move most, take
    the same time on all links.
    """
    dimensions = _dimensions(shape)
    common = gcd(*(shape[number] for number in dimensions))
    parts = [
        finer(
            _by_dimensions(collective, tuple(shape), dimensions[start:] + dimensions[:start], sign, "torus-buckets"),
            shape[dimension] // common,
        )
        for start, dimension in enumerate(dimensions)
        for sign in (1, -1)
    ]
    return beside(parts, "torus-buckets")


def torus_hamiltonian(collective: Collective, shape: Shape) -> Schedule:
    """Rings through all ranks without common links, all at once, in both directions (see `torus_rings`)."""
    _dimensions(shape)
    return rings(collective, torus_cycles(tuple(shape)), "torus-hamiltonian")


def _dimensions(shape: Shape) -> list[int]:
    for size in shape:
        need_ranks(size)
    found = [number for number, size in enumerate(shape) if size > 1]
    if len(found) < 2:
        raise ScenarioError(f"{'x'.join(map(str, shape))} is no torus of two dimensions or more", key="shape")
    return found


def _by_dimensions(collective: Collective, shape: tuple[int, ...], order: list[int], sign: int, name: str) -> Schedule:
    parts = _Dimensions(shape, order, sign)
    if collective is Collective.REDUCE_SCATTER:
        return parts.schedule(collective, name)
    if collective is Collective.ALL_GATHER:
        return parts.schedule(collective, name)
    if collective is Collective.ALL_REDUCE:
        scatter = parts.schedule(Collective.REDUCE_SCATTER, name)
        return after(scatter, parts.schedule(Collective.ALL_GATHER, name), collective, name)
    raise ScenarioError(f"rings in a torus do no {collective.value}", key="collective")


class _Dimensions:
    """Rings along dimensions in an order, up or down.

    Chunks are numbered by the coordinates of their owner, the first dimension of the order first, so that what a rank
    is left with after each dimension is consecutive.
    """

    def __init__(self, shape: tuple[int, ...], order: list[int], sign: int) -> None:
        self._ranks = prod(shape)
        self._sign = sign
        places = np.indices(shape).reshape(len(shape), -1)
        self._own = np.zeros(self._ranks, dtype=np.int64)
        #: For each dimension: coordinates, size, chunks of a part, first chunk of what a rank has, next rank.
        self._phases: list[tuple[Integers, int, int, Integers, Integers]] = []
        width = self._ranks
        for dimension in order:
            size, here = shape[dimension], places[dimension]
            width //= size
            ahead = places.copy()
            ahead[dimension] = (here + sign) % size
            neighbour = np.asarray(np.ravel_multi_index(tuple(ahead), shape))
            self._phases.append((here, size, width, self._own.copy(), neighbour))
            self._own += here * width

    def schedule(self, collective: Collective, name: str) -> Schedule:
        scatter = collective is Collective.REDUCE_SCATTER
        phases = self._phases if scatter else self._phases[::-1]
        plan = [(phase, number) for phase in phases for number in range(phase[1] - 1)]
        ranks = np.arange(self._ranks)

        def make(number: int) -> Step:
            (here, size, width, base, neighbour), turn = plan[number]
            part = (here - self._sign * (turn + 1 if scatter else turn)) % size
            return step(ranks, neighbour, base + part * width, width, scatter)

        owners = np.argsort(self._own)
        return Schedule(name, collective, self._ranks, self._ranks, len(plan), make, owners=owners)
