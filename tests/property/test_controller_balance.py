"""Moves end, help, and never fill a link, whatever the fabric and the demands are."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.paths import Spread
from controller.paths.balance import BalanceSettings
from controller.paths.ways import Pair
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec
from tests.support.controller_balance import Plant

GBIT = 10**9
SETTINGS = BalanceSettings()


@st.composite
def clos(draw: st.DrawFn) -> Fabric:
    """Leaves and spines with links of two rates, some of them missing or double, and hosts at the leaves."""
    builder = FabricBuilder("clos")
    spines, leaves = draw(st.integers(2, 4)), draw(st.integers(2, 3))
    for index in range(spines):
        builder.add_switch(f"s{index}", tier=0)
    for index in range(leaves):
        builder.add_switch(f"l{index}")
    for spine in range(spines):
        rate = draw(st.sampled_from([100, 100, 400]))
        for leaf in range(leaves):
            for _ in range(1 if spine == 0 else draw(st.sampled_from([0, 1, 1, 1, 2]))):
                builder.add_link(f"s{spine}", f"l{leaf}", LinkSpec(rate * GBIT, 1000))
    for spine in range(1, spines):
        builder.add_link(f"s{spine}", "s0", LinkSpec(400 * GBIT, 1000))
    for index in range(draw(st.integers(4, 8))):
        builder.add_host(f"h{index}", f"10.0.0.{index + 1}/8")
        builder.add_link(f"h{index}", f"l{index % leaves}", LinkSpec(400 * GBIT, 1000))
    return builder.build()


@st.composite
def plants(draw: st.DrawFn) -> Plant:
    """A fabric with steady demands, more than fits included."""
    plant = Plant(draw(clos()), draw(st.sampled_from(Spread)), SETTINGS, draw(st.integers(0, 1000)))
    hosts = [node.name for node in plant.paths.fabric.hosts]
    pairs = st.tuples(st.sampled_from(hosts), st.sampled_from(hosts)).filter(lambda pair: pair[0] != pair[1])
    rates = st.sampled_from([1, 4, 6, 10, 20, 30, 45, 60, 90]).map(lambda share: share * GBIT)
    plant.demands = {pair: float(rate) for pair, rate in draw(st.dictionaries(pairs, rates, max_size=14)).items()}
    return plant


@settings(max_examples=150, deadline=None)
@given(plants())
def test_moves_end_and_fill_no_link(plant: Plant) -> None:
    """Demands stay: each move takes at least the least off what is too much, so there are only so many.

    Links that are not too full stay so, and no pair moves twice within a hold.
    """
    rates = plant.paths.layout.graph.rate_bps
    least = SETTINGS.small * int(rates.min())
    excess = sum(load for edge, load in plant.loads().items() if load > SETTINGS.high * int(rates[edge]))
    # Where switches hash, a pair has to be pinned to be known: one more move each.
    most = excess / least + (len(plant.demands) if plant.paths.spread is Spread.FLOWS else 0)
    moved: dict[Pair, list[int]] = {}
    quiet = total = 0
    while quiet < 15:
        before = plant.loads()
        decision = plant.round()
        assert len(decision.measure) <= SETTINGS.most_pairs
        for move in decision.moves:
            moved.setdefault(move.pair, []).append(plant.now_ns)
            assert plant.demands[move.pair] >= least
        for edge, load in plant.loads().items():
            high = SETTINGS.high * int(rates[edge])
            assert load <= high or load <= before.get(edge, 0.0)
        total += len(decision.moves)
        quiet = 0 if decision.moves else quiet + 1
        assert total <= most
    for times in moved.values():
        assert all(later - earlier >= SETTINGS.hold_ns for earlier, later in itertools.pairwise(times))


@settings(max_examples=60, deadline=None)
@given(plants(), st.data())
def test_moves_are_held_and_fill_no_link_when_demands_change(plant: Plant, data: st.DataObject) -> None:
    """Anything may start, grow and stop between rounds: what moves still obeys the rules."""
    moved: dict[Pair, int] = {}
    pairs = sorted(plant.demands)
    for _ in range(40):
        if pairs and data.draw(st.booleans()):
            pair = data.draw(st.sampled_from(pairs))
            plant.demands[pair] = float(data.draw(st.sampled_from([0, 1, 20, 45, 90])) * GBIT)
        before = plant.loads()
        decision = plant.round()
        for move in decision.moves:
            if move.reason != "it has become small":
                assert plant.now_ns - moved.get(move.pair, -(10**15)) >= SETTINGS.hold_ns
            moved[move.pair] = plant.now_ns
        if any(move.reason == "it has become small" for move in decision.moves):
            continue  # a release is no move: it brings back less than the least
        rates = plant.paths.layout.graph.rate_bps
        for edge, load in plant.loads().items():
            assert load <= SETTINGS.high * int(rates[edge]) or load <= before.get(edge, 0.0)
        for pin in decision.pins:
            assert plant.ways.holds(pin)
            assert pin.switches[0] == plant.paths.attachments[pin.source].switch
            assert pin.switches[-1] == plant.paths.attachments[pin.target].switch
