"""The state machine of a switch: which commands follow from which events, and what health says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.changes import Change
from controller.core import MOST_ROUNDS, Core, Options, State, SwitchSession
from controller.designs import Design, plan
from controller.events import (
    Applied,
    Apply,
    Close,
    Command,
    Connected,
    ControllerRole,
    Deposed,
    Disconnected,
    Elected,
    Event,
    Failed,
    Foreign,
    Part,
    Port,
    PortChanged,
    Read,
    Refused,
    RoleTaken,
    TablesRead,
    TakeRole,
    Tick,
)
from controller.flows import Bucket, FlowRule, Group, GroupKind, Match, Meter, Output, Program, Table
from controller.journal import Kind
from tests.support.controller_fabrics import leaf_spine

PLAN = plan(leaf_spine(), Design.GATEWAY, ())
STALE = FlowRule(1, Table.ROUTE, 77, Match(eth_dst="02:00:00:00:00:99"), (Output(1),))
STALE_GROUP = Group(1, 9999, GroupKind.FAST_FAILOVER, (Bucket(1),))
NOT_MINE = Program((STALE,), (STALE_GROUP,))
QUIET = Options(lldp_interval_ns=0, startup_ns=10**17, gather_ns=0)
ODD = Foreign(Part.FLOW, "table 9 priority 5", handle="how to delete it")


def ports_of(session: SwitchSession) -> tuple[Port, ...]:
    return tuple(Port(number, name, "02:aa:00:00:00:01", True) for number, name in session.expected_ports.items())


@pytest.fixture
def core() -> Iterator[Core]:
    """A fresh core; after each test its sessions are consistent."""
    core = Core(PLAN, QUIET)
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


def only(commands: list[Command]) -> Command:
    [command] = commands
    return command


class Talk:
    """A conversation about switch 1: remembers which command is to be answered."""

    def __init__(self, core: Core, dpid: int = 1) -> None:
        self.core, self.dpid, self.now_ns = core, dpid, 0
        self.session = core.sessions[dpid]
        self.command: Command | None = None

    def say(self, event: Event) -> list[Command]:
        self.now_ns += 10
        commands = [command for command in self.core.handle(event, self.now_ns) if command.dpid == self.dpid]
        if commands:
            self.command = commands[-1]
        return commands

    @property
    def token(self) -> int:
        assert self.command is not None
        return getattr(self.command, "token", 0)

    def connect(self) -> list[Command]:
        return self.say(Connected(self.dpid, ports_of(self.session)))

    def read(self, program: Program, *foreign: Foreign) -> list[Command]:
        assert isinstance(self.command, Read)
        return self.say(TablesRead(self.dpid, self.token, program, foreign))

    def applied(self) -> list[Command]:
        assert isinstance(self.command, Apply)
        return self.say(Applied(self.dpid, self.token))


def bring_up(core: Core, dpid: int) -> Talk:
    talk = Talk(core, dpid)
    talk.connect()
    talk.read(talk.session.program)
    return talk


def test_an_empty_switch_is_filled_and_verified(core: Core) -> None:
    """Read, change, read again, ready: each step follows from an answer of the switch."""
    talk = Talk(core)
    session = talk.session
    assert isinstance(only(talk.connect()), Read)
    assert (session.state, session.since_ns) == (State.READING, 10)
    command = only(talk.read(Program()))
    assert isinstance(command, Apply)
    assert not command.change.clear
    assert set(command.change.put.rules) == set(session.program.rules)
    assert command.change.put.groups == session.program.groups
    assert command.change.delete == Program()
    assert (session.state, session.since_ns) == (State.VERIFYING, 20)
    assert isinstance(only(talk.applied()), Read)
    assert talk.read(session.program) == []
    assert (session.state, session.since_ns, session.problems()) == (State.READY, 40, [])


def test_rules_of_later_tables_come_first(core: Core) -> None:
    """A packet that meets a new rule finds the way on; a stale way is closed from its beginning."""
    talk = Talk(core)
    talk.connect()
    command = only(talk.read(Program()))
    assert isinstance(command, Apply)
    tables = [rule.table for rule in command.change.put.rules]
    assert tables == sorted(tables, reverse=True)
    talk.applied()
    stale = [replace(STALE, table=table) for table in (Table.ROUTE, Table.ADMIT, Table.STEER)]
    command = only(talk.read(Program((*talk.session.wanted, *stale), talk.session.program.groups)))
    assert isinstance(command, Apply)
    assert [rule.table for rule in command.change.delete.rules] == [Table.ADMIT, Table.STEER, Table.ROUTE]


def test_a_switch_that_kept_its_rules_is_not_touched(core: Core) -> None:
    """After a reconnect nothing is changed, in whatever order the switch lists its rules and groups."""
    talk = Talk(core)
    talk.connect()
    program = talk.session.program
    assert talk.read(Program(program.rules[::-1], program.groups[::-1])) == []
    assert talk.session.state is State.READY
    assert talk.session.corrected == 0


def test_only_differences_are_changed(core: Core) -> None:
    """Missing and changed entries are put, stale ones deleted, and what is right is left alone."""
    talk = Talk(core)
    talk.connect()
    program = talk.session.program
    changed = replace(program.rules[0], cookie=1)
    have = Program((changed, *program.rules[2:], STALE), (*program.groups[1:], STALE_GROUP))
    command = only(talk.read(have))
    assert isinstance(command, Apply)
    assert set(command.change.put.rules) == set(program.rules[:2])
    assert command.change.put.groups == program.groups[:1]
    assert command.change.delete == NOT_MINE


def test_meters_that_exist_are_modified(core: Core) -> None:
    """Adding a meter that is there is an error in OpenFlow, so the command says which are."""
    talk = bring_up(core, 1)
    core.declare(PLAN, {"base": Program(PLAN.rules, (), (Meter(1, 1, 100, 10), Meter(1, 2, 100, 10)))}, "", 100)
    talk.say(Disconnected(1))
    talk.connect()
    odd = Foreign(Part.METER, "meter 2", 2)
    command = only(talk.read(Program(talk.session.wanted, talk.session.program.groups), odd))
    assert isinstance(command, Apply)
    assert len(command.change.put.meters) == 2
    assert command.meters == {2}
    assert command.foreign == ()


def test_foreign_entries_are_deleted_one_by_one(core: Core) -> None:
    """What is ours stays as it is."""
    talk = Talk(core)
    talk.connect()
    command = only(talk.read(talk.session.program, ODD, Foreign(Part.GROUP, "group 7", 7)))
    assert isinstance(command, Apply)
    assert not command.change
    assert command.foreign == (ODD, Foreign(Part.GROUP, "group 7", 7))
    talk.applied()
    assert talk.read(talk.session.program) == []
    assert talk.session.state is State.READY


def test_a_foreign_entry_in_the_place_of_ours_is_replaced_not_deleted(core: Core) -> None:
    """Deleting it after ours was put would delete ours."""
    talk = Talk(core)
    talk.connect()
    program = talk.session.program
    there = Foreign(Part.FLOW, "ours with a timeout", key=program.rules[0].key)
    command = only(talk.read(Program(program.rules[1:], program.groups), there))
    assert isinstance(command, Apply)
    assert command.change.put.rules == program.rules[:1]
    assert command.foreign == ()


def test_foreign_entries_that_stay_cost_a_clean_slate(core: Core) -> None:
    """If deleting exactly them does not help, everything goes."""
    talk = Talk(core)
    talk.connect()
    talk.read(talk.session.program, ODD)
    talk.applied()
    command = only(talk.read(talk.session.program, ODD))
    assert isinstance(command, Apply)
    assert command.change == Change(1, clear=True, put=talk.session.program)
    assert (command.foreign, command.meters) == ((), frozenset())


def test_a_switch_that_does_not_take_rules_fails_with_the_reason(core: Core) -> None:
    """After three rounds it is given up; the first missing and stale entry and the switch's own words are told."""
    talk = Talk(core)
    talk.connect()
    for _ in range(MOST_ROUNDS):
        assert isinstance(only(talk.read(Program((STALE,)))), Apply)
        assert isinstance(only(talk.applied()), Read)
    talk.say(Refused(1, "OFPET_FLOW_MOD_FAILED OFPFMFC_TABLE_FULL"))
    assert talk.read(Program((STALE,)), ODD) == []
    assert talk.session.state is State.FAILED
    [problem] = talk.session.problems()
    for part in (
        str(max(talk.session.wanted, key=lambda rule: rule.table)).split(" -> ")[0],
        "1 foreign",
        "TABLE_FULL",
    ):
        assert part in problem


