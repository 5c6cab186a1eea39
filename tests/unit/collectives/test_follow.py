"""Predictions that follow every message: against times by hand, and against those from step to step."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.collectives import Collective, Schedule, build
from emulator.collectives.cost import CostModel
from emulator.collectives.follow import pieces_of
from emulator.collectives.schedule import Step, step
from emulator.model.fabric import Fabric
from emulator.model.theory import tcp_goodput_bps
from topologies import routing_of, torus3d

MIB = 1 << 20


def model(fabric: Fabric, reduce_bps: int = 0, window_bytes: int = 0) -> CostModel:
    routing = routing_of(fabric)
    assert routing is not None
    return CostModel(routing, [card.name for card in fabric.ends], reduce_bps=reduce_bps, window_bytes=window_bytes)


def by_hand(ranks: int, chunks: int, starts: list[int], *steps: Step) -> Schedule:
    """A reduction to rank 0 whose parts begin at some of the chunks."""
    return Schedule("by-hand", Collective.REDUCE, ranks, chunks, len(steps), steps.__getitem__, parts=np.array(starts))


def test_a_card_adds_up_in_the_order_of_arrival() -> None:
    """What comes early is added though it belongs to a later step; from step to step it would have to wait."""
    fabric = torus3d(3, 1, 1)
    spec = fabric.links[0].spec
    # Ten chunks go straight to rank 0; one goes by way of rank 1 and is there long before.
    first, second = step(2, [0, 1], [0, 10], [10, 1], True), step(1, 0, 10, 1, True)
    schedule = by_hand(3, 11, [0, 10], first, second)
    cost = model(fabric, spec.rate_bps // 4)
    straight_ns = spec.delay_ns + 10 * MIB * 8e9 / tcp_goodput_bps(spec) + 4 * 10 * MIB * 8e9 / spec.rate_bps
    late_ns = 4 * MIB * 8e9 / spec.rate_bps
    assert cost.predict(schedule, 11 * MIB).time_ns == pytest.approx(straight_ns, rel=1e-3)
    assert cost.estimate(schedule, 11 * MIB).time_ns == pytest.approx(straight_ns + late_ns, rel=1e-3)


def test_a_card_adds_up_one_message_after_the_other() -> None:
    """Two that come at once, over links of their own: one of them waits for the other."""
    cost = model(torus3d(3, 1, 1), 8 * 10**9)
    both = by_hand(3, 2, [0, 1], step([1, 2], 0, [0, 1], 1, True))
    one = by_hand(3, 2, [0, 1], step([1, 2], 0, [0, 1], 1, [True, False]))
    times = [cost.predict(schedule, 2 * 4096).time_ns for schedule in (both, one)]
    assert times[0] - times[1] == pytest.approx(4096), "a byte takes a nanosecond"


def test_a_link_carries_in_the_order_of_arrival() -> None:
    """A short message passes a link before a long one that comes to it later, whatever their steps."""
    fabric = torus3d(4, 1, 1)
    spec = fabric.links[0].spec
    # From 1 by way of 0 to 3 in both cases; the long one comes to the common link later, for it takes a step before.
    early, late = step([1, 2], [3, 1], [8, 0], [1, 8], False), step(1, 3, 0, 8, False)
    found = model(fabric).predict(by_hand(4, 9, [0, 8], early, late), 9 * MIB)
    line_ns = 8 * MIB * 8e9 / tcp_goodput_bps(spec)
    assert found.time_ns == pytest.approx(3 * spec.delay_ns + 2 * line_ns, rel=1e-3)
    # The other way round it waits for as long as the long one takes.
    queued = by_hand(4, 9, [0, 8], step(1, 3, [0, 8], [8, 1], False))
    alone = by_hand(4, 9, [0, 8], step(1, 3, 0, 8, False))
    cost = model(fabric)
    more_ns = cost.predict(queued, 9 * MIB).time_ns - cost.predict(alone, 9 * MIB).time_ns
    assert more_ns == pytest.approx(line_ns / 8, rel=1e-3)


@pytest.mark.parametrize(("shape", "name"), [((4, 4, 1), "torus-buckets"), ((3, 2, 2), "ring"), ((8, 1, 1), "ring")])
def test_in_step_nothing_changes(shape: tuple[int, int, int], name: str) -> None:
    """Where all ranks do the same at the same time, both ways to predict agree."""
    cost = model(torus3d(*shape))
    schedule = build(Collective.ALL_REDUCE, name, shape)
    for size in (schedule.chunks * 4, 16 * MIB):
        found = cost.predict(schedule, size)
        assert found.followed
        assert found.time_ns == pytest.approx(cost.estimate(schedule, size).time_ns, rel=1e-6)


def test_out_of_step_everybody_waits() -> None:
    """Each card adds up six parts in an order of its own, and every ring waits for its slowest card."""
    schedule = build(Collective.ALL_REDUCE, "torus-buckets", (4, 4, 4))
    cost = model(torus3d(4, 4, 4), 5_437_000_000_000)
    followed, estimated = cost.predict(schedule, 16 * MIB), cost.estimate(schedule, 16 * MIB)
    assert followed.time_ns > 1.2 * estimated.time_ns
    assert followed.latency_ns == estimated.latency_ns


def test_too_many_messages_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one message more than are followed."""
    cost, schedule = model(torus3d(2, 2, 1)), build(Collective.ALL_REDUCE, "ring", (4,))
    monkeypatch.setattr("emulator.collectives.cost.MOST_FOLLOWED", 23)
    assert cost.predict(schedule, MIB) == cost.estimate(schedule, MIB)
    monkeypatch.setattr("emulator.collectives.cost.MOST_FOLLOWED", 24)
    assert cost.predict(schedule, MIB).followed


