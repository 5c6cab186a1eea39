"""Which schedules are looked at for a collective, and that the one is taken that should be quickest."""

from __future__ import annotations

import pytest

from emulator.collectives import Collective, fits
from emulator.errors import WorkloadError
from emulator.experiment.routes import Routes
from emulator.model.detour import Detour
from emulator.model.fabric import Fabric
from emulator.model.workload import CollectiveRun
from emulator.workloads.collective.choice import MOST_MESSAGES, Chooser
from topologies import dual_plane, routing_of, single, torus3d, tree

MIB = 1 << 20


def asked(fabric: Fabric, shape: str, **keys: str) -> CollectiveRun:
    return CollectiveRun(name="run", ranks=tuple(node.name for node in fabric.ends), shape=shape, **keys)  # type: ignore[arg-type]


def chooser(fabric: Fabric, shape: str, **keys: str) -> Chooser:
    return Chooser(asked(fabric, shape, **keys), Routes(fabric, "shortest-path").ways)


def considered(one: Chooser) -> set[str]:
    return {schedule.name for schedule in one._schedules}


def test_the_quickest_comes_first() -> None:
    """On 4x4 cards few steps for little, all links for much; times ascend, and each schedule is there once."""
    one = chooser(torus3d(4, 4, 1), "4x4x1")
    small, large = one.ranking(1024), one.ranking(64 * MIB)
    for ranking in (small, large):
        times = [choice.prediction.time_ns for choice in ranking]
        assert times == sorted(times)
        assert {choice.schedule.name for choice in ranking} == considered(one)
        assert len(ranking) == len(considered(one))
    assert len(small[0].schedule) <= 12
    assert large[0].schedule.name in ("torus-buckets", "torus-hamiltonian")
    assert considered(one) == {*fits(Collective.ALL_REDUCE, (4, 4, 1)), "snake-ring"}


@pytest.mark.parametrize(
    ("fabric", "shape"),
    [(torus3d(2, 2, 4, twist=2), "2x2x4"), (tree("4x4"), "4x4")],
    ids=["twisted", "tree"],
)
def test_rings_along_links_are_for_where_the_links_are(fabric: Fabric, shape: str) -> None:
    """Rings that never leave the links of a straight torus are not offered where their first step does."""
    names = considered(chooser(fabric, shape))
    first = fits(Collective.ALL_REDUCE, tuple(map(int, shape.split("x"))))["torus-hamiltonian"].make(0)
    routing = routing_of(fabric)
    assert routing is not None
    ranks = [node.name for node in fabric.ends]
    single_links = len(routing.path(ranks[first.source[0]], ranks[first.target[0]])) == 1
    assert ("torus-hamiltonian" in names) == single_links
    assert "torus-buckets" in names


def test_schedules_of_too_many_messages_are_not_offered() -> None:
    """Among 512 cards, rings through all of them in six parts are three million messages."""
    one = chooser(torus3d(8, 8, 8), "8x8x8")
    assert "torus-hamiltonian" not in considered(one)
    assert {"ring", "torus-buckets"} <= considered(one)
    assert all(len(made) * made.ranks * made.part_count <= MOST_MESSAGES for made in one._schedules)


def test_planes_get_a_stripe_each() -> None:
    """All schedules are doubled on two planes, but all-to-all, whose chunks have one way."""
    fabric = dual_plane(3, 2)
    assert all(name.endswith("@2") for name in considered(chooser(fabric, "3x2")))
    assert not any("@" in name for name in considered(chooser(fabric, "3x2", collective="alltoall")))


def test_slow_cards_may_be_leaves() -> None:
    """Where links differ, schedules that spare the slow are offered, and for much beat a ring; else refused."""
    mixed = chooser(single(hosts=6, slow_hosts=1, slow_rate_bps=10**10), "6")
    assert {"leaves-ring", "leaves-halving-doubling"} <= considered(mixed)
    places = [choice.schedule.name for choice in mixed.ranking(16 * MIB)]
    assert places.index("leaves-ring") < places.index("ring")
    assert considered(chooser(single(hosts=6, slow_hosts=1, slow_rate_bps=10**10), "6", algorithm="leaves-ring")) == {
        "leaves-ring"
    }
    with pytest.raises(WorkloadError, match="all links are equally fast, so nobody is to be a leaf"):
        chooser(single(hosts=6), "6", algorithm="leaves-ring")


def test_a_ring_around_a_missing_card() -> None:
    """Without one card of 4x4 there is no grid any more; rows and back make a ring that beats one by numbers."""
    fabric = torus3d(4, 4, 1)
    routing = routing_of(fabric)
    assert routing is not None
    broken = {number for number, link in enumerate(fabric.links) if "c2_1_0" in (link.a, link.b)}
    ranks = tuple(node.name for node in fabric.ends if node.name != "c2_1_0")
    run = CollectiveRun(name="run", ranks=ranks, shape="15")
    ranking = Chooser(run, Detour(routing, broken)).ranking(16 * MIB)
    places = [choice.schedule.name for choice in ranking]
    assert places.index("snake-ring") < places.index("bidirectional-ring")


def test_who_asks_gets_it() -> None:
    """One schedule by name, whatever would be quicker."""
    one = chooser(torus3d(4, 4, 1), "4x4x1", algorithm="ring")
    assert [choice.schedule.name for choice in one.ranking(MIB)] == ["ring"]