def test_a_failed_switch_is_tried_again_later(core: Core) -> None:
    """Somebody may repair it by hand; it need not connect anew."""
    talk = Talk(core)
    talk.connect()
    for _ in range(MOST_ROUNDS):
        talk.read(Program((STALE,)))
        talk.applied()
    talk.read(Program((STALE,)))
    assert talk.session.state is State.FAILED
    wake_ns = core.next_ns()
    assert wake_ns == talk.now_ns + core.options.retry_ns
    assert core.handle(Tick(), wake_ns - 1) == []
    [again] = core.handle(Tick(), wake_ns)
    assert isinstance(again, Read)
    talk.command = again
    talk.now_ns = wake_ns
    assert talk.read(talk.session.program) == []
    assert (talk.session.state, talk.session.failure) == (State.READY, "")


def test_a_failed_switch_that_leaves_is_just_absent(core: Core) -> None:
    """What went wrong on a connection ends with it."""
    talk = Talk(core)
    talk.connect()
    for _ in range(MOST_ROUNDS):
        talk.read(Program((STALE,)))
        talk.applied()
    talk.read(Program((STALE,)))
    assert talk.session.state is State.FAILED
    talk.say(Disconnected(1))
    assert talk.session.problems() == ["s0 is not connected"]


def test_a_silent_switch_is_disconnected(core: Core) -> None:
    """It connects again by itself, and then everything starts afresh."""
    talk = Talk(core)
    talk.connect()
    assert talk.say(Failed(1, talk.token, "silent")) == [Close(1, "silent")]
    assert talk.say(Disconnected(1)) == []
    assert talk.session.problems() == ["s0 is not connected"]