def test_rounds_follow_each_other() -> None:
    """Who is through begins the next round: in a chain, the first rank sends again while the last one still waits."""
    fabric = torus3d(4, 1, 1)
    cost, spec = model(fabric), fabric.links[0].spec
    chain = build(Collective.BROADCAST, "binomial", (4,))
    alone, many = cost.predict(chain, MIB), cost.predict(chain, MIB, rounds=30)
    assert alone.again_ns == alone.time_ns
    assert many.again_ns < alone.time_ns
    # The root sends twice, and nobody else sends more often.
    assert many.again_ns >= MIB * 8e9 / tcp_goodput_bps(spec)
    assert many.again_ns < many.time_ns < alone.time_ns
    ring = build(Collective.ALL_REDUCE, "ring", (4,))
    assert cost.predict(ring, MIB, rounds=5).time_ns == pytest.approx(cost.predict(ring, MIB).time_ns, rel=1e-6)


def test_what_is_larger_than_a_window_shares_the_link() -> None:
    """A message beside a much longer one on the same link: behind it, or in between its pieces, and then on."""
    fabric = torus3d(3, 1, 1)
    spec = fabric.links[0].spec
    # The short one goes on to rank 0, over another link, while the long one is still under way.
    first, second = step(2, 1, [0, 8], [8, 1], False), step(1, 0, 8, 1, False)
    schedule = by_hand(3, 9, [0, 8], first, second)
    behind, between = (model(fabric, 0, window).predict(schedule, 72 * MIB) for window in (0, 4 * MIB))
    line_ns = 8e9 / tcp_goodput_bps(spec)
    assert behind.time_ns == pytest.approx(2 * spec.delay_ns + 80 * MIB * line_ns, rel=1e-3)
    assert between.time_ns == pytest.approx(spec.delay_ns + 72 * MIB * line_ns, rel=1e-3)


def test_pieces() -> None:
    """Two fill a window, at most eight make a message, and what fits into a window is whole."""
    sizes = np.array([1, 4096, 4097, 8192, 10_000, 1 << 30])
    assert pieces_of(sizes, 4096).tolist() == [1, 1, 3, 4, 5, 8]
    assert pieces_of(sizes, 0).tolist() == [1] * 6


def test_a_lone_message_in_pieces_takes_as_long_as_whole() -> None:
    """The line never waits for an acknowledgement where a window holds what is on it."""
    schedule = by_hand(3, 1, [0], step(2, 0, 0, 1, False))
    times = [model(torus3d(3, 1, 1), 0, window).predict(schedule, 64 * MIB).time_ns for window in (0, 4 * MIB, 8 * MIB)]
    assert times == pytest.approx([times[0]] * 3)
