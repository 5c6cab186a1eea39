"""The state machine of a switch: which commands follow from which events, and what health says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.changes import Change
from controller.core import MOST_ROUNDS, Core, State, SwitchSession, reconcile
from controller.designs import Design, plan
from controller.events import (
    Changed,
    Close,
    Connected,
    Disconnected,
    Event,
    Failed,
    Make,
    Port,
    PortChanged,
    ProgramRead,
    Read,
    Refused,
)
from controller.flows import Bucket, FlowRule, Group, GroupKind, Match, Output, Program, Table
from tests.support.controller_fabrics import leaf_spine

PLAN = plan(leaf_spine(), Design.GATEWAY, ())
STALE = FlowRule(1, Table.ROUTE, 77, Match(eth_dst="02:00:00:00:00:99"), (Output(1),))
STALE_GROUP = Group(1, 9999, GroupKind.FAST_FAILOVER, (Bucket(1),))
NOT_MINE = Program((STALE,), (STALE_GROUP,))


def ports_of(session: SwitchSession) -> tuple[Port, ...]:
    return tuple(Port(number, name, "02:aa:00:00:00:01", True) for number, name in session.expected_ports.items())


@pytest.fixture
def core() -> Iterator[Core]:
    """A fresh core; after each test its sessions are consistent."""
    core = Core(PLAN)
    yield core
    check(core)


def check(core: Core) -> None:
    """Invariants: absent switches have no ports, ready ones no failure, and readiness is the absence of problems."""
    for session in core.sessions.values():
        assert session.state is not State.ABSENT or not session.ports
        assert (session.state is State.FAILED) == bool(session.failure)
        assert session.rounds <= MOST_ROUNDS
    assert core.ready == all(
        session.state is State.READY and not session.problems() for session in core.sessions.values()
    )


def bring_up(core: Core, dpid: int) -> None:
    session = core.sessions[dpid]
    core.handle(Connected(dpid, ports_of(session)), 1)
    core.handle(ProgramRead(dpid, session.program), 2)


def test_an_empty_switch_is_filled_and_verified(core: Core) -> None:
    """Read, change, read again, ready: each step follows from an answer of the switch."""
    session = core.sessions[1]
    assert core.handle(Connected(1, ports_of(session)), 10) == [Read(1)]
    assert (session.state, session.since_ns) == (State.READING, 10)
    assert core.handle(ProgramRead(1, Program()), 20) == [Make(Change(1, put=session.program)), Read(1)]
    assert (session.state, session.since_ns) == (State.VERIFYING, 20)
    assert core.handle(ProgramRead(1, session.program), 30) == []
    assert (session.state, session.since_ns, session.problems()) == (State.READY, 30, [])


def test_a_switch_that_kept_its_rules_is_not_touched(core: Core) -> None:
    """After a reconnect nothing is changed, in whatever order the switch lists its rules."""
    session = core.sessions[1]
    core.handle(Connected(1, ports_of(session)), 1)
    program = session.program
    backwards = Program(program.rules[::-1], program.groups[::-1])
    assert core.handle(ProgramRead(1, backwards), 2) == []
    assert session.state is State.READY


def test_only_differences_are_changed(core: Core) -> None:
    """Missing and changed rules and groups are put, stale ones deleted, the others left alone."""
    session = core.sessions[1]
    program = session.program
    changed = replace(program.rules[0], cookie=1)
    other = replace(program.groups[0], buckets=(Bucket(77),))
    have = Program((changed, *program.rules[2:], STALE), (other, *program.groups[2:], STALE_GROUP))
    core.handle(Connected(1, ports_of(session)), 1)
    put = Program(program.rules[:2], program.groups[:2])
    assert core.handle(ProgramRead(1, have), 2) == [Make(Change(1, put=put, delete=NOT_MINE)), Read(1)]


def test_foreign_entries_cost_a_clean_slate(core: Core) -> None:
    """What cannot be expressed cannot be deleted one by one."""
    session = core.sessions[1]
    core.handle(Connected(1, ports_of(session)), 1)
    commands = core.handle(ProgramRead(1, session.program, foreign=2), 2)
    assert commands == [Make(Change(1, clear=True, put=session.program)), Read(1)]


def test_a_switch_that_does_not_take_rules_fails_with_the_reason(core: Core) -> None:
    """After three rounds it is given up; the first missing and stale rule and the switch's own words are told."""
    session = core.sessions[1]
    core.handle(Connected(1, ports_of(session)), 1)
    for _ in range(MOST_ROUNDS):
        assert core.handle(ProgramRead(1, Program((STALE,))), 2)
    core.handle(Refused(1, "OFPET_FLOW_MOD_FAILED OFPFMFC_TABLE_FULL"), 3)
    assert core.handle(ProgramRead(1, Program((STALE,)), foreign=1), 4) == []
    assert session.state is State.FAILED
    [problem] = session.problems()
    for part in (str(session.wanted[0]), "1 foreign", "TABLE_FULL"):
        assert part in problem
    # Somebody may repair the switch by hand, and a new connection is a new chance.
    core.handle(ProgramRead(1, session.program), 5)
    assert (session.state, session.problems(), session.failure) == (State.READY, [], "")
    assert core.handle(Connected(1, ports_of(session)), 6) == [Read(1)]
    assert (session.failure, session.rounds, session.refusals) == ("", 0, [])


