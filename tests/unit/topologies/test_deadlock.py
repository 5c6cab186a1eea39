"""Which routes could deadlock on lossless links: known results of Dally and Seitz, and what detours do to them."""

from __future__ import annotations

import pytest

from emulator.errors import TopologyError
from emulator.model.detour import Detour
from emulator.model.fabric import Fabric
from emulator.model.routing import Routing
from topologies import fat_tree, routing_of, torus3d, tree
from topologies.deadlock import by_hop, circle, dateline


def routes(fabric: Fabric) -> Routing:
    found = routing_of(fabric)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "fabric",
    [torus3d(2, 2, 2), torus3d(3, 3, 3), tree("2x2x2"), fat_tree(4, routing="static")],
    ids=["cube", "rings of 3", "tree", "fat tree"],
)
def test_some_fabrics_need_no_virtual_channels(fabric: Fabric) -> None:
    """Dimension order in rings so short that no packet goes two links along one, and up and down in trees."""
    assert circle(routes(fabric)) == []


@pytest.mark.parametrize("fabric", [torus3d(5, 1, 1), torus3d(6, 3, 1), torus3d(5, 4, 5)], ids=["ring", "6x3", "5x4x5"])
def test_rings_need_two(fabric: Fabric) -> None:
    """Dimension order in a torus has circles along its rings; a dateline in each dimension breaks them.

    Verify: the circle that is found is one: each link begins where the one before ends, within a dimension.
    """
    found = circle(routes(fabric))
    assert len(found) >= 3
    ends = []
    for passage, channel in found:
        link = fabric.links[passage.link]
        ends.append((link.a, link.b) if passage.forward else (link.b, link.a))
        assert channel == 0
    assert all(end == begin for (_, end), (begin, _) in zip(ends, [*ends[1:], ends[0]], strict=True))
    assert circle(routes(fabric), dateline(fabric)) == []
    assert circle(routes(fabric), by_hop) == []


def test_twisted_tori_have_circles_that_no_dateline_is_for() -> None:
    """Closing a short dimension shifts along the long one; a channel for each hop is always enough."""
    fabric = torus3d(4, 4, 8, twist=4)
    assert circle(routes(fabric))
    assert circle(routes(fabric), by_hop) == []
    with pytest.raises(TopologyError, match="datelines are for straight tori"):
        dateline(fabric)


def test_detours_break_the_order_of_dimensions() -> None:
    """With a broken link, ways turn from a later dimension to an earlier one: datelines are not enough any more."""
    fabric = torus3d(4, 4, 1)
    detour = Detour(routes(fabric), {0, 3})
    assert circle(detour, dateline(fabric))
    assert circle(detour, by_hop) == []
