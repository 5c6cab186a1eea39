"""Figures of each supernode topology as formulas, with the reason why each bisection is what it is.

Every bisection has two sides. That there is a cut with so much bandwidth is shown by naming it. That none has less
follows, where it is said, from flows: if every card can send *f* to every other at the same time without overloading a
link, then a cut between halves of N/2 cards carries N²/4 flows of *f*, and so has at least that bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil, prod

from emulator.model.fabric import Fabric
from topologies import cards
from topologies.cascade import TORUS, exits
from topologies.cut_bounds import cascade_bps, dragonfly_links, torus_inside, tree_inside
from topologies.dual_plane import PLANES
from topologies.figures import Bisection, Figures
from topologies.lattice import Lattice, Place
from topologies.torus_figures import cascaded_loads, lattice_figures, mean_hops, torus
from topologies.tree import trunks


def tree(fabric: Fabric) -> Figures:
    """Figures of a `tree`."""
    fanouts = cards.shape("fanouts", cards.word(fabric, "fanouts"))
    links = trunks(fanouts, cards.word(fabric, "oversubscription"))
    return _tree(fanouts, links, cards.number(fabric, "rate_bps"))


def _tree(fanouts: Place, links: Place, rate_bps: int) -> Figures:
    total = prod(fanouts)
    switches = [prod(fanouts[:level]) for level in range(len(fanouts))]
    trunk_links = sum(prod(fanouts[: level + 1]) * count for level, count in enumerate(links))
    return Figures(
        cards=total,
        switches=sum(switches),
        links=trunk_links,
        card_ports=total,
        switch_ports=2 * trunk_links - total,
        diameter_hops=2 * len(fanouts) if fanouts[0] > 1 else _tree_diameter(fanouts),
        mean_hops=_tree_mean_hops(fanouts),
        bisection=Bisection.exactly(tree_bisection_links(fanouts, links) * rate_bps),
        uniform_bps=(total - 1) * rate_bps / max(_tree_loads(fanouts, links, total)),
    )


def _tree_diameter(fanouts: Place) -> int:
    return 2 * (len(fanouts) - next((level for level, fanout in enumerate(fanouts) if fanout > 1), 0))


def _tree_mean_hops(fanouts: Place) -> float:
    total, hops = prod(fanouts), 0
    for level in range(len(fanouts)):
        below = prod(fanouts[level + 1 :])
        hops += 2 * (len(fanouts) - level) * (prod(fanouts[level:]) - below)
    return hops / (total - 1)


def _tree_loads(fanouts: Place, links: Place, total: int) -> list[float]:
    """Flows on a link of each level one way, if every card has one to every other of *total* cards."""
    sizes = [prod(fanouts[level + 1 :]) for level in range(len(fanouts))]
    return [size * (total - size) / count for size, count in zip(sizes, links, strict=True)]


def tree_bisection_links(fanouts: Place, links: Place) -> int:
    """Links between the halves of a tree, exact.

    Half of the root's trunks, since a trunk never has more links than what it joins below; with an odd number of
    trunks, the subtree in the middle is halved in the same way.
    """
    below = tree_bisection_links(fanouts[1:], links[1:]) if fanouts[0] % 2 and len(fanouts) > 1 else 0
    return fanouts[0] // 2 * links[0] + below


def fat_tree(fabric: Fabric) -> Figures:
    """Figures of a `fat_tree`: it can carry any permutation at full rate, so no cut has less than half of its cards."""
    k = cards.number(fabric, "k")
    total, half = k**3 // 4, k // 2
    rate = cards.number(fabric, "rate_bps")
    within_edge, within_pod = half - 1, half * (half - 1)
    beyond = total - 1 - within_edge - within_pod
    return Figures(
        cards=total,
        switches=5 * k * k // 4,
        links=3 * total,
        card_ports=total,
        switch_ports=5 * total,
        diameter_hops=6,
        mean_hops=(2 * within_edge + 4 * within_pod + 6 * beyond) / (total - 1),
        bisection=Bisection.exactly(total // 2 * rate),
        uniform_bps=float(rate),
    )


def dual_plane(fabric: Fabric) -> Figures:
    """Figures of a `dual_plane`.

    In each plane, with p of R leaves on one side: cards whose leaf is on the other side are cut from it, and every
    spine is cut from the fewer leaves. This is linear in p, so the best is to part the leaves, or the cards of each.
    """
    nodes, rails, spines = (cards.number(fabric, key) for key in ("nodes", "rails", "spines"))
    total, rate = nodes * rails, cards.number(fabric, "rate_bps")
    least = min(abs(total // 2 - p * nodes) + spines * min(p, rails - p) for p in range(rails // 2 + 1))
    at_card = (total - 1) / PLANES
    at_spine = nodes * (total - nodes) / spines / PLANES
    return Figures(
        cards=total,
        switches=PLANES * (rails + spines),
        links=PLANES * (total + rails * spines),
        card_ports=PLANES * total,
        switch_ports=PLANES * (total + 2 * rails * spines),
        diameter_hops=4 if rails > 1 else 2,
        mean_hops=(2 * (nodes - 1) + 4 * (total - nodes)) / (total - 1),
        bisection=Bisection.exactly(PLANES * least * rate),
        uniform_bps=(total - 1) * rate / max(at_card, at_spine),
    )


def dragonfly(fabric: Fabric) -> Figures:
    """Figures of a `dragonfly`.

    The cut: half of the groups on each side, and with an odd number of groups the one in the middle halved so that its
    global links stay on their side; or the links of one half of the cards, where routers have more links to other
    groups than cards. From below by uniform traffic on minimal routes, between routers or between cards.
    """
    a, p, h = (cards.number(fabric, key) for key in "aph")
    groups, rate = a * h + 1, cards.number(fabric, "rate_bps")
    total = groups * a * p
    over_global, within = (a * p) ** 2, p * p + 2 * a * p * p * h
    busiest = max(over_global, within if a > 1 else 0, total - 1)
    half = total // 2
    least = max(ceil(half * (total - half) / busiest - 1e-9), dragonfly_links(a, p, h))
    most = min(half, (groups // 2) ** 2 + (min(_halved_group(a, p, h)) if groups % 2 else 0))
    links = total + groups * a * (a - 1) // 2 + groups * a * h // 2
    other_router, other_group = p * (a - 1), total - a * p
    return Figures(
        cards=total,
        switches=groups * a,
        links=links,
        card_ports=total,
        switch_ports=2 * links - total,
        diameter_hops=5 if a > 1 else 3,
        mean_hops=(2 * (p - 1) + 3 * other_router + (3 + 2 * (a - 1) / a) * other_group) / (total - 1),
        bisection=Bisection(min(least, most) * rate, most * rate),
        uniform_bps=(total - 1) * rate / busiest,
    )


def _halved_group(a: int, p: int, h: int) -> Iterator[int]:
    """Links cut in a group whose cards are halved, by the number of its routers on one side.

    With as many global links on a side as there are groups on it none of these is cut, so each missing one costs one.
    """
    for routers in range(a // 2 + 1):
        misplaced = abs(a * p // 2 - routers * p)
        yield routers * (a - routers) + misplaced + abs(a * h // 2 - routers * h)


def cascade(fabric: Fabric) -> Figures:
    """Figures of a `cascade`.

    The cut: half of the supernodes on each side, with an odd number the one in the middle halved; or every supernode
    halved in the same way, if it can be, so that no link of the layer is cut. A tree's cards have no more behind their
    root than their own links. From below by uniform traffic on the routes, or by what the layer can bring to all cards.
    """
    count, uplinks = cards.number(fabric, "supernodes"), cards.number(fabric, "uplinks")
    sizes = cards.shape("shape", cards.word(fabric, "shape"))
    rate, uplink_rate = cards.number(fabric, "rate_bps"), cards.number(fabric, "uplink_rate_bps")
    size = prod(sizes)
    total, joining = size * count, count * uplinks
    beyond = total - size
    in_torus = cards.word(fabric, "inside") == TORUS
    if in_torus:
        lattice, leaving = Lattice(sizes), exits(sizes, uplinks)
        inside = lattice_figures(lattice, rate)
        out = [lattice.distance(leaving[0], place) for place in islice(lattice.places(), size // uplinks)]
        crossing = sum(out) / len(out) + 2 + mean_hops(sizes)
        diameter = max(inside.diameter_hops, max(out) + 2 + inside.diameter_hops)
        kinds = torus_inside(lattice, leaving)
        loads = cascaded_loads(lattice, leaving, count)
    else:
        trunk_links = trunks(sizes, "1")
        inside = _tree(sizes, trunk_links, rate)
        crossing = diameter = 2 * len(sizes) + 2
        kinds = tree_inside(sizes, trunk_links, uplinks)
        loads = _tree_loads(sizes, trunk_links, total)
    most = count // 2 * uplinks * uplink_rate + count % 2 * inside.bisection.at_most_bps
    if size % 2 == 0:
        most = min(most, count * inside.bisection.at_most_bps)
    half = total // 2
    if not in_torus:
        most = min(most, half * rate)
    busiest = max(size / uplinks * beyond / uplink_rate, max(loads) / rate)
    uniform = ceil(half * (total - half) / busiest - 1e-6)
    least = min(max(uniform, cascade_bps(count, size, uplinks, uplink_rate, rate, kinds)), most)
    switches = uplinks + count * inside.switches
    links = count * inside.links + joining
    card_ports = count * inside.card_ports + (joining if in_torus else 0)
    return Figures(
        cards=total,
        switches=switches,
        links=links,
        card_ports=card_ports,
        switch_ports=2 * links - card_ports,
        diameter_hops=diameter,
        mean_hops=((size - 1) * inside.mean_hops + beyond * crossing) / (total - 1),
        bisection=Bisection(least, most),
        uniform_bps=(total - 1) / busiest,
    )


CLOSED_FORMS: dict[str, Callable[[Fabric], Figures]] = {
    "cascade": cascade,
    "dragonfly": dragonfly,
    "dual_plane": dual_plane,
    "fat_tree": fat_tree,
    "torus3d": torus,
    "tree": tree,
}
