"""The two halves of the cards between which a supernode has least bandwidth: the cut that the formulas are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from topologies import cards
from topologies.closed_forms import tree_bisection_links
from topologies.lattice import Lattice, Place
from topologies.torus_figures import best_wave_half, torus_bisection_links
from topologies.tree import trunks

Side = Callable[[Place], bool]


def halves(fabric: Fabric) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the cards of each half, in the order of their places; the first is never the larger.

    Cards at the same position in the two halves are half of the cut dimension apart, as far as that has a meaning, so
    that traffic between them loads all links across the cut alike.

    Raises:
        TopologyError: There is nothing known about the fabric's topology.
    """
    if fabric.name not in _SIDES:
        raise TopologyError(f"no halves are known of {fabric.name}: only of {', '.join(_SIDES)}")
    places = {cards.place_of(node.name): node.name for node in fabric.ends}
    first = _SIDES[fabric.name](fabric)
    one = tuple(name for place, name in sorted(places.items()) if first(place))
    other = tuple(name for place, name in sorted(places.items()) if not first(place))
    return one, other


def _lexicographic(sizes: Sequence[int], order: Sequence[int]) -> Side:
    """The first half by one coordinate after the other: where a size is odd, its middle is halved by the next one."""
    least = {dimension: sizes[dimension] // 2 for dimension in order}

    def side(place: Place) -> bool:
        for dimension in order:
            if place[dimension] != least[dimension] or sizes[dimension] % 2 == 0:
                return place[dimension] < least[dimension]
        return False

    return side


def _torus(fabric: Fabric) -> Side:
    lattice = Lattice(tuple(cards.number(fabric, key) for key in "xyz"), cards.number(fabric, "twist"))
    if lattice.twist:
        half = best_wave_half(lattice)
        return lambda place: place in half
    return _torus_side(lattice.shape)


def _torus_side(shape: Place) -> Side:
    # As in `torus_bisection_links`: two cards have one link, so that cutting them costs as much as cutting four.
    sizes = [4 if size == 2 else size for size in shape]
    return _lexicographic(shape, sorted(range(len(shape)), key=lambda dimension: -sizes[dimension]))


def _tree(fabric: Fabric) -> Side:
    fanouts = cards.shape("fanouts", cards.word(fabric, "fanouts"))
    return _lexicographic(fanouts, range(len(fanouts)))


def _fat_tree(fabric: Fabric) -> Side:
    k = cards.number(fabric, "k")
    return _lexicographic((k, k // 2, k // 2), range(3))


def _dual_plane(fabric: Fabric) -> Side:
    nodes, rails, spines = (cards.number(fabric, key) for key in ("nodes", "rails", "spines"))
    # Where there are more spines than nodes, it costs less to part the cards of each rail than the rails.
    return _lexicographic((nodes, rails), (1, 0) if spines <= nodes else (0, 1))


def _dragonfly(fabric: Fabric) -> Side:
    a, p, h = (cards.number(fabric, key) for key in "aph")
    return _lexicographic((a * h + 1, a, p), range(3))


def _cascade(fabric: Fabric) -> Side:
    count, uplinks = cards.number(fabric, "supernodes"), cards.number(fabric, "uplinks")
    sizes = cards.shape("shape", cards.word(fabric, "shape"))
    if cards.word(fabric, "inside") == "torus":
        inside, within = _torus_side(sizes), torus_bisection_links(sizes)
    else:
        inside, within = _lexicographic(sizes, range(len(sizes))), tree_bisection_links(sizes, trunks(sizes, "1"))
    within_bps = within * cards.number(fabric, "rate_bps")
    apart_bps = count // 2 * uplinks * cards.number(fabric, "uplink_rate_bps") + count % 2 * within_bps
    if prod(sizes) % 2 == 0 and count * within_bps < apart_bps:
        return lambda place: inside(place[1:])
    middle = count // 2
    return lambda place: inside(place[1:]) if count % 2 and place[0] == middle else place[0] < middle


_SIDES: dict[str, Callable[[Fabric], Side]] = {
    "cascade": _cascade,
    "dragonfly": _dragonfly,
    "dual_plane": _dual_plane,
    "fat_tree": _fat_tree,
    "torus3d": _torus,
    "tree": _tree,
}


def partners(fabric: Fabric, count: int) -> Iterator[tuple[str, str]]:
    """Pairs of cards across the cut.

    Args:
        fabric: Whose.
        count: Partners that each card has, from the one at its own position in the other half on; 0: all.
    """
    one, other = halves(fabric)
    for position, offset in product(range(len(one)), range(min(count, len(other)) if count else len(other))):
        yield one[position], other[(position + offset) % len(other)]
