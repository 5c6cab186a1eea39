"""Predicted times: by hand on small fabrics, against bounds and published figures on large ones."""

from __future__ import annotations

import pytest

from emulator.collectives import SCHEDULES, Collective, build, fits
from emulator.collectives.cost import CostModel, bandwidths, bound_ns, bus_factor
from emulator.errors import ScenarioError
from emulator.model.fabric import Fabric, LinkSpec
from emulator.model.theory import tcp_goodput_bps
from topologies import dual_plane, routing_of, torus3d, tree

MIB = 1 << 20
GIB = 1 << 30


def model(fabric: Fabric, message_ns: float = 0.0) -> CostModel:
    routing = routing_of(fabric)
    assert routing is not None
    return CostModel(routing, [card.name for card in fabric.ends], message_ns)


def spec_of(fabric: Fabric) -> LinkSpec:
    return fabric.links[0].spec


def test_two_cards_on_a_wire() -> None:
    """A ring of two: two steps, each half of the buffer in both directions at once, plus the wire's delay."""
    fabric = torus3d(2, 1, 1)
    rate = tcp_goodput_bps(spec_of(fabric))
    found = model(fabric).predict(build(Collective.ALL_REDUCE, "ring", (2,)), MIB)
    assert found.latency_ns == pytest.approx(2 * 800)
    assert found.transfer_ns == pytest.approx(2 * (MIB / 2) * 8e9 / rate, rel=2e-4), "but for a last frame not full"
    assert found.time_ns == found.latency_ns + found.transfer_ns
    assert found.busiest_bytes == MIB
    assert found.algbw == found.busbw == pytest.approx(MIB / found.time_ns)
    assert found.busiest in ("c0_0_0-eth0--c1_0_0-eth0 from c0_0_0", "c0_0_0-eth0--c1_0_0-eth0 from c1_0_0")


def test_latency_counts_hops_and_messages() -> None:
    """Through a switch: two delays, the first frame stored and forwarded, and what a message costs besides."""
    fabric = tree("4")
    spec = spec_of(fabric)
    found = model(fabric, message_ns=1500).predict(build(Collective.BROADCAST, "binomial", (4,)), 0)
    assert found.latency_ns == 0, "nothing is sent of nothing"
    found = model(fabric, message_ns=1500).predict(build(Collective.BROADCAST, "binomial", (4,)), 4)
    assert found.latency_ns == pytest.approx(2 * (1500 + 2 * 800 + (4 + 52 + 14 + 24) * 8e9 / spec.rate_bps))
    found = model(fabric, message_ns=1500).predict(build(Collective.BROADCAST, "binomial", (4,)), MIB)
    assert found.latency_ns == pytest.approx(2 * (1500 + 2 * 800 + (9000 + 14 + 24) * 8e9 / spec.rate_bps))


def test_shared_links_take_turns() -> None:
    """All four cards of one half send to the other over a trunk of one link: four times as long as without it."""
    schedule = build(Collective.ALL_REDUCE, "halving-doubling", (8,))
    far = 2 * (32 * MIB) * 8e9 / tcp_goodput_bps(spec_of(tree("4")))
    wide, narrow = (model(tree("2x4", ratio)).estimate(schedule, 64 * MIB) for ratio in ("1", "4"))
    assert narrow.transfer_ns - wide.transfer_ns == pytest.approx(3 * far)
    assert narrow.busiest.startswith("t")
    # Message by message, frames of one flow go in between those of others where each link carries a quarter of it.
    followed = [model(tree("2x4", ratio)).predict(schedule, 64 * MIB).time_ns for ratio in ("1", "4")]
    assert followed == pytest.approx([wide.time_ns, narrow.time_ns], rel=0.01)


def test_loads_of_links_add_up() -> None:
    """Every byte of every transfer is on every link of its way, and the busiest link is the one that is named."""
    fabric = torus3d(3, 2, 2)
    cost = model(fabric)
    schedule = build(Collective.ALL_TO_ALL, "shift", (12,))
    loads = cost.link_loads(schedule, 12 * 1024)
    routing = routing_of(fabric)
    assert routing is not None
    cards = [card.name for card in fabric.ends]
    hops = sum(len(routing.path(a, b)) for a in cards for b in cards if a != b)
    assert sum(loads.values()) == pytest.approx(1024 * hops)
    assert max(loads.values()) == cost.predict(schedule, 12 * 1024).busiest_bytes


