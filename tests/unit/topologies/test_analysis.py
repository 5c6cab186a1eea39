"""Figures of supernodes: formulas against published tables, against the graph, and against every way to halve it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from emulator.model.routing import Routing
from topologies import cascade, chain, dragonfly, dual_plane, fat_tree, routing_of, torus3d, tree
from topologies.analysis import advantage, figures, matching_oversubscription
from topologies.graph_figures import (
    exact_bisection_bps,
    flow_bound_bps,
    port_counts,
    routed_hops,
    shortest_hops,
    uniform_bps,
)
from topologies.torus_figures import torus_bisection_links

GBIT = 10**9
RATE = 1280 * GBIT


def routes(fabric: Fabric) -> Routing:
    routing = routing_of(fabric)
    assert routing is not None
    return routing


@pytest.mark.parametrize(
    ("shape", "cards", "links", "bisection", "tbps", "diameter", "mean", "all_to_all"),
    [
        ((4, 4, 4), 64, 192, 32, 12.8, 6, 3.048, 1.97),
        ((4, 4, 8), 128, 384, 32, 12.8, 8, 4.031, 1.00),
        ((8, 8, 4), 256, 768, 64, 25.6, 10, 5.020, 1.00),
        ((8, 8, 8), 512, 1536, 128, 51.2, 12, 6.012, 1.00),
        ((16, 16, 16), 4096, 12288, 512, 204.8, 24, 12.003, 0.50),
    ],
)
def test_published_tori(
    shape: tuple[int, int, int],
    cards: int,
    links: int,
    bisection: int,
    tbps: float,
    diameter: int,
    mean: float,
    all_to_all: float,
) -> None:
    """The table of tori that everybody knows: 2N/k links across the middle, sums of k/2 and of k/4 hops."""
    found = figures(torus3d(*shape, rate_bps=400 * GBIT))
    assert (found.cards, found.links, found.diameter_hops) == (cards, links, diameter)
    assert found.bisection.exact
    assert found.bisection.at_least_bps == bisection * 400 * GBIT
    assert found.bisection.at_least_bps / 1e12 == pytest.approx(tbps)
    assert found.mean_hops == pytest.approx(mean, abs=5e-4)
    assert found.uniform_bps / (400 * GBIT) == pytest.approx(all_to_all, abs=0.01)


@pytest.mark.parametrize(
    "shape",
    [
        (2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 1), (3, 2, 2), (3, 3, 1), (4, 3, 1), (5, 3, 1),
        (4, 4, 1), (5, 2, 1), (7, 2, 1), (5, 4, 1), (4, 2, 2), (3, 3, 2), (6, 3, 1), (8, 2, 1),
    ],
)  # fmt: skip
def test_torus_bisection_is_exact(shape: tuple[int, int, int]) -> None:
    """Even, odd and mixed sizes, and dimensions of two: the formula is the least over all ways to halve the cards."""
    assert torus_bisection_links(shape) * RATE == exact_bisection_bps(torus3d(*shape))
    assert torus_bisection_links(shape[::-1]) == torus_bisection_links(shape)


SMALL = [
    torus3d(4, 4, 4, routing="adaptive"),
    torus3d(3, 5, 1),
    torus3d(2, 2, 4, twist=2, routing="adaptive"),
    torus3d(2, 4, 1, twist=2, routing="adaptive"),
    tree("2x3x2"),
    tree("4x4", "2"),
    tree("3x4", "2"),
    tree("3x2x2", "1x2"),
    tree("1x3x4"),
    tree("5"),
    fat_tree(2),
    fat_tree(4),
    dual_plane(2, 2),
    dual_plane(4, 3, 2),
    dual_plane(3, 3, 1),
    dual_plane(2, 3, 9),
    dual_plane(4, 1, 1),
    dragonfly(2, 1, 1),
    dragonfly(3, 1, 1),
    dragonfly(2, 2, 1),
    dragonfly(1, 2, 3),
    dragonfly(2, 1, 2),
    dragonfly(4, 2, 2),
    dragonfly(1, 1, 2),
    dragonfly(2, 1, 3),
    cascade(2, shape="2x2"),
    cascade(3, shape="2x2"),
    cascade(2, shape="3x2", uplinks=1),
    cascade(2, shape="4", uplinks=1, uplink_rate_bps=10 * GBIT),
    cascade(2, shape="5", uplinks=5, uplink_rate_bps=1280 * GBIT),
    cascade(2, shape="4", uplinks=4, uplink_rate_bps=1280 * GBIT),
    cascade(2, "tree", "2x2"),
    cascade(3, "tree", "2x3", uplinks=2),
    cascade(2, "tree", "3", uplinks=5, uplink_rate_bps=1280 * GBIT),
    cascade(3, "tree", "3", uplinks=4, uplink_rate_bps=1280 * GBIT),
]


@pytest.mark.parametrize("fabric", SMALL, ids=lambda fabric: f"{fabric.name}-{len(fabric.ends)}")
def test_formulas_agree_with_the_graph(fabric: Fabric) -> None:
    """Counts, hops along the routes and all-to-all throughput are what counting, walking and adding up gives."""
    found, routing = figures(fabric), routes(fabric)
    assert (found.cards, found.links) == (len(fabric.ends), len(fabric.links))
    assert found.switches == len(fabric.nodes) - len(fabric.ends)
    assert (found.card_ports, found.switch_ports) == port_counts(fabric)
    most, mean = routed_hops(routing)
    assert (found.diameter_hops, found.mean_hops) == (most, pytest.approx(mean))
    assert found.uniform_bps == pytest.approx(uniform_bps(routing))


@pytest.mark.parametrize("fabric", SMALL, ids=lambda fabric: f"{fabric.name}-{len(fabric.ends)}")
def test_bisection_is_within_its_bounds(fabric: Fabric) -> None:
    """The least over all halves, switches placed by minimum cut, is within the bounds, and is the upper one here.

    What flows prove from below holds as well.
    """
    found = figures(fabric).bisection
    if len(fabric.ends) > 20 and fabric.name in ("torus3d", "dragonfly"):
        with pytest.raises(TopologyError, match="too many ways"):
            exact_bisection_bps(fabric)
        least = found.at_most_bps
    else:
        least = exact_bisection_bps(fabric)
    assert found.at_least_bps <= least == found.at_most_bps
    assert flow_bound_bps(routes(fabric)) <= least * (1 + 1e-9)


@pytest.mark.parametrize("inside", ["torus", "tree"])
@pytest.mark.parametrize(("supernodes", "shape"), [(2, "4x4x4"), (8, "8x8x8"), (2, "3x3x3"), (4, "5x3x2")])
def test_cascades_of_an_even_number_are_exact(supernodes: int, shape: str, inside: str) -> None:
    """As long as the layer is what limits: half of the supernodes' uplinks are between the halves."""
    fabric = cascade(supernodes, inside, shape, uplinks=4 if shape[0] in "48" else 1)
    found = figures(fabric).bisection
    assert found.exact
    assert found.at_least_bps == supernodes // 2 * int(fabric.parameters["uplinks"]) * 400 * GBIT


