"""Failures and recoveries in any order: no loop at any moment, no black hole afterwards, all paths used again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import Options
from controller.damping import HALF_LIFE_NS, Damper
from controller.designs import Design, Plan, plan
from controller.paths import Spread
from controller.paths.graph import fabric_links
from emulator.model.fabric import FabricBuilder, LinkSpec
from tests.support.controller_machine import MS, NO_LLDP, S, working
from topologies.icgw import icgw

LONG_NS = 10 * HALF_LIFE_NS
GRACE_NS = Options().grace_ns
BALANCED = replace(NO_LLDP, balance_interval_ns=S, step_limit_ns=10**18)
SPEC = LinkSpec(100 * 10**9, 1000)


def mesh(switches: int, links: list[tuple[int, int]], spread: Spread) -> Plan:
    """A ring of switches with a host each, and more links."""
    builder = FabricBuilder("mesh")
    for index in range(switches):
        builder.add_switch(f"s{index}")
        builder.add_host(f"h{index}", f"10.0.0.{index + 1}/8")
        builder.add_link(f"h{index}", f"s{index}", SPEC)
    ring = [(index, (index + 1) % switches) for index in range(switches)]
    for a, b in [*ring, *links]:
        if a != b:
            builder.add_link(f"s{a % switches}", f"s{b % switches}", SPEC)
    return plan(builder.build(), Design.SHORTEST_PATH, (), spread)


_PAIR = st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1])
_EVEN_PLANS = st.builds(mesh, st.just(6), st.lists(_PAIR, max_size=3), st.sampled_from(Spread))
_PLANS = st.builds(mesh, st.just(7), st.lists(_PAIR, max_size=8), st.sampled_from(Spread))


@settings(max_examples=60, deadline=None)
@given(_PLANS, st.data())
def test_failures_never_make_loops_nor_lasting_holes(decided: Plan, data: st.DataObject) -> None:
    """Links fail and heal while repairs are under way; switches carry commands out in any order."""
    machine = working(decided, data.draw(st.integers(0, 1000)))
    names = sorted(link.name for link in fabric_links(decided.fabric))
    for name in data.draw(st.lists(st.sampled_from(names), max_size=12)):
        machine.set_link(name, up=name in machine.down)
        machine.check_loops()
        for _ in range(data.draw(st.integers(0, 6))):
            machine.step()
            machine.check_loops()
    machine.settle()
    machine.pass_time(LONG_NS)  # links that flapped may be used again
    machine.settle()
    machine.check_delivery()
    for name in sorted(machine.down):
        machine.set_link(name, up=True)
    machine.settle()
    machine.pass_time(LONG_NS)
    machine.settle()
    for dpid, switch in machine.switches.items():
        assert set(switch.groups.values()) == set(decided.program_of(dpid).groups)
    machine.check_sessions()


@pytest.mark.parametrize("spread", Spread)
def test_any_link_of_the_reference_fabric_may_fail(spread: Spread) -> None:
    """Each link between switches in turn: repaired without loops, nothing is lost for good, and then as before."""
    decided = plan(icgw(), Design.GATEWAY, (), spread)
    machine = working(decided)
    for link in fabric_links(decided.fabric):
        machine.set_link(link.name, up=False)
        machine.settle()
        machine.check_delivery()
        machine.pass_time(LONG_NS)
        machine.set_link(link.name, up=True)
        machine.settle()
        for dpid, switch in machine.switches.items():
            assert set(switch.groups.values()) == set(decided.program_of(dpid).groups)


@settings(max_examples=40, deadline=None)
@given(_EVEN_PLANS, st.data())
def test_pinned_flows_never_loop_whatever_fails_meanwhile(decided: Plan, data: st.DataObject) -> None:
    """Large flows are moved while links fail and heal, and while switches are slow; packets are followed all the time.

    Verify: after every single command no packet meets a switch twice, by whatever rules and groups there are then.
    """
    machine = working(decided, data.draw(st.integers(0, 1000)), BALANCED)
    for start in data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)):
        near, far = f"h{start}", f"h{(start + 3) % 6}"
        beside = decided.routes.path(near, far)[1].replace("s", "h")
        machine.traffic.demands |= {(near, far): 45e9} | ({(beside, far): 45e9} if beside != far else {})
    names = sorted(link.name for link in fabric_links(decided.fabric))

    def work(steps: int | None) -> None:
        while steps is None or steps > 0:
            if not machine.step():
                return
            machine.check_loops()
            machine.check_pairs()
            steps = None if steps is None else steps - 1

    for _ in range(data.draw(st.integers(5, 9))):
        machine.pass_time(S, run=work)
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=6)):
        machine.set_link(name, up=name in machine.down)
        machine.check_loops()
        machine.check_pairs()
        work(data.draw(st.integers(0, 8)))
        for _ in range(data.draw(st.sampled_from([0, 0, 5]))):
            steps = data.draw(st.integers(0, 12))
            machine.pass_time(S, run=lambda _, steps=steps: work(steps))  # type: ignore[misc]
    work(None)
    machine.check_delivery()
    machine.check_sessions()


def test_a_pin_that_a_failure_breaks_goes_before_groups_change() -> None:
    """A ring of six: a flow is moved to the other half, and that breaks at its far end.

    Steps: a flow between opposite switches shares its half with another one and is moved to the other half; cut the
    last link there; carry commands out one by one, in many orders. Verify: no group changes while a rule still holds
    the flow, its packets never meet a switch twice, and in the end they arrive.
    """
    decided = mesh(6, [], Spread.HOSTS)
    neighbour = decided.routes.path("h0", "h3")[1].replace("s", "h")
    for seed in range(20):
        machine = working(decided, seed, BALANCED)
        machine.traffic.demands = {("h0", "h3"): 45e9, (neighbour, "h3"): 45e9}
        for _ in range(10):
            machine.pass_time(S)
        [pin] = machine.core.loads.pins
        ends = set(pin.switches[-2:])
        [last] = [link.name for link in fabric_links(decided.fabric) if {link.a, link.b} == ends]
        before = {dpid: dict(switch.groups) for dpid, switch in machine.switches.items()}
        machine.set_link(last, up=False)
        while machine.step():
            machine.check_pairs()
            if any(switch.groups != before[dpid] for dpid, switch in machine.switches.items()):
                assert all(machine.traffic.holding(dpid, pin.pair) is None for dpid in machine.switches)
        machine.check_delivery()
        assert not machine.core.loads.pins


def test_a_failure_changes_groups_and_no_rules() -> None:
    """Rules stay as they are, so what was learned by connections in the switch's caches stays true."""
    machine = working(plan(icgw(), Design.GATEWAY, ()))
    before = {dpid: set(switch.program.rules) for dpid, switch in machine.switches.items()}
    machine.set_link(fabric_links(machine.plan.fabric)[0].name, up=False)
    machine.settle()
    assert machine.core.repair.count == 1
    assert {dpid: set(switch.program.rules) for dpid, switch in machine.switches.items()} == before


