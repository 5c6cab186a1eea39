"""When large flows move, where to, and when they stay."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from controller.flows import Match, Output, Purpose, ToGroup, purpose_of
from controller.paths import Paths, Spread, compute
from controller.paths.balance import Balancer, BalanceSettings, Decision
from controller.paths.pins import pin_rules, watch_rules
from controller.paths.ways import Pair, Pin, Ways
from emulator.errors import ControllerError
from tests.support.controller_balance import Plant, leaf_pairs

SECOND = 10**9
RATE = 100 * 10**9
HOLD = BalanceSettings().hold_ns


def collided(count: int = 2, spread: Spread = Spread.HOSTS) -> tuple[Plant, list[Pair]]:
    """Pairs from one leaf to another that have 45 % of a link each and all cross the same spine."""
    plant = Plant(leaf_pairs(spines=4, hosts=8), spread)
    by_way: dict[object, list[Pair]] = {}
    for source in range(8):
        for target in range(8):
            pair = f"a{source}", f"b{target}"
            by_way.setdefault(frozenset(plant.way(pair)), []).append(pair)
    pairs = max(by_way.values(), key=len)[:count]
    plant.demands = dict.fromkeys(pairs, 0.45 * RATE)
    return plant, pairs


def test_a_large_flow_moves_off_a_full_link() -> None:
    """Two rounds of 90 % are needed; then pairs are measured; then one of two moves; then nothing does."""
    plant, pairs = collided()
    first, second, third, fourth = (plant.round() for _ in range(4))
    assert (first.measure, first.moves) == ((), ())
    assert (second.measure, second.moves) == ((), ())
    assert set(third.measure) >= set(pairs)
    assert third.moves == ()
    assert [move.pair for move in fourth.moves] == [min(pairs)]
    assert "90% of the link" in fourth.moves[0].reason
    assert plant.fullest() == pytest.approx(0.45)
    assert all(plant.round().moves == () for _ in range(30))


def test_one_full_round_is_not_enough() -> None:
    """Bursts move nothing and are not even measured."""
    plant, pairs = collided()
    plant.round()
    for _ in range(10):
        plant.demands = dict.fromkeys(pairs, 0.45 * RATE)
        assert plant.round().measure == ()
        plant.demands = dict.fromkeys(pairs, 0.35 * RATE)
        assert plant.round().measure == ()


def test_nothing_moves_where_it_would_not_fit() -> None:
    """All four ways have 60 % already: 45 % more would be too much, and one that fits nowhere stays."""
    plant, pairs = collided()
    others = [(f"a{index}", f"b{index}") for index in range(4, 8)]
    for way in plant.ways.candidates(*pairs[0]):
        if set(way) != set(plant.way(pairs[0])):
            pair = next(
                pair for pair in ((s, t) for s, _ in others for _, t in others) if set(plant.way(pair)) == set(way)
            )
            plant.demands[pair] = 0.6 * RATE
    assert all(plant.round().moves == () for _ in range(20))


def test_the_largest_that_fits_is_moved() -> None:
    """Of 60, 20 and 15 % the first would fit nowhere beside 20 %, the second does."""
    plant, pairs = collided(3)
    plant.demands = dict(zip(pairs, (0.6 * RATE, 0.2 * RATE, 0.15 * RATE), strict=True))
    free = [way for way in plant.ways.candidates(*pairs[0]) if set(way) != set(plant.way(pairs[0]))]
    rest = [(f"a{s}", f"b{t}") for s in range(8) for t in range(8) if (f"a{s}", f"b{t}") not in pairs]
    for way in free:
        plant.demands[next(pair for pair in rest if set(plant.way(pair)) == set(way))] = 0.2 * RATE
    moves = [move for _ in range(20) for move in plant.round().moves]
    assert [move.pair for move in moves] == [pairs[1]]


def test_a_pair_is_held_before_it_moves_again() -> None:
    """It is pushed from link to link by others, and moves once in each hold."""
    plant, pairs = collided()
    times: list[int] = []
    for _ in range(80):
        decision = plant.round()
        for move in decision.moves:
            if move.pair == pairs[0]:
                times.append(plant.now_ns)
        if decision.moves:
            # Somebody else turns up wherever it went.
            way = set(plant.way(pairs[0]))
            plant.demands = {pairs[0]: 0.45 * RATE}
            other = next(
                (f"a{s}", f"b{t}")
                for s in range(8)
                for t in range(8)
                if (f"a{s}", f"b{t}") not in plant.pins
                and (f"a{s}", f"b{t}") != pairs[0]
                and set(plant.way((f"a{s}", f"b{t}"))) == way
            )
            plant.demands[other] = 0.44 * RATE
    assert len(times) > 2
    assert all(later - earlier >= HOLD for earlier, later in itertools.pairwise(times))


def test_a_pair_that_has_become_small_is_released() -> None:
    """After a hold of less than 5 %, not at the first lull."""
    plant, _ = collided()
    while not plant.balancer.pins:
        plant.round()
    pinned = plant.balancer.pins[0].pair
    plant.demands[pinned] = 0.01 * RATE
    for _ in range(HOLD // SECOND):
        assert plant.round().moves == ()
    decision = plant.round()
    assert [(move.pair, move.pin) for move in decision.moves] == [(pinned, None)]
    assert decision.pins == ()


def test_pinned_pairs_are_measured_as_long_as_they_are_pinned() -> None:
    """Otherwise nobody would notice that they have become small."""
    plant, _ = collided()
    while not plant.balancer.pins:
        plant.round()
    assert plant.round().measure == (plant.balancer.pins[0].pair,)


def test_a_pin_whose_path_breaks_is_released() -> None:
    """At once, and it is not pinned again before links have been seen to be full for some rounds."""
    plant, _ = collided()
    while not plant.balancer.pins:
        plant.round()
    pin = plant.balancer.pins[0]
    link = next(
        link
        for link in plant.paths.layout.graph.links
        if (link.a, link.a_port) == (pin.switches[0], pin.ports[0])
        or (link.b, link.b_port) == (pin.switches[0], pin.ports[0])
    )
    moves = plant.balancer.change_paths(plant.paths.without({link.name}))
    assert [(move.pair, move.pin, move.reason) for move in moves] == [(pin.pair, None, "its path broke")]
    assert plant.balancer.pins == ()


def test_a_pin_elsewhere_survives_a_failure() -> None:
    """Links that it does not use are no reason to move it."""
    plant, _ = collided()
    while not plant.balancer.pins:
        plant.round()
    used = {
        plant.paths.layout.graph.links[plant.paths.layout.graph.link[edge]].name
        for edge in plant.way(plant.balancer.pins[0].pair)
    }
    other = next(link.name for link in plant.paths.layout.graph.links if link.name not in used)
    assert plant.balancer.change_paths(plant.paths.without({other})) == ()
    assert len(plant.balancer.pins) == 1


def test_a_clock_that_goes_back_is_survived() -> None:
    """The round is ignored; holds go on from the new time."""
    plant, _ = collided()
    while not plant.balancer.pins:
        plant.round()
    plant.demands = {}
    for _ in range(5):
        plant.round()
    plant.now_ns -= 10**15
    assert plant.balancer.round(plant.now_ns, {}, {}) == Decision((), (), plant.balancer.pins)
    rounds = 0
    while plant.balancer.pins:
        plant.round()
        rounds += 1
        assert rounds <= HOLD // SECOND
    assert rounds == HOLD // SECOND + 1 - 5


def test_a_move_that_takes_effect_late_is_not_repeated() -> None:
    """Rules take their time: a link that is still full in the next round moves nobody else."""
    plant, _ = collided()
    plant.late = True
    assert sum(len(plant.round().moves) for _ in range(20)) == 1


def test_rounds_at_the_same_time_are_ignored() -> None:
    """There is no rate without time."""
    plant, _ = collided()
    plant.round()
    assert plant.balancer.round(plant.now_ns, {("l0", 1): 10**12}, {}).measure == ()


def test_the_busiest_hosts_pairs_are_measured_first() -> None:
    """With room for one pair only, it is the large one."""
    plant, pairs = collided(3)
    plant.balancer = Balancer(plant.paths, BalanceSettings(most_pairs=1))
    plant.demands = {pairs[0]: 0.2 * RATE, pairs[1]: 0.2 * RATE, pairs[2]: 0.5 * RATE}
    decisions = [plant.round() for _ in range(3)]
    assert decisions[-1].measure == (pairs[2],)


def test_without_what_came_in_targets_alone_count() -> None:
    """Counters of one direction are enough to find the pair."""
    plant, pairs = collided()
    plant.both = False
    measured: set[Pair] = set()
    for _ in range(3):
        measured |= set(plant.round().measure)
    assert set(pairs) <= measured


@pytest.mark.parametrize("spread", Spread)
def test_shares_add_up(spread: Spread) -> None:
    """What leaves the source's switch arrives at the target's."""
    paths = compute(leaf_pairs(spines=3, hosts=2), spread)
    ways = Ways(paths)
    shares = ways.shares("a0", "b1")
    graph = paths.layout.graph
    for switch, ends in (("l0", graph.source), ("l1", graph.target)):
        assert sum(share for edge, share in shares.items() if ends[edge] == graph.index[switch]) == pytest.approx(1)
    assert ways.shares("a0", "a1") == {}
    assert ways.candidates("a0", "a1") == []
    assert len(ways.candidates("a0", "b0")) == 3


def pinned(paths: Paths, source: str, target: str, way: int) -> Pin:
    ways = Ways(paths)
    return ways.pin((source, target), ways.candidates(source, target)[way])


def test_pins_are_rules_for_a_pair_of_addresses_from_the_far_end() -> None:
    """The rule nearest to the target comes first; groups are used where they go the same way."""
    paths = compute(leaf_pairs(spines=3, hosts=2))
    for way in range(3):
        pin = pinned(paths, "a0", "b1", way)
        rules = pin_rules(paths, pin)
        names = {node.dpid: node.name for node in paths.fabric.switches}
        assert [names[rule.dpid] for rule in rules] == [pin.switches[1], pin.switches[0]]
        match = Match(eth_src=paths.fabric.by_name["a0"].mac, eth_dst=paths.fabric.by_name["b1"].mac)
        assert {rule.match for rule in rules} == {match}
        assert {purpose_of(rule.cookie) for rule in rules} == {Purpose.PIN}
        group = rules[-1].actions[0]
        assert isinstance(group, ToGroup)
        buckets = {made.number: made.buckets for made in paths.groups_of("l0")}[group.group]
        assert buckets[0].port == pin.ports[0]


def test_pins_name_ports_where_no_group_goes_their_way() -> None:
    """A select group would spread the pair over all ways again; behind the spine there is only one."""
    paths = compute(leaf_pairs(spines=3, hosts=2), Spread.FLOWS)
    pin = pinned(paths, "a0", "b1", 2)
    last, first = pin_rules(paths, pin)
    assert first.actions == (Output(pin.ports[0]),)
    assert last.actions == (ToGroup(paths.group_of(pin.switches[1], "l1", 0)),)


def test_counting_leaves_a_pair_where_it_is() -> None:
    """The same match as a pin's, the action of the route."""
    paths = compute(leaf_pairs(spines=3, hosts=2))
    (rule,) = watch_rules(paths, ("a0", "b1"))
    assert rule.actions == (paths.towards("l0", "l1", paths.plane("a0", "b1")),)
    assert rule.key == pin_rules(paths, pinned(paths, "a0", "b1", 0))[-1].key
    assert watch_rules(paths, ("a0", "a1")) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": 0.8}, "below high"),
        ({"high": 1.1}, "below high"),
        ({"small": 0.0}, "must be above 0 and below 1"),
        ({"rounds": 1}, "at least 2 rounds"),
        ({"most_pairs": 0}, "1 pair"),
        ({"hold_ns": -1}, "hold"),
    ],
)
def test_settings_that_cannot_work_are_refused(change: dict[str, float], words: str) -> None:
    """Each with what is wrong."""
    with pytest.raises(ControllerError, match=words):
        replace(BalanceSettings(), **change)  # type: ignore[arg-type]  # wrong on purpose