@pytest.mark.parametrize(
    ("size", "least", "most"), [(1, 2, 2), (2, 20, 20), (3, 88, 90), (4, 269, 272), (8, 4145, 4160)]
)
def test_balanced_dragonflies_are_known_within_three_per_cent(size: int, least: int, most: int) -> None:
    """With twice as many routers in a group as cards, or links to other groups, at each."""
    found = figures(dragonfly(2 * size, size, size)).bisection
    assert (found.at_least_bps, found.at_most_bps) == (least * RATE, most * RATE)


def test_routes_are_shortest_paths_where_they_say_so() -> None:
    """Breadth-first search finds nothing shorter in tori, trees and planes; minimal dragonfly routes may be longer."""
    for fabric in (torus3d(3, 4, 2), torus3d(2, 2, 4, twist=2), tree("3x2x2"), fat_tree(4), dual_plane(3, 3, 2)):
        assert shortest_hops(fabric) == pytest.approx(routed_hops(routes(fabric)))
    flies = dragonfly(4, 2, 2)
    assert shortest_hops(flies)[1] < routed_hops(routes(flies))[1]


def test_twisting_doubles_the_bisection() -> None:
    """4x4x8 and 4x8x8, as in TPU v4: diameter 6, and a slab bisection of twice the straight torus's."""
    for shape, straight in (((4, 4, 8), 32), ((4, 8, 8), 64)):
        plain, twisted = figures(torus3d(*shape)), figures(torus3d(*shape, twist=4))
        assert plain.bisection.at_least_bps == straight * RATE
        assert twisted.bisection.at_most_bps == 2 * straight * RATE
        assert twisted.bisection.at_least_bps > 1.4 * plain.bisection.at_least_bps
        assert twisted.diameter_hops == 6
        assert twisted.links == plain.links
    gain = figures(torus3d(4, 4, 8, twist=4)).uniform_bps / figures(torus3d(4, 4, 8)).uniform_bps
    assert gain == pytest.approx(1.745, abs=0.001)


def test_the_gain_over_a_tree_depends_on_the_tree() -> None:
    """8x8x8 against trees of 512 cards: half of a full one, the same at 2:1, 2.3 times only at 4.6:1 in all."""
    torus = torus3d(8, 8, 8)
    for ratio, gain in (("1", "1/2"), ("2", "1"), ("1x2", "1"), ("2x2", "2"), ("4", "2"), ("4x2", "4"), ("8x8", "32")):
        assert advantage(torus, tree("8x8x8", ratio)) == Fraction(gain), ratio
    assert advantage(torus, tree("8x8x8", "1x32/7")) == Fraction(16, 7)
    assert matching_oversubscription(torus, Fraction(23, 10), RATE) == Fraction(23, 5)
    assert matching_oversubscription(torus, Fraction(1, 2), RATE) == 1


def test_comparisons_that_mean_nothing_are_refused() -> None:
    """Different numbers of cards, bounds instead of values, and topologies without formulas."""
    with pytest.raises(TopologyError, match="has 64 cards and tree 16"):
        advantage(torus3d(4, 4, 4), tree("4x4"))
    with pytest.raises(TopologyError, match="not known exactly"):
        advantage(torus3d(4, 4, 8, twist=4), tree("8x16"))
    with pytest.raises(TopologyError, match="not known exactly"):
        matching_oversubscription(torus3d(4, 4, 8, twist=4), Fraction(2), RATE)
    with pytest.raises(TopologyError, match="no formulas for chain"):
        figures(chain())
