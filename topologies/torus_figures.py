"""Figures of tori as formulas, or as sums over one card where a twist leaves no formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, cos, pi, prod

from emulator.model.fabric import Fabric
from topologies import cards
from topologies.figures import Bisection, Figures
from topologies.lattice import Lattice, Place

_BEST_CUTS = 64
"""Waves that are tried for the cut of a twisted torus."""


def torus_bisection_links(shape: Place) -> int:
    """Links between the halves of a straight torus, exact.

    A ring is cut at two links; if its size is even, halving every ring of the largest dimension cuts 2N/k links, and
    uniform traffic in dimension order loads each of these links equally, which proves that no cut has less. If it is
    odd, the row in the middle has to be halved along the next dimension, and so on (Aroca and Fernández Anta,
    Bisection (Band)Width of Product Networks, 2014). Two cards in a dimension have one link and not two, so that such a
    dimension costs as much to cut as one of four.
    """
    ordered = sorted((size for size in shape if size > 1), key=lambda size: 4 if size == 2 else size, reverse=True)
    links = 0
    for number, size in enumerate(ordered):
        links += (1 if size == 2 else 2) * prod(ordered[number + 1 :])
        if size % 2 == 0:
            break
    return links


def torus(fabric: Fabric) -> Figures:
    """Figures of a `torus3d`."""
    shape = tuple(cards.number(fabric, key) for key in "xyz")
    return lattice_figures(Lattice(shape, cards.number(fabric, "twist")), cards.number(fabric, "rate_bps"))


def lattice_figures(lattice: Lattice, rate: int) -> Figures:
    """Figures of a torus with links of *rate* bit/s."""
    shape = lattice.shape
    ports = lattice.cards * len(lattice.directions)
    busiest = max(lattice.uniform_loads.values())
    bisection = (
        twisted_bisection(lattice, rate) if lattice.twist else Bisection.exactly(torus_bisection_links(shape) * rate)
    )
    return Figures(
        cards=lattice.cards,
        switches=0,
        links=ports // 2,
        card_ports=ports,
        switch_ports=0,
        diameter_hops=lattice.diameter if lattice.twist else sum(size // 2 for size in shape),
        mean_hops=lattice.mean_hops if lattice.twist else mean_hops(shape) * lattice.cards / (lattice.cards - 1),
        bisection=bisection,
        uniform_bps=(lattice.cards - 1) * rate / busiest,
    )


def mean_hops(shape: Place) -> float:
    """Links between two cards of a straight torus, a card and itself included."""
    return sum(size * size // 4 / size for size in shape)


def twisted_bisection(lattice: Lattice, rate_bps: int) -> Bisection:
    """Bounds for a twisted torus.

    From below by uniform traffic on all shortest ways. From above by slabs: cards on one side of a plane through the
    torus, for the waves that go around it the fewest times.
    """
    half = lattice.cards // 2
    least = ceil(half * (lattice.cards - half) / max(lattice.uniform_loads.values()) - 1e-9)
    most = _links_out_of(lattice, best_wave_half(lattice))
    return Bisection(least * rate_bps, most * rate_bps)


def best_wave_half(lattice: Lattice) -> frozenset[Place]:
    """Half of the cards with few links to the others: those where a wave around the torus is ahead."""
    waves = sorted(_waves(lattice), key=lambda wave: _stiffness(lattice, wave))[1 : _BEST_CUTS + 1]
    return min((_ahead(lattice, wave) for wave in waves), key=lambda half: _links_out_of(lattice, half))


def _waves(lattice: Lattice) -> Iterator[tuple[float, ...]]:
    """Turns per link in each dimension, for each wave that closes on the torus."""
    for numbers in product(*map(range, lattice.shape)):
        shift = sum(
            number * lattice.twist / size
            for number, size, long in zip(numbers, lattice.shape, lattice.long, strict=True)
            if long
        )
        yield tuple(
            number / size if long else (number + shift) / size
            for number, size, long in zip(numbers, lattice.shape, lattice.long, strict=True)
        )


def _stiffness(lattice: Lattice, wave: tuple[float, ...]) -> float:
    return sum(1 - cos(2 * pi * wave[direction.dimension]) for direction in lattice.directions)


def _ahead(lattice: Lattice, wave: tuple[float, ...]) -> frozenset[Place]:
    """The half of the cards where the wave is ahead."""
    turns = {place: sum(a * b for a, b in zip(wave, place, strict=True)) % 1 for place in lattice.places()}
    ordered = sorted(turns, key=lambda place: (round(turns[place], 9) % 1, place))
    return frozenset(ordered[: lattice.cards // 2])


def _links_out_of(lattice: Lattice, half: frozenset[Place]) -> int:
    return sum(lattice.neighbour(place, direction) not in half for place in half for direction in lattice.directions)


def cascaded_loads(lattice: Lattice, leaving: Sequence[Place], count: int) -> list[float]:
    """Flows on each link of one torus with uplinks at the cards *leaving*, if all cards of the cascade send to all."""
    block = lattice.cards // len(leaving)
    within = lattice.uniform_loads
    loads = {(place, direction): within[direction] for place in lattice.places() for direction in lattice.directions}

    def send(source: Place, target: Place, flows: int) -> None:
        while source != target:
            direction = lattice.next(source, target)
            loads[source, direction] += flows
            source = lattice.neighbour(source, direction)

    for place in lattice.places():
        for exit_ in leaving:  # what comes from cards of the same block of the other supernodes
            send(exit_, place, block * (count - 1))
        send(place, leaving[lattice.index(place) // block], lattice.cards * (count - 1))
    return list(loads.values())
