"""Tori as arithmetic: places, neighbours, distances and shortest ways, straight and twisted.

In a twisted torus the links that close the short dimensions arrive shifted along the long ones. With a twist of *k* in
k×k×2k and k×2k×2k these are the twisted tori of TPU v4 (Jouppi et al., ISCA 2023), known before as the face-centred and
body-centred cubic lattices of Camarero, Martinez and Beivide (Lattice Graphs for High-Scale Interconnection
Topologies, 2014), and in two dimensions as Camara's rectangular twisted torus. All are Cayley graphs of an abelian
group: the network looks the same from each card, so distances are computed once, from the origin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from emulator.errors import TopologyError

Place = tuple[int, ...]
"""Coordinates of a card."""


@dataclass(frozen=True, order=True)
class Direction:
    """A dimension and which way along it: ``sign`` is 1 or -1."""

    dimension: int
    sign: int


@dataclass(frozen=True)
class Lattice:
    """A torus.

    Attributes:
        shape: Cards in each dimension, each at least 1.
        twist: How far links that close a short dimension are shifted along each long one; 0: a straight torus.

    Raises:
        TopologyError: A twist in a torus that has not exactly two different sizes above 1, or one beyond the longer.
    """

    shape: Place
    twist: int = 0

    def __post_init__(self) -> None:
        if not self.twist:
            return
        sizes = sorted({size for size in self.shape if size > 1})
        if len(sizes) != 2:
            raise TopologyError(f"only tori with two different sizes above 1 can be twisted, not {self}", key="twist")
        if not 0 < self.twist < sizes[1]:
            raise TopologyError(f"{self.twist} is out of range: 0 to {sizes[1] - 1}", key="twist")

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def cards(self) -> int:
        """Number of cards."""
        return prod(self.shape)

    @cached_property
    def long(self) -> tuple[bool, ...]:
        """Whether each dimension is shifted by the twist, rather than closed with it."""
        longest = max(self.shape)
        return tuple(bool(self.twist) and size == longest for size in self.shape)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which each card has a link of its own, in the order of ports.

        A straight dimension of two cards has one link, not two, and one of a single card has none.
        """
        return tuple(
            Direction(dimension, sign)
            for dimension, size in enumerate(self.shape)
            for sign in (1, -1)
            if size > 2 or (size == 2 and (sign == 1 or (self.twist and not self.long[dimension])))
        )

    def places(self) -> Iterator[Place]:
        """All cards; the last coordinate changes fastest."""
        return product(*map(range, self.shape))

    def index(self, place: Place) -> int:
        """Number of a card in that order."""
        index = 0
        for value, size in zip(place, self.shape, strict=True):
            index = index * size + value
        return index

    def reduce(self, vector: Place) -> Place:
        """The card that a vector from the origin leads to."""
        place, turns = [], 0
        for value, size, long in zip(vector, self.shape, self.long, strict=True):
            place.append(value if long else value % size)
            turns += 0 if long else value // size
        if not self.twist:
            return tuple(place)
        return tuple(
            (value + turns * self.twist) % size if long else value
            for value, size, long in zip(place, self.shape, self.long, strict=True)
        )

    def neighbour(self, place: Place, direction: Direction) -> Place:
        """The card that one link leads to."""
        ahead = list(place)
        ahead[direction.dimension] += direction.sign
        return self.reduce(tuple(ahead))

    def offset(self, source: Place, target: Place) -> Place:
        """The card that is as far from the origin, and in the same directions, as *target* is from *source*."""
        return self.reduce(tuple(b - a for a, b in zip(source, target, strict=True)))

    @cached_property
    def _distances(self) -> dict[Place, int]:
        origin = (0,) * len(self.shape)
        distances, frontier = {origin: 0}, deque([origin])
        while frontier:
            here = frontier.popleft()
            for direction in self.directions:
                there = self.neighbour(here, direction)
                if there not in distances:
                    distances[there] = distances[here] + 1
                    frontier.append(there)
        return distances

    def distance(self, source: Place, target: Place) -> int:
        """Links on a shortest way."""
        return self._distances[self.offset(source, target)]

    @cached_property
    def _ways(self) -> dict[Place, tuple[Direction, ...]]:
        distances, origin = self._distances, (0,) * len(self.shape)
        steps = [(direction, self.neighbour(origin, direction)) for direction in self.directions]
        return {
            place: tuple(direction for direction, step in steps if distances[self.offset(step, place)] < distance)
            for place, distance in distances.items()
        }

    def ways(self, source: Place, target: Place) -> tuple[Direction, ...]:
        """All directions in which a shortest way starts; empty if the cards are the same."""
        return self._ways[self.offset(source, target)]

    def next(self, source: Place, target: Place) -> Direction:
        """The direction of dimension-order routing: the first dimension first, along a shortest way.

        Where both ways around a ring are equally long, cards with an even coordinate go up and the others down, so
        that the ring's two directions get the same load, or almost.
        """
        ways = self.ways(source, target)
        tied = len(ways) > 1 and ways[0].dimension == ways[1].dimension
        return ways[1] if tied and source[ways[0].dimension] % 2 else ways[0]

    @cached_property
    def uniform_loads(self) -> dict[Direction, float]:
        """Flows on the links of each direction, if every card has one to every other on all shortest ways evenly."""
        used: dict[Place, dict[Direction, float]] = {}
        total = dict.fromkeys(self.directions, 0.0)
        steps = {direction: self.neighbour((0,) * len(self.shape), direction) for direction in self.directions}
        for place, _ in sorted(self._distances.items(), key=lambda entry: entry[1]):
            ways = self._ways[place]
            hops = dict.fromkeys(self.directions, 0.0)
            for way in ways:
                hops[way] += 1 / len(ways)
                for direction, share in used[self.offset(steps[way], place)].items():
                    hops[direction] += share / len(ways)
            used[place] = hops
            for direction, share in hops.items():
                total[direction] += share
        return total

    @property
    def diameter(self) -> int:
        """Links on the longest shortest way."""
        return max(self._distances.values())

    @property
    def mean_hops(self) -> float:
        """Links on a shortest way, on average over all pairs of different cards."""
        return sum(self._distances.values()) / (self.cards - 1) if self.cards > 1 else 0.0