def test_a_failed_switch_that_leaves_is_just_absent(core: Core) -> None:
    """What went wrong on a connection ends with it."""
    core.handle(Connected(1, ()), 1)
    for _ in range(MOST_ROUNDS + 1):
        core.handle(ProgramRead(1, Program((STALE,))), 2)
    assert core.sessions[1].state is State.FAILED
    core.handle(Disconnected(1), 3)
    assert core.sessions[1].problems() == ["s0 is not connected"]


def test_a_silent_switch_is_disconnected(core: Core) -> None:
    """It connects again by itself, and then everything starts afresh."""
    core.handle(Connected(1, ()), 1)
    assert core.handle(Failed(1, "silent"), 2) == [Close(1)]
    assert core.handle(Disconnected(1), 3) == []
    assert core.sessions[1].problems() == ["s0 is not connected"]


def test_late_answers_of_a_lost_connection_change_nothing(core: Core) -> None:
    """Whatever arrives after the end of a connection is ignored."""
    program = core.sessions[1].program
    for event in (
        ProgramRead(1, program),
        Failed(1, "late"),
        Changed(1, 0),
        Refused(1, "late"),
        PortChanged(1, Port(1, "s0-eth1", "02:00:00:00:00:01", True), True),
        Disconnected(1),
    ):
        assert core.handle(event, 1) == []
        assert (core.sessions[1].state, core.sessions[1].ports) == (State.ABSENT, {})


def test_strangers_are_remembered_while_they_are_there(core: Core) -> None:
    """An unknown switch gets no commands, whatever it does."""
    assert core.handle(Connected(99, ()), 1) == []
    assert core.strangers == {99}
    assert core.handle(ProgramRead(99, Program((STALE,))), 2) == []
    assert core.handle(Disconnected(99), 3) == []
    assert core.strangers == set()


def test_ready_means_all_switches_rules_and_ports(core: Core) -> None:
    """Readiness comes with the last switch and goes with any port."""
    dpids = list(core.sessions)
    for dpid in dpids:
        assert not core.ready
        bring_up(core, dpid)
    assert core.ready
    port = core.sessions[1].ports[1]
    core.handle(PortChanged(1, replace(port, up=False), True), 3)
    assert core.sessions[1].problems() == ["s0: port 1 (s0-eth1) is down"]
    core.handle(PortChanged(1, port, False), 4)
    assert core.sessions[1].problems() == ["s0 has no port 1 (s0-eth1)"]
    core.handle(PortChanged(1, replace(port, number=9), True), 5)
    assert core.sessions[1].problems() == ["s0: s0-eth1 is port 9 and should be port 1"]
    assert core.sessions[1].state is State.READY
    core.handle(PortChanged(1, replace(port, number=9), False), 6)
    core.handle(PortChanged(1, port, True), 7)
    assert core.ready


def test_ports_that_the_fabric_does_not_know_do_not_matter(core: Core) -> None:
    """A mirror port or another name for an expected number is nobody's problem."""
    session = core.sessions[1]
    more = (*ports_of(session), Port(500, "mirror", "02:00:00:00:00:05", False))
    core.handle(Connected(1, tuple(replace(port, name=f"x{port.number}") for port in more)), 1)
    core.handle(ProgramRead(1, session.program), 2)
    assert session.problems() == []


def test_a_fabric_without_switches_is_ready() -> None:
    """There is nothing to wait for."""
    assert Core(plan(replace(PLAN.fabric, nodes=(), links=()), Design.SHORTEST_PATH, ())).ready


_PORT = st.builds(
    Port, st.integers(1, 9), st.sampled_from(["s0-eth1", "s0-eth2", "x"]), st.just("02::1"), st.booleans()
)
_DPID = st.sampled_from([1, 2, 99])
_EVENTS = st.one_of(
    st.builds(Connected, _DPID, st.lists(_PORT, max_size=4).map(tuple)),
    st.builds(Disconnected, _DPID),
    st.builds(ProgramRead, _DPID, st.sampled_from([Program(), NOT_MINE, PLAN.program_of(1)]), st.integers(0, 2)),
    st.builds(Changed, _DPID, st.integers(0, 4)),
    st.builds(Failed, _DPID, st.text()),
    st.builds(PortChanged, _DPID, _PORT, st.booleans()),
    st.builds(Refused, _DPID, st.text()),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(_EVENTS, st.integers(-(10**9), 10**10)), max_size=40))
def test_any_order_of_events_leaves_a_consistent_state(events: list[tuple[Event, int]]) -> None:
    """No sequence raises, breaks an invariant, or commands strangers or absent switches; clocks may jump."""
    core = Core(PLAN)
    for event, now_ns in events:
        for command in core.handle(event, now_ns):
            assert core.sessions[command.dpid].state is not State.ABSENT
        check(core)
        core.look(now_ns)


def test_replayed_changes_change_nothing() -> None:
    """Reconciling what reconciling leads to is empty."""
    program = PLAN.program_of(1)
    change = reconcile(1, Program(program.rules[3:], program.groups), program)
    assert set(change.put.rules) == set(program.rules[:3])
    assert not reconcile(1, program, program)