def test_late_answers_change_nothing(core: Core) -> None:
    """Whatever arrives after the end of a connection, or answers an earlier command, is ignored."""
    talk = Talk(core)
    program = talk.session.program
    talk.connect()
    old = talk.token
    talk.say(Disconnected(1))
    late: tuple[Event, ...] = (
        TablesRead(1, old, program),
        Applied(1, old),
        Failed(1, old, "late"),
        Refused(1, "late"),
        PortChanged(1, Port(1, "s0-eth1", "02:00:00:00:00:01", True), True),
        Disconnected(1),
    )
    for event in late:
        assert talk.say(event) == []
        assert (talk.session.state, talk.session.ports) == (State.ABSENT, {})
    talk.connect()
    for event in late[:3]:
        assert talk.say(event) == []
        assert talk.session.state is State.READING
    assert talk.read(program) == []
    assert talk.say(TablesRead(1, talk.token, Program())) == []
    assert talk.session.state is State.READY


def test_strangers_are_remembered_while_they_are_there(core: Core) -> None:
    """An unknown switch gets no commands, whatever it does, and is named once."""
    assert core.handle(Connected(99, ()), 1) == []
    assert core.strangers == {99}
    assert core.handle(TablesRead(99, 0, Program((STALE,))), 2) == []
    assert core.handle(Connected(99, ()), 3) == []
    assert core.handle(Disconnected(99), 4) == []
    assert core.strangers == set()
    assert [entry.fields["dpid"] for entry in core.journal.since()] == [99]


def test_ready_means_all_switches_rules_and_ports(core: Core) -> None:
    """Readiness comes with the last switch and goes with any port."""
    for dpid in core.sessions:
        assert not core.ready
        bring_up(core, dpid)
    assert core.ready
    port = core.sessions[1].ports[1]
    core.handle(PortChanged(1, replace(port, up=False), True), 300)
    assert core.sessions[1].problems()[-1] == "s0: port 1 (s0-eth1) is down"
    core.handle(PortChanged(1, port, False), 400)
    assert core.sessions[1].problems()[-1] == "s0 has no port 1 (s0-eth1)"
    core.handle(PortChanged(1, replace(port, number=9), True), 500)
    assert core.sessions[1].problems()[-1] == "s0: s0-eth1 is port 9 and should be port 1"


def test_ports_that_the_fabric_does_not_know_do_not_matter(core: Core) -> None:
    """A mirror port or another name for an expected number is nobody's problem."""
    session = core.sessions[1]
    more = (*ports_of(session), Port(500, "mirror", "02:00:00:00:00:05", False))
    [read] = core.handle(Connected(1, tuple(replace(port, name=f"x{port.number}") for port in more)), 1)
    assert isinstance(read, Read)
    core.handle(TablesRead(1, read.token, session.program), 2)
    assert session.problems() == []


def test_a_fabric_without_switches_is_ready() -> None:
    """There is nothing to wait for."""
    assert Core(plan(replace(PLAN.fabric, nodes=(), links=()), Design.SHORTEST_PATH, ())).ready


