"""The halves of supernodes: the cut between them is the one that the formulas count, and pairs load it evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from emulator.model.max_flow import max_flow_bps
from topologies import cascade, chain, dragonfly, dual_plane, fat_tree, routing_of, torus3d, tree
from topologies.analysis import figures
from topologies.halves import halves, partners

FABRICS = [
    torus3d(4, 4, 4),
    torus3d(2, 4, 8),
    torus3d(8, 2, 1),
    torus3d(2, 2, 2),
    torus3d(3, 3, 2),
    torus3d(5, 3, 3),
    torus3d(1, 1, 7),
    torus3d(3, 2, 4),
    torus3d(3, 2, 1),
    torus3d(4, 4, 8, twist=4),
    torus3d(2, 4, 4, twist=2),
    tree("4x4x4"),
    tree("3x5x2"),
    tree("4x16", oversubscription="16/7"),
    tree("4x4", oversubscription="2"),
    tree("1x8"),
    tree("3x3"),
    fat_tree(4),
    fat_tree(2),
    dual_plane(4, 4),
    dual_plane(4, 3, spines=2),
    dual_plane(3, 5, spines=8),
    dual_plane(2, 1),
    dragonfly(2, 1, 1),
    dragonfly(3, 1, 2),
    dragonfly(4, 1, 3),
    cascade(2, shape="2x4"),
    cascade(3, shape="4x2"),
    cascade(2, shape="2x2x2", uplinks=2),
    cascade(4, shape="4x4", uplinks=16, uplink_rate_bps=1_600_000_000_000),
    cascade(2, inside="tree", shape="2x2"),
    cascade(3, inside="tree", shape="2x4", uplinks=3),
    cascade(4, inside="tree", shape="3x1", uplinks=6, uplink_rate_bps=1_280_000_000_000),
]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.name} {list(fabric.parameters.values())[:4]}")
def test_the_cut_is_the_one_of_the_formula(fabric: Fabric) -> None:
    """Halves differ by one card at most, and what is between them by max-flow is what the formula says."""
    one, other = halves(fabric)
    assert sorted((*one, *other)) == sorted(node.name for node in fabric.ends)
    assert len(other) - len(one) in (0, 1)
    assert max_flow_bps(fabric, one, other) == figures(fabric).bisection.at_most_bps


def test_a_dragonfly_is_cut_at_about_the_bound() -> None:
    """Where the best cut is not known, the halves are a cut that the lower bound holds for."""
    fabric = dragonfly(4, 2, 2)
    one, other = halves(fabric)
    assert len(one) == len(other) == 36
    assert max_flow_bps(fabric, one, other) >= figures(fabric).bisection.at_least_bps


@pytest.mark.parametrize(
    "fabric",
    [
        torus3d(8, 2, 2),
        torus3d(2, 4, 8),
        torus3d(4, 4, 4),
        torus3d(2, 2, 2),
        tree("4x8", oversubscription="2", routing="static"),
        tree("2x2x4", routing="static"),
        fat_tree(4, routing="static"),
    ],
    ids=lambda fabric: f"{fabric.name} {list(fabric.parameters.values())[:3]}",
)
def test_one_partner_each_fills_the_cut_evenly(fabric: Fabric) -> None:
    """Cards and their partners, both ways at once, load every link across the cut with the same number of flows.

    So that the least share of any flow, times their number one way, is exactly the bandwidth of the cut.
    """
    routing = routing_of(fabric)
    assert routing is not None
    pairs = list(partners(fabric, 1))
    loads = Counter(passage for pair in pairs for way in (pair, pair[::-1]) for passage in routing.path(*way))
    rate = fabric.links[0].spec.rate_bps
    assert len(pairs) * rate / max(loads.values()) == figures(fabric).bisection.at_least_bps


def test_partners() -> None:
    """Each card of the first half has as many partners as asked for, or all, each once."""
    fabric = tree("3x3")
    assert len(list(partners(fabric, 1))) == 4
    some = list(partners(fabric, 3))
    assert len(set(some)) == len(some) == 12
    for count in (0, 5, 6):
        assert len(set(partners(fabric, count))) == 20


def test_what_has_no_halves() -> None:
    """A topology without known halves is refused by name."""
    with pytest.raises(TopologyError, match="no halves are known of chain: only of cascade, dragonfly"):
        halves(chain())