def test_a_switch_without_a_connection_is_avoided_after_the_grace() -> None:
    """It may still forward, so nothing happens at first; then traffic goes another way, and comes back with it."""
    machine = working(plan(icgw(), Design.GATEWAY, ()))
    spine = next(node.dpid for node in machine.plan.fabric.switches if node.name == "spa1") or 0
    leaves = [node.dpid or 0 for node in machine.plan.fabric.switches if node.name in ("la1", "la2", "la3")]

    def used() -> bool:
        return any(spine in machine.next_switches(leaf, target) for leaf in leaves for target in ("la1", "la2", "la3"))

    machine.lose(spine, emptied=True)
    machine.pass_time(GRACE_NS - MS)
    machine.settle()
    assert used()
    assert machine.core.next_ns() == GRACE_NS
    machine.pass_time(MS)
    machine.settle()
    assert not used()
    # It comes back with empty tables: nobody sends to it before it has its rules.
    machine.connect(spine)
    while not machine.switches[spine].groups:
        assert not used()
        assert machine.step()
    machine.settle()
    assert used()
    assert machine.core.ready


def test_the_only_way_is_used_even_if_its_switch_is_gone() -> None:
    """A leaf without a control connection still has its hosts behind it."""
    machine = working(plan(icgw(), Design.GATEWAY, ()))
    leaf = next(node.dpid for node in machine.plan.fabric.switches if node.name == "la3") or 0
    machine.lose(leaf, emptied=False)
    machine.pass_time(2 * GRACE_NS)
    machine.settle()
    machine.check_delivery()


def test_a_flapping_link_is_used_again_only_when_it_has_been_quiet() -> None:
    """Two failures are repaired each time; the third in a row suppresses the link until its penalty has decayed."""
    machine = working(plan(icgw(), Design.GATEWAY, ()))
    link = fabric_links(machine.plan.fabric)[0]
    (dpid, port), _ = machine.ends(link)
    flaps = 0
    while flaps < 6:
        flaps += 1
        machine.set_link(link.name, up=False)
        machine.settle()
        machine.pass_time(MS)
        machine.set_link(link.name, up=True)
        machine.settle()
        ports = {bucket.port for group in machine.switches[dpid].groups.values() for bucket in group.buckets}
        if port not in ports:
            break
    assert flaps == 3
    assert link.name in machine.core.usable.shunned
    again_ns = machine.core.next_ns()
    assert again_ns is not None
    assert 1 <= (again_ns - machine.now_ns) / HALF_LIFE_NS <= 3
    machine.pass_time(again_ns - machine.now_ns)
    machine.settle()
    assert not machine.core.usable.shunned
    assert set(machine.switches[dpid].groups.values()) == set(machine.plan.program_of(dpid).groups)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-(10**10), 10**11)), max_size=50))
def test_penalties_stay_within_bounds_whatever_the_clock_does(failures: list[tuple[str, int]]) -> None:
    """No suppression outlasts the largest penalty's decay, counted from the last failure."""
    damper = Damper()
    for link, now_ns in failures:
        damper.failed(link, now_ns)
        assert damper.suppressed(now_ns) <= {"a", "b"}
    if failures:
        assert damper.suppressed(failures[-1][1] + 4 * HALF_LIFE_NS) == frozenset() or any(
            now_ns > failures[-1][1] for _, now_ns in failures
        )
    assert damper.suppressed(10**13) == frozenset()
    assert damper.next_ns() is None