# --- later changes --------------------------------------------------------------------------------------------------


def layer(*rules: FlowRule) -> dict[str, Program]:
    return {"base": Program(PLAN.rules), "more": Program(rules)}


def test_a_later_change_is_confirmed_by_a_barrier(core: Core) -> None:
    """Only the difference is sent, only to the switch concerned; until it is confirmed, nothing is ready."""
    for dpid in core.sessions:
        bring_up(core, dpid)
    base = layer()
    core.declare(PLAN, base, "", 200)
    assert core.ready
    [command] = core.declare(PLAN, {**base, "more": Program((STALE,))}, "a rule", 210)
    assert command == Apply(1, command.token, Change(1, put=Program((STALE,))))  # type: ignore[union-attr]
    assert core.problems() == ["s0 has not confirmed its latest changes yet"]
    assert core.handle(Applied(1, command.token), 220) == []  # type: ignore[union-attr]
    assert core.ready
    assert [entry.message for entry in core.journal.since(kinds=[Kind.TENANCY])] == ["a rule", "installed: a rule"]
    [command] = core.declare(PLAN, {"base": base["base"]}, "", 230)
    assert command == Apply(1, command.token, Change(1, delete=Program((STALE,))))  # type: ignore[union-attr]


def test_changes_during_a_change_are_sent_after_it(core: Core) -> None:
    """Together, and only what is still wanted then."""
    talk = bring_up(core, 1)
    rules = [replace(STALE, priority=priority) for priority in range(100, 104)]
    base = layer()
    core.declare(PLAN, base, "", 100)
    [first] = core.declare(PLAN, {**base, "more": Program((rules[0],))}, "", 110)
    assert core.declare(PLAN, {**base, "more": Program(tuple(rules))}, "", 120) == []
    assert core.declare(PLAN, {**base, "more": Program(tuple(rules[1:3]))}, "", 130) == []
    talk.command = first
    command = only(talk.applied())
    assert isinstance(command, Apply)
    assert command.change == Change(1, put=Program(tuple(rules[1:3])), delete=Program((rules[0],)))
    assert talk.applied() == []
    assert talk.session.state is State.READY


def test_a_change_that_the_switch_complains_about_is_read_back(core: Core) -> None:
    """What was refused is seen by reading, and sent again."""
    talk = bring_up(core, 1)
    base = layer()
    core.declare(PLAN, base, "", 100)
    [talk.command] = core.declare(PLAN, {**base, "more": Program((STALE,))}, "", 110)
    talk.say(Refused(1, "OFPET_FLOW_MOD_FAILED OFPFMFC_TABLE_FULL"))
    assert isinstance(only(talk.applied()), Read)
    command = only(talk.read(Program(PLAN.program_of(1).rules, talk.session.program.groups)))
    assert isinstance(command, Apply)
    assert command.change.put == Program((STALE,))


def test_a_change_before_the_switch_is_there_is_part_of_its_program(core: Core) -> None:
    """Nothing is sent to nobody."""
    assert core.declare(PLAN, layer(STALE), "", 1) == []
    talk = Talk(core)
    talk.connect()
    command = only(talk.read(PLAN.program_of(1)))
    assert isinstance(command, Apply)
    assert command.change.put == Program((STALE,))


# --- several controllers --------------------------------------------------------------------------------------------


def test_a_standby_does_nothing_until_it_is_elected() -> None:
    """It asks for the role of a slave; as the elected one it becomes master, and reconciles without touching rules."""
    core = Core(PLAN, replace(QUIET, redundant=True))
    talk = Talk(core)
    command = only(talk.connect())
    assert command == TakeRole(1, talk.token, ControllerRole.SLAVE, 0)
    assert talk.say(RoleTaken(1, talk.token)) == []
    assert talk.session.state is State.STANDBY
    assert core.declare(PLAN, layer(STALE), "", 50) == []
    command = only(talk.say(Elected(7)))
    assert command == TakeRole(1, talk.token, ControllerRole.MASTER, 7)
    assert isinstance(only(talk.say(RoleTaken(1, talk.token))), Read)
    assert talk.read(talk.session.program) == []
    assert talk.session.state is State.READY
    check(core)


