"""Rings through all cards of a torus that have no link in common.

A torus with sides above 2 falls apart into as many such rings as it has dimensions (Kotzig 1973 for two dimensions,
Foregger 1978 for three, Aubert and Schneider 1982 for more; with equal sides see also Bae and Bose, Edge Disjoint
Hamiltonian Cycles in k-ary n-Cubes and Hypercubes, 2003). They are found here by exchange. In the beginning each
dimension is a set of rings, its own lines. In a square of four cards, two opposite links of which belong to one set
and the other two to another one, the sets can swap their links: every card keeps two links of each set, and where the
two links of a set belonged to different rings, these become one. Swaps that join rings in one set and part none in the
other are taken as they are found; when there is none, one that joins in one set and parts in the other, by chance from
a fixed seed, and it goes on. A dimension of two cards has one link between each two: it gives no ring, but takes part
in swaps.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import combinations, product
from math import prod

from emulator.errors import InternalError, ScenarioError

_SEED = 20_030_501
_ATTEMPTS = 20
_PATIENCE = 40
"""Swaps without gain, in the number of rings to be joined, before starting anew."""

Link = tuple[int, int]


@lru_cache(maxsize=32)
def torus_cycles(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Rings through all ranks of a straight torus, without common links, as many as there are.

    Args:
        shape: Ranks in each dimension.

    Returns:
        Ranks around each ring, from rank 0 on. With dimensions of two ranks only, one ring if there are two such
        dimensions or more, as rings through a hypercube.

    Raises:
        ScenarioError: There is no ring through the torus.
    """
    sides = tuple(size for size in shape if size > 1)
    if prod(sides) < 3:
        raise ScenarioError(f"{'x'.join(map(str, shape))} is no torus with a ring through it", key="shape")
    if len(sides) == 1:
        return (tuple(range(sides[0])),)
    fixed = [number for number, size in enumerate(sides) if size > 2]
    if not fixed:
        return (_gray(len(sides)),)
    for attempt in range(_ATTEMPTS):
        search = _Search(sides, fixed, random.Random(_SEED + attempt))  # noqa: S311 - not for secrets
        if search.run():
            return tuple(search.ring(dimension) for dimension in fixed)
    raise InternalError(f"no rings found through a torus of {'x'.join(map(str, shape))}")


def _gray(dimensions: int) -> tuple[int, ...]:
    """A ring through a hypercube."""
    return tuple(number ^ number >> 1 for number in range(1 << dimensions))


class _Search:
    """Links by set, and rings of each set.

    Args:
        sides: Of the torus, each above 1.
        fixed: Dimensions that are to become one ring each.
        chance: For swaps without gain.
    """

    def __init__(self, sides: tuple[int, ...], fixed: list[int], chance: random.Random) -> None:
        self._fixed = fixed
        self._chance = chance
        self._cards = prod(sides)
        self._beside: list[list[set[int]]] = [[set() for _ in range(self._cards)] for _ in sides]
        self._owner: dict[Link, int] = {}
        self._squares: list[tuple[int, int, int, int]] = []
        weights = [prod(sides[number + 1 :]) for number in range(len(sides))]

        def ahead(place: tuple[int, ...], dimension: int) -> int:
            moved = (place[dimension] + 1) % sides[dimension]
            return sum(
                w * (moved if n == dimension else v) for n, (w, v) in enumerate(zip(weights, place, strict=True))
            )

        places = list(product(*map(range, sides)))
        for card, place in enumerate(places):
            for dimension in range(len(sides)):
                self._put(dimension, card, ahead(place, dimension))
            for one, other in combinations(range(len(sides)), 2):
                right = ahead(place, one)
                self._squares.append((card, right, ahead(places[right], other), ahead(place, other)))
        self._ring_of: list[list[int]] = [[] for _ in sides]
        self._rings = [self._count(dimension) for dimension in range(len(sides))]

    def run(self) -> bool:
        """Swap until every set is one ring; False: not found."""
        idle = 0
        while any(self._rings[dimension] > 1 for dimension in self._fixed):
            self._chance.shuffle(self._squares)
            gained = sum(self._try(square, sideways=False) for square in self._squares)
            idle = 0 if gained else idle + 1
            if idle > _PATIENCE * len(self._fixed):
                return False
            if not gained:
                next((square for square in self._squares if self._try(square, sideways=True)), None)
        return True

    def ring(self, dimension: int) -> tuple[int, ...]:
        """The ranks around the ring of a set."""
        found, here, before = [0], min(self._beside[dimension][0]), 0
        while here != 0:
            found.append(here)
            here, before = next(iter(self._beside[dimension][here] - {before})), here
        return tuple(found)

    def _try(self, square: tuple[int, int, int, int], *, sideways: bool) -> bool:
        """Swap the links of a square if rings become fewer, or, sideways, if they do not become more."""
        a, b, c, d = square
        one, other = self._owner[_link(a, b)], self._owner[_link(b, c)]
        if one == other or self._owner[_link(c, d)] != one or self._owner[_link(d, a)] != other:
            return False
        # Two rings of a set certainly become one; one ring may stay one, or fall in two.
        joined = [
            dimension in self._fixed and self._ring_of[dimension][first] != self._ring_of[dimension][second]
            for dimension, first, second in ((one, a, c), (other, b, d))
        ]
        if not any(joined):
            return False
        before = self._unjoined(one, other)
        self._swap(square, one, other)
        self._recount(one, other)
        change = self._unjoined(one, other) - before
        if change < 0 or (sideways and change == 0):
            return True
        self._swap((b, c, d, a), one, other)
        self._recount(one, other)
        return False

    def _unjoined(self, one: int, other: int) -> int:
        return sum(self._rings[dimension] for dimension in (one, other) if dimension in self._fixed)

    def _recount(self, *dimensions: int) -> None:
        for dimension in dimensions:
            if dimension in self._fixed:
                self._rings[dimension] = self._count(dimension)

    def _swap(self, square: tuple[int, int, int, int], one: int, other: int) -> None:
        a, b, c, d = square
        for first, second in ((a, b), (c, d)):
            self._take(one, first, second)
            self._put(other, first, second)
        for first, second in ((b, c), (d, a)):
            self._take(other, first, second)
            self._put(one, first, second)

    def _put(self, dimension: int, first: int, second: int) -> None:
        self._beside[dimension][first].add(second)
        self._beside[dimension][second].add(first)
        self._owner[_link(first, second)] = dimension

    def _take(self, dimension: int, first: int, second: int) -> None:
        self._beside[dimension][first].discard(second)
        self._beside[dimension][second].discard(first)

    def _count(self, dimension: int) -> int:
        """Rings of a set; notes which of them each card is on."""
        beside, ring_of, rings = self._beside[dimension], [-1] * self._cards, 0
        for start in range(self._cards):
            if ring_of[start] >= 0:
                continue
            pending = [start]
            while pending:
                here = pending.pop()
                if ring_of[here] < 0:
                    ring_of[here] = rings
                    pending.extend(beside[here])
            rings += 1
        self._ring_of[dimension] = ring_of
        return rings


def _link(first: int, second: int) -> Link:
    return (first, second) if first < second else (second, first)
