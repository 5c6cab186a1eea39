"""Addresses for stripes of a buffer, and who reaches whom, in whole fabrics and in broken ones."""

from __future__ import annotations

import pytest

from emulator.collectives import Collective, build
from emulator.collectives.cost import CostModel
from emulator.collectives.ways import planes_of, stripe_addresses, together
from emulator.model.detour import Detour
from emulator.model.fabric import Fabric
from emulator.model.routing import Routing
from emulator.model.workload import CollectiveJob
from emulator.workloads.collective.choice import Chooser
from topologies import dual_plane, fat_tree, routing_of, torus3d, tree

PLANES = dual_plane(3, 2)


def routes(fabric: Fabric) -> Routing:
    found = routing_of(fabric)
    assert found is not None
    return found


def without(fabric: Fabric, *pairs: tuple[str, str]) -> Detour:
    """Routes of a fabric in which all links between some nodes are broken."""
    broken = {number for number, link in enumerate(fabric.links) if {link.a, link.b} in [set(pair) for pair in pairs]}
    assert len(broken) >= len(pairs)
    return Detour(routes(fabric), broken)


def dead(fabric: Fabric, name: str) -> Detour:
    """Routes of a fabric in which a node has no link any more."""
    return Detour(routes(fabric), {n for n, link in enumerate(fabric.links) if name in (link.a, link.b)})


def names(fabric: Fabric) -> list[str]:
    return [node.name for node in fabric.ends]


def words(ways: Routing, source: str, target: str, stripe: int, stripes: int = 2) -> tuple[str, str]:
    near, far = stripe_addresses(ways, source, target, stripe, stripes)
    return str(near), str(far)


def test_each_stripe_has_its_plane() -> None:
    """As many stripes as planes: addresses of the plane at both ends; else those by any plane."""
    whole = routes(PLANES)
    assert planes_of(whole, names(PLANES)) == 2
    assert words(whole, "c0_0", "c2_1", 0) == ("10.2.1.1", "10.2.2.3")
    assert words(whole, "c0_0", "c2_1", 1) == ("10.3.1.1", "10.3.2.3")
    assert words(whole, "c0_0", "c2_1", 0, stripes=1) == ("10.1.1.1", "10.1.2.3")
    assert words(whole, "c0_0", "c2_1", 2, stripes=3) == ("10.1.1.1", "10.1.2.3")
    assert words(routes(torus3d(2, 2, 1)), "c0_0_0", "c1_1_0", 1) == ("10.1.1.1", "10.2.2.1")


def test_a_stripe_whose_plane_is_broken_takes_any() -> None:
    """Only between cards that the plane does not join any more, both ways; others keep their planes."""
    one = without(PLANES, ("c0_0", "l0_0"))
    for pair in (("c0_0", "c1_0"), ("c1_1", "c0_0")):
        assert words(one, *pair, 0)[1].startswith("10.1.")
        assert words(one, *pair, 0)[0].startswith("10.1.")
        assert words(one, *pair, 1)[0].startswith("10.3.")
    assert words(one, "c1_0", "c2_1", 0) == ("10.2.1.2", "10.2.2.3")
    leaf = dead(PLANES, "l1_0")
    assert words(leaf, "c0_0", "c1_1", 1) == ("10.1.1.1", "10.1.2.2")
    assert words(leaf, "c0_1", "c1_1", 1) == ("10.3.2.1", "10.3.2.2")


@pytest.mark.parametrize(
    "ways",
    [
        without(PLANES, ("c0_0", "l0_0")),
        without(PLANES, ("c0_0", "l0_0"), ("c1_1", "l0_1")),
        dead(PLANES, "s1_0"),
        dead(PLANES, "l0_1"),
    ],
    ids=["link", "two links", "spine", "leaf"],
)
def test_planes_stand_in_for_each_other(ways: Detour) -> None:
    """With a link, a spine or a leaf of one plane gone, all cards go on, on two stripes, and it costs what it must.

    Verify: a schedule is found for all ranks; nothing is sent over what is broken.
    """
    ranks = tuple(names(PLANES))
    job = CollectiveJob(name="job", ranks=ranks, shape="3x2")
    choice = Chooser(job, ways).ranking(1 << 20)[0]
    assert choice.schedule.ranks == 6
    cost = CostModel(ways, ranks)
    ring = build(Collective.ALL_REDUCE, "ring@2", (3, 2))
    loads = cost.link_loads(ring, 1 << 20)
    assert not {passage.link for passage in loads} & ways.broken
    whole = CostModel(routes(PLANES), ranks)
    assert cost.predict(ring, 1 << 20).time_ns >= whole.predict(ring, 1 << 20).time_ns
    assert together(ways, ranks) == list(ranks)


def test_a_card_with_one_plane_has_half_the_bandwidth() -> None:
    """Both stripes of a ring go over the one link that is left: up to twice as long, if it is in use all the time."""
    ring, size = build(Collective.ALL_REDUCE, "ring@2", (6,)), 64 << 20
    whole, half = (
        CostModel(ways, names(PLANES)).predict(ring, size).time_ns
        for ways in (routes(PLANES), without(PLANES, ("c0_0", "l0_0")))
    )
    assert 1.7 * whole < half < 2.02 * whole


def test_who_reaches_each_other() -> None:
    """Without a root, one branch of a tree is left, the larger one; where cards miss only each other, one goes."""
    uneven = tree("2x2x2")
    assert together(routes(uneven), names(uneven)) == names(uneven)
    ranks = ["c0_0_0", "c0_0_1", "c1_0_0", "c1_1_1", "c1_0_1"]
    assert together(dead(uneven, "t"), ranks) == ["c1_0_0", "c1_1_1", "c1_0_1"]
    assert together(dead(uneven, "t"), ranks[:2]) == ranks[:2]
    fat = fat_tree(4)
    assert together(dead(fat, "k0"), names(fat)) == names(fat)
    assert together(dead(fat, "e0_0"), names(fat)) == [one for one in names(fat) if not one.startswith("c0_0_")]
    crossed = without(PLANES, ("c0_0", "l0_0"), ("c1_1", "l1_1"))
    left = together(crossed, names(PLANES))
    assert len(left) == 5
    assert len({"c0_0", "c1_1"} & set(left)) == 1
    assert together(routes(PLANES), []) == []