@pytest.mark.parametrize("shape", [(4, 4, 4), (8, 8, 8)])
def test_all_links_at_once_are_within_two_per_cent_of_the_bound(shape: tuple[int, int, int]) -> None:
    """A gibibyte on a cube: what every card must send, over its six links, and little more."""
    fabric = torus3d(*shape)
    ranks = len(fabric.ends)
    least = bound_ns(Collective.ALL_REDUCE, ranks, GIB, [spec_of(fabric)] * 6)
    found = model(fabric).predict(build(Collective.ALL_REDUCE, "torus-buckets", shape), GIB)
    assert least <= found.time_ns <= 1.02 * least
    flat = model(fabric).predict(build(Collective.ALL_REDUCE, "torus-rings", shape), GIB)
    assert flat.time_ns > 5.5 * least, "one link at a time is six times slower"


def test_no_prediction_beats_the_bound() -> None:
    """Whatever schedule, size and fabric: the data that must leave a card does not leave faster than its links."""
    for fabric, shape in ((torus3d(4, 4, 4), (4, 4, 4)), (torus3d(2, 3, 4), (2, 3, 4)), (dual_plane(4, 4), (4, 4))):
        ports = [link.spec for link in fabric.links_of(fabric.ends[0].name)]
        for kind in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER, Collective.ALL_TO_ALL):
            for name, schedule in fits(kind, shape).items():
                for size in (len(fabric.ends) * 4096, 16 * len(fabric.ends) * 65536):
                    found = model(fabric).predict(schedule, size)
                    assert found.time_ns >= bound_ns(kind, schedule.ranks, size, ports) * (1 - 1e-9), name


def test_published_bounds() -> None:
    """1 GB among 512 ranks: 39.9 ms over one port of 400 Gbit/s, 6.65 ms over six, but for what headers take."""
    spec = LinkSpec(400 * 10**9, 800)
    headers = spec.rate_bps / tcp_goodput_bps(spec)
    assert bound_ns(Collective.ALL_REDUCE, 512, 10**9, [spec]) == pytest.approx(39.9e6 * headers, rel=1e-3)
    assert bound_ns(Collective.ALL_REDUCE, 512, 10**9, [spec] * 6) == pytest.approx(6.65e6 * headers, rel=1e-3)


def test_small_messages_want_few_steps_and_large_ones_all_links() -> None:
    """On 8x8x8 the best schedule for 1 KiB and for 1 GiB differ, and both beat the flat ring by far."""
    fabric = torus3d(8, 8, 8)
    cost = model(fabric)
    times = {
        (name, size): cost.estimate(build(Collective.ALL_REDUCE, name, (8, 8, 8)), size).time_ns
        for name in ("ring", "torus-buckets", "torus-rings", "halving-doubling")
        for size in (1024, GIB)
    }
    assert times["ring", 1024] > 25 * times["torus-rings", 1024]
    assert times["ring", GIB] > 6 * times["torus-buckets", GIB]
    assert times["halving-doubling", GIB] > 10 * times["torus-buckets", GIB]


def test_bandwidths_are_those_of_nccl_tests() -> None:
    """Factors by collective, and no bandwidth without time."""
    assert bandwidths(Collective.ALL_REDUCE, 4, 4000, 1000.0) == (4.0, 6.0)
    assert bus_factor(Collective.ALL_TO_ALL, 8) == 7 / 8
    assert bus_factor(Collective.BROADCAST, 8) == 1
    assert bandwidths(Collective.REDUCE, 2, 10, 0) == (0.0, 0.0)


def test_wrong_ranks_are_refused() -> None:
    """Nodes that are not there, nodes with two ranks, and schedules for another number of ranks."""
    routing = routing_of(torus3d(2, 2, 1))
    assert routing is not None
    with pytest.raises(ScenarioError, match="no node 'c9'"):
        CostModel(routing, ["c0_0_0", "c9"])
    with pytest.raises(ScenarioError, match="two ranks"):
        CostModel(routing, ["c0_0_0", "c0_0_0"])
    with pytest.raises(ScenarioError, match="is for 5 ranks, not 2"):
        CostModel(routing, ["c0_0_0", "c1_0_0"]).predict(build(Collective.ALL_REDUCE, "ring", (5,)), 4)
    with pytest.raises(ScenarioError, match="whole number of items"):
        CostModel(routing, ["c0_0_0", "c1_0_0"]).predict(build(Collective.ALL_REDUCE, "ring", (2,)), 5)


def test_every_schedule_has_a_name_of_its_own() -> None:
    """The catalogue's name is the schedule's, so that reports say what ran."""
    for kind, known in SCHEDULES.items():
        for name in known:
            shape = (4, 4) if "torus" in name else (16,)
            schedule = build(kind, name, shape)
            assert (schedule.name, schedule.collective) == (name, kind)
            assert schedule.ranks == 16
