"""What no cut between halves can be without: bounds of bisections from below, by flows chosen for the topology.

Uniform traffic between cards proves little where a topology has a layer of its own between supernodes, or where routers
rather than cards are what a cut goes between. Capacities are the same both ways on every link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

from topologies.lattice import Direction, Lattice, Place


@dataclass(frozen=True)
class Inside:
    """Flows on links of one kind in a supernode, all on the fullest link one way, as far as they are alike.

    Attributes:
        layer: If each uplink has a flow to all cards, or all have one to it.
        uniform: If every card has one to every other.
    """

    layer: Fraction
    uniform: Fraction


def cascade_bps(count: int, size: int, uplinks: int, uplink_bps: int, rate_bps: int, inside: Sequence[Inside]) -> int:
    """Least bandwidth between the halves of *count* supernodes of *size* cards, joined by *uplinks* switches.

    Let every uplink be filled to the share *t* by what it brings to all cards of its supernode alike, or by what they
    send over it: for each of them either of the two, whichever, without overloading links inside. Of a cut with the
    switches S on one side, let *x* be the cards of a supernode on that side. Flows from uplinks of S to cards of the
    other side, and from cards of this side to uplinks of the others, are cut inside, or else start or end at an uplink
    that is. So inside and layer together cut at least t*r*(|S|(1 - x/n) + (u - |S|)x/n), which adds up to t*r*u*count/2
    over all supernodes if half of the cards are on each side, however they are spread.

    What is left inside may carry *f* from every card to every other, of which x(n - x)f is cut: least, over all
    supernodes, where at most one of them is not whole.

    Args:
        count: Supernodes.
        size: Cards of each.
        uplinks: Links of each to the layer, one to each of its switches.
        uplink_bps: Rate of each.
        rate_bps: Rate of links inside.
        inside: What flows do to links of each kind there.
    """
    half = size * count // 2
    share = min(Fraction(1), *(Fraction(rate_bps * size) / (kind.layer * uplink_bps) for kind in inside))
    taken = share * uplink_bps / size
    flow = min((rate_bps - kind.layer * taken) / kind.uniform for kind in inside if kind.uniform)
    # With an odd number of cards the smaller half has one less, and S may hold no switch.
    return ceil(taken * uplinks * half + half % size * (size - half % size) * flow)


def torus_inside(lattice: Lattice, exits: Sequence[Place]) -> list[Inside]:
    """Flows on links of each dimension of a torus whose uplinks are at the cards *exits*.

    In dimension order away from an exit, the same way back, and both ways around a ring where these are equal.
    """
    kinds = []
    for dimension, ring in enumerate(lattice.shape):
        if ring == 1:
            continue
        beyond = prod(lattice.shape[dimension + 1 :])
        doubled: Counter[tuple[Place, frozenset[int]]] = Counter()
        for place in exits:
            # The same in all rings of cards that share the later coordinates with the exit.
            for sign in (1, -1):
                for step in range(1, ring // 2 + 1):
                    ends = frozenset((place[dimension] + sign * far) % ring for far in (step - 1, step))
                    doubled[place[dimension + 1 :], ends] += ring - 2 * step + 1
        uniform = Fraction(lattice.uniform_loads[Direction(dimension, 1)])
        kinds.append(Inside(Fraction(max(doubled.values()) * beyond, 2), uniform))
    return kinds


def tree_inside(sizes: Place, links: Place, uplinks: int) -> list[Inside]:
    """The same for trunks of each level of a tree with *sizes* fan-outs, whose uplinks are at its root.

    Args:
        sizes: Fan-outs from the root down.
        links: Links of a trunk at each level.
        uplinks: How many are at the root.
    """
    total = prod(sizes)
    below = [prod(sizes[level + 1 :]) for level in range(len(sizes))]
    return [
        Inside(Fraction(uplinks * cards, count), Fraction(cards * (total - cards), count))
        for cards, count in zip(below, links, strict=True)
    ]


def dragonfly_links(a: int, p: int, h: int) -> int:
    """Least number of links between the halves of a dragonfly, from flows between its routers.

    Each router sends *f* to every other. A global link carries a*a of these flows, one in a group 2ah + 1. With Y of R
    routers on one side, Y(R - Y)f of the links between routers are cut, and each card that this side has too many or
    too few is cut from its router. That is concave but for the turn where no card is, so it is least there or where
    all routers are on one side.
    """
    routers = a * (a * h + 1)
    half = routers * p // 2
    flow = Fraction(1, max(a * a, 2 * a * h + 1 if a > 1 else 0))
    turn = half // p
    return min(ceil(some * (routers - some) * flow + abs(some * p - half)) for some in (0, turn, turn + 1))
