"""Bounds of bisections from below hold for every way to halve the cards."""

from __future__ import annotations

from math import prod

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from emulator.errors import TopologyError
from topologies import cascade, dragonfly
from topologies.analysis import figures
from topologies.graph_figures import exact_bisection_bps

GBIT = 10**9
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda sizes: 2 <= prod(sizes) <= 6)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), SHAPES, st.sampled_from(["torus", "tree"]), st.integers(1, 6), st.integers(1, 1600))
def test_cascades(supernodes: int, sizes: list[int], inside: str, uplinks: int, rate: int) -> None:
    """Whatever is faster, the layer or what it joins: the least over all halves is within the bounds."""
    assume(supernodes * prod(sizes) <= 12)
    try:
        fabric = cascade(supernodes, inside, "x".join(map(str, sizes)), uplinks, rate * GBIT, rate_bps=400 * GBIT)
    except TopologyError:
        assume(False)
    found = figures(fabric).bisection
    assert found.at_least_bps <= exact_bisection_bps(fabric) <= found.at_most_bps


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_dragonflies(a: int, p: int, h: int) -> None:
    """Few or many cards at each router, few or many routers in each group."""
    assume((a * h + 1) * a * p <= 16)
    fabric = dragonfly(a, p, h)
    found = figures(fabric).bisection
    assert found.at_least_bps <= exact_bisection_bps(fabric) <= found.at_most_bps