def test_a_deposed_controller_steps_back_at_once() -> None:
    """In the middle of a change it stops, and what still arrives changes nothing."""
    core = Core(PLAN, replace(QUIET, redundant=True))
    core.handle(Elected(1), 1)
    talk = Talk(core)
    assert only(talk.connect()) == TakeRole(1, talk.token, ControllerRole.MASTER, 1)
    talk.say(RoleTaken(1, talk.token))
    talk.read(Program())
    late = talk.token
    command = only(talk.say(Deposed(2, "its lease ended")))
    assert command == TakeRole(1, talk.token, ControllerRole.SLAVE, 2)
    assert talk.say(Applied(1, late)) == []
    assert talk.say(RoleTaken(1, talk.token)) == []
    assert talk.session.state is State.STANDBY
    assert core.declare(PLAN, layer(STALE), "", 500) == []
    assert [entry.message for entry in core.journal.since(kinds=[Kind.CONTROLLER])] == [
        "this controller decides from now on (generation 1)",
        "this controller stands by: its lease ended",
    ]
    check(core)


# --- the start ------------------------------------------------------------------------------------------------------


def test_nothing_is_read_before_all_switches_are_there() -> None:
    """What the last one says about a failed link decides what the first one gets."""
    core = Core(PLAN, replace(QUIET, gather_ns=10**9))
    commands: list[Command] = []
    for dpid, session in core.sessions.items():
        assert commands == []
        down = tuple(replace(port, up=port.number != 1) for port in ports_of(session))
        commands = core.handle(Connected(dpid, down if session.name == "l2" else ports_of(session)), 5)
    assert [type(command) for command in commands] == [Read] * len(core.sessions)
    assert core.repair.count == 0
    assert {link for link in core.usable.down if "l2-eth1" in link}
    assert core.sessions[1].program.groups != PLAN.program_of(1).groups


def test_switches_that_do_not_come_are_not_waited_for_long() -> None:
    """After a second those that are there are read; one that left meanwhile is not."""
    core = Core(PLAN, replace(QUIET, gather_ns=10**9))
    for dpid in (1, 2, 3):
        assert core.handle(Connected(dpid, ports_of(core.sessions[dpid])), 5) == []
    assert core.handle(Disconnected(2), 6) == []
    assert core.next_ns() == 5 + 10**9
    commands = core.handle(Tick(), 5 + 10**9)
    assert [(type(command), command.dpid) for command in commands] == [(Read, 1), (Read, 3)]
    assert [type(command) for command in core.handle(Connected(2, ports_of(core.sessions[2])), 2 * 10**9)] == [Read]


# --- time -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_does_not_stop_time(core: Core) -> None:
    """What was to happen in a second happens a second later on the new clock."""
    talk = bring_up(core, 1)
    talk.now_ns = 10**15
    talk.say(Disconnected(1))
    assert not core.usable.shunned
    assert core.handle(Tick(), 5) == []
    wake_ns = core.next_ns()
    assert wake_ns is not None
    assert wake_ns <= 5 + core.options.grace_ns
    core.handle(Tick(), wake_ns)
    assert core.usable.shunned


def test_a_clock_that_leaps_does_everything_once(core: Core) -> None:
    """A year later there is no year's worth of work to catch up with."""
    options = Options(gather_ns=0)
    lively = Core(PLAN, options, b"k")
    for dpid in lively.sessions:
        bring_up(lively, dpid)
    frames = len(lively.handle(Tick(), options.lldp_interval_ns * 2))
    assert frames == len(lively.handle(Tick(), 365 * 86_400 * 10**9)) > 0
    assert not lively.watch.discovery.silent
    wake_ns = lively.next_ns()
    assert wake_ns is not None
    assert wake_ns > 365 * 86_400 * 10**9


def test_links_of_switches_that_never_came_are_no_news() -> None:
    """Without switches nothing is said of links; with one, of those that it has; with all, of none any more."""
    core = Core(PLAN, Options(lldp_interval_ns=0, startup_ns=1000, gather_ns=0))

    def told() -> list[str]:
        return [entry.message for entry in core.journal.since(0) if entry.kind is Kind.LINK]

    core.handle(Tick(), 0)
    core.handle(Tick(), 5000)
    assert core.usable.shunned
    assert told() == []
    talk = Talk(core)
    talk.now_ns = 6000
    name = talk.session.name
    talk.say(Connected(1, ports_of(talk.session)))
    own = [link.name for link in PLAN.fabric.links_of(name) if PLAN.fabric.by_name[link.a].is_switch]
    own = [link for link in own if link in core.usable.reasons]
    assert own
    assert sorted(message.split(" is avoided: ")[0] for message in told()) == sorted(own)
