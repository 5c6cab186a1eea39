"""Tables and routes of supernodes of any shape."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from topologies import cascade, dual_plane, routing_of, torus3d, tree
from topologies.analysis import figures
from topologies.cascade import exits
from topologies.graph_figures import port_counts, routed_hops, uniform_bps
from topologies.lattice import Lattice
from topologies.prefixes import BITS, compress
from topologies.torus import card_name

SIZES = st.tuples(*[st.integers(1, 5)] * 3).filter(lambda shape: 2 <= prod(shape) <= 40)


@given(st.dictionaries(st.integers(0, 255), st.sampled_from("abcd"), min_size=1, max_size=60))
def test_compressed_tables_do_the_same(actions: dict[int, str]) -> None:
    """The longest prefix that matches says for every key what the table said; there are no more prefixes than keys."""
    covers = compress(actions, 8)
    assert len(covers) <= len(actions)
    assert len({(one.key, one.length) for one in covers}) == len(covers)
    for key, action in actions.items():
        matching = [one for one in covers if key >> (8 - one.length) == one.key]
        assert max(matching, key=lambda one: one.length).action == action


@st.composite
def lattices(draw: st.DrawFn) -> Lattice:
    """Tori, straight and twisted."""
    if draw(st.booleans()):
        return Lattice(draw(SIZES))
    short, long = draw(st.sampled_from([(2, 3), (2, 4), (2, 5), (3, 4), (3, 6)]))
    shape = draw(st.sampled_from([(short, long, 1), (1, long, short), (short, short, long), (long, short, 1)]))
    return Lattice(shape, draw(st.integers(1, long - 1)))


@given(lattices(), st.data())
def test_distances_are_those_of_a_group(lattice: Lattice, data: st.DataObject) -> None:
    """Symmetric, within a triangle, and the same from everywhere: a neighbour's way is one shorter, if on the way."""
    a, b, c = (data.draw(st.sampled_from(list(lattice.places()))) for _ in range(3))
    assert lattice.distance(a, b) == lattice.distance(b, a)
    assert lattice.distance(a, c) <= lattice.distance(a, b) + lattice.distance(b, c)
    for direction in lattice.directions:
        step = lattice.neighbour(a, direction)
        assert lattice.distance(a, step) == 1
        assert (direction in lattice.ways(a, b)) == (a != b and lattice.distance(step, b) == lattice.distance(a, b) - 1)


@settings(max_examples=30, deadline=None)
@given(lattices(), st.sampled_from(["dimension-order", "adaptive"]))
def test_torus_tables_lead_everywhere(lattice: Lattice, routing: str) -> None:
    """In any torus every card reaches every other over a shortest way, and the formulas agree with counting."""
    fabric = torus3d(*lattice.shape, twist=lattice.twist, routing=routing)
    routes = routing_of(fabric)
    assert routes is not None
    for source, target in product(lattice.places(), lattice.places()):
        if source != target:
            assert len(routes.path(card_name(source), card_name(target))) == lattice.distance(source, target)
    found = figures(fabric)
    assert (found.links, found.card_ports) == (len(fabric.links), port_counts(fabric)[0])
    assert found.diameter_hops == routed_hops(routes)[0]
    if routing == "adaptive":
        assert found.uniform_bps == pytest.approx(uniform_bps(routes))
    assert found.bisection.at_least_bps <= found.bisection.at_most_bps


def agrees(fabric: Fabric) -> None:
    routes = routing_of(fabric)
    assert routes is not None
    found = figures(fabric)
    most, mean = routed_hops(routes)
    assert (found.diameter_hops, found.mean_hops) == (most, pytest.approx(mean))
    assert (found.cards, found.links) == (len(fabric.ends), len(fabric.links))
    assert (found.card_ports, found.switch_ports) == port_counts(fabric)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda one: 2 <= prod(one) <= 48), st.booleans())
def test_trees_of_any_shape(fanouts: list[int], static: bool) -> None:
    """Every card reaches every other, with both ways to use trunks, and the formulas agree."""
    agrees(tree("x".join(map(str, fanouts)), routing="static" if static else "ecmp"))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_dual_planes_of_any_size(nodes: int, rails: int, spines: int, static: bool) -> None:
    """Every card reaches every other by all three of its addresses."""
    fabric = dual_plane(nodes, rails, spines, "static" if static else "ecmp")
    agrees(fabric)
    routes = routing_of(fabric)
    assert routes is not None
    for address in routes.addresses(f"c{nodes - 1}_{rails - 1}"):
        assert 2 <= len(routes.path("c0_0", f"c{nodes - 1}_{rails - 1}", address)) <= 4


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 16))
def test_cascades_of_any_shape(supernodes: int, sizes: list[int], uplinks: int) -> None:
    """Uplinks that do not divide the torus evenly are refused; all others lead everywhere, and the formulas agree."""
    if not 2 <= prod(sizes) <= 16:
        return
    shape = "x".join(map(str, sizes))
    try:
        places = exits(tuple(sizes), uplinks)
    except TopologyError:
        with pytest.raises(TopologyError, match="even blocks"):
            cascade(supernodes, shape=shape, uplinks=uplinks)
        return
    assert len(set(places)) == uplinks
    agrees(cascade(supernodes, shape=shape, uplinks=uplinks))


def test_keys_fill_an_address() -> None:
    """24 bits beneath 10.0.0.0/8."""
    assert BITS == 24
