"""The core against switches that do anything, in any order: connect, fail, answer late and twice, be tampered with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.core import Options, State
from controller.designs import Design, plan
from controller.events import (
    Deposed,
    Elected,
    Foreign,
    Part,
    Port,
    PortChanged,
    Refused,
    Reported,
    Tick,
)
from controller.flows import (
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Meter,
    Output,
    Program,
    Purpose,
    Table,
    ToGroup,
    cookie_of,
)
from controller.paths.graph import fabric_links
from controller.tenancy.violations import Violation
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_machine import MS, Machine, S

PLAN = plan(leaf_spine(gpus=2, computes=1, gateways=1, storage=1), Design.GATEWAY, ())
LINKS = [link.name for link in fabric_links(PLAN.fabric)]
DPIDS = [node.dpid or 0 for node in PLAN.fabric.switches]
BASE = Program(PLAN.rules)
DPID = st.sampled_from(DPIDS)


def tenant_rules(chosen: frozenset[int]) -> Program:
    """Rules of all kinds for some of the switches: with a meter, a group of ours, and one that replaces another."""
    rules: list[FlowRule] = []
    meters: list[Meter] = []
    for number in sorted(chosen):
        dpid, variant = DPIDS[number % len(DPIDS)], number // len(DPIDS)
        match = Match(eth_dst=f"02:00:00:00:00:{number % len(DPIDS):02x}")
        groups = PLAN.program_of(dpid).groups
        group = groups[variant % len(groups)].number
        meters.append(Meter(dpid, 1, 100, 10))
        rules.append(FlowRule(dpid, Table.STEER, 50 + variant % 2, match, (ToGroup(group),), meter=1))
    unique = {(rule.dpid, rule.key): rule for rule in rules}
    return Program(tuple(unique.values()), (), tuple({meter.dpid: meter for meter in meters}.values()))


class ControllerMachine(RuleBasedStateMachine):
    """Random sequences; the state is checked after each step."""

    @initialize(seed=st.integers(0, 1000), redundant=st.booleans(), lldp=st.booleans(), gather=st.booleans())
    def start(self, seed: int, redundant: bool, lldp: bool, gather: bool) -> None:
        options = Options(redundant=redundant, lldp_interval_ns=10 * S if lldp else 0, gather_ns=S if gather else 0)
        self.machine = Machine(PLAN, seed, options)
        self.core = self.machine.core
        self.generation = 0
        self.chosen: frozenset[int] = frozenset()

    @rule(dpid=DPID)
    def connect(self, dpid: int) -> None:
        self.machine.connect(dpid)

    @rule()
    def connect_all(self) -> None:
        for dpid in DPIDS:
            if self.core.sessions[dpid].state is State.ABSENT:
                self.machine.connect(dpid)

    @rule(dpid=DPID, emptied=st.booleans())
    def lose(self, dpid: int, emptied: bool) -> None:
        self.machine.lose(dpid, emptied=emptied)

    @rule(name=st.sampled_from(LINKS))
    def flap(self, name: str) -> None:
        self.machine.set_link(name, up=name in self.machine.down)

    @rule(count=st.integers(1, 30))
    def work(self, count: int) -> None:
        for _ in range(count):
            self.machine.step()

    @rule(duration_ns=st.sampled_from([MS, S, 11 * S, 100 * S]))
    def wait(self, duration_ns: int) -> None:
        self.machine.pass_time(duration_ns)

    @rule(now_ns=st.sampled_from([-(10**18), 0, 10**18]))
    def jump(self, now_ns: int) -> None:
        """The clock is set to anything."""
        self.machine.now_ns = now_ns
        self.machine.handle(Tick())

    @rule(chosen=st.frozensets(st.integers(0, 4 * len(DPIDS) - 1), max_size=6))
    def declare(self, chosen: frozenset[int]) -> None:
        self.chosen = chosen
        layers = {"base": BASE, "tenants": tenant_rules(chosen)}
        self.machine.queue(self.core.declare(PLAN, layers, f"change to {sorted(chosen)}", self.machine.now_ns))

    @rule(index=st.integers(0, 49))
    def repeat(self, index: int) -> None:
        """An answer arrives a second time."""
        said = [event for event in self.machine.said if self.core.sessions[event.dpid].state is not State.ABSENT]  # type: ignore[union-attr]
        if said:
            self.machine.handle(said[index % len(said)])

    @rule(dpid=DPID, reason=st.text(max_size=20))
    def refuse(self, dpid: int, reason: str) -> None:
        if self.core.sessions[dpid].state is not State.ABSENT:
            self.machine.handle(Refused(dpid, reason))

    @rule(dpid=DPID, number=st.integers(0, 9), up=st.booleans(), present=st.booleans())
    def other_port(self, dpid: int, number: int, up: bool, present: bool) -> None:
        """A port that the fabric does not know comes or goes."""
        if self.core.sessions[dpid].state is not State.ABSENT:
            port = Port(100 + number, f"x{number}", "02:00:00:00:00:01", up)
            self.machine.handle(PortChanged(dpid, port, present))

    @rule(dpid=DPID, data=st.binary(max_size=80), reason=st.sampled_from(Violation))
    def report(self, dpid: int, data: bytes, reason: Violation) -> None:
        if self.core.sessions[dpid].state is not State.ABSENT:
            self.machine.handle(Reported(dpid, 1, reason.cookie, 0, data))
            self.machine.handle(Reported(dpid, 1, cookie_of(Purpose.DISCOVER), 0, data))

    @rule(dpid=DPID)
    def tamper(self, dpid: int) -> None:
        """While the switch is away somebody changes its tables."""
        self.machine.lose(dpid, emptied=False)
        switch = self.machine.switches[dpid]
        if len(switch.program.rules) > 3:
            from controller.changes import Change

            mine = sorted(switch.program.rules, key=str)
            put = Program(
                (replace(mine[0], cookie=1), FlowRule(dpid, Table.ADMIT, 999, Match(in_port=1), (Output(2),))),
                (Group(dpid, 9999, GroupKind.SELECT, (Bucket(1, 5),)),),
            )
            switch.apply(Change(dpid, put=put, delete=Program(tuple(mine[1:3]))))
        self.machine.foreign[dpid] += [
            Foreign(Part.FLOW, "odd", key=(Table.ADMIT, 7, Match(in_port=3))),
            Foreign(Part.METER, "odd", 1 + len(self.machine.foreign[dpid])),
        ]

    @rule()
    def elect(self) -> None:
        if self.core.options.redundant and not self.core.office.active:
            self.generation += 1
            self.machine.handle(Elected(self.generation))

    @rule()
    def depose(self) -> None:
        if self.core.options.redundant and self.core.office.active:
            self.generation += 1
            self.machine.handle(Deposed(self.generation, "tested"))

    @rule()
    def recover(self) -> None:
        """Everything heals: after a while everything is as planned, and a further look changes nothing."""
        if self.core.options.redundant and not self.core.office.active:
            self.elect()
        self.connect_all()
        for name in sorted(self.machine.down):
            self.machine.set_link(name, up=True)
        for session in self.core.sessions.values():
            for number in [number for number in session.ports if number >= 100]:
                self.machine.handle(PortChanged(session.dpid, session.ports[number], False))
        self.machine.run()
        self.machine.pass_time(100 * S)
        self.machine.run()
        assert self.core.ready, self.core.problems()
        assert not self.core.usable.reasons
        wanted = tenant_rules(self.chosen).by_switch()
        for dpid, switch in self.machine.switches.items():
            planned, more = PLAN.program_of(dpid), wanted.get(dpid, Program())
            assert set(switch.program.groups) == set(planned.groups)
            assert set(switch.program.rules) == {*planned.rules, *more.rules}
            assert set(switch.program.meters) == set(more.meters)
            assert not self.machine.foreign[dpid]
        changes = self.machine.changes
        self.machine.pass_time(100 * S)
        assert self.machine.changes == changes

    @invariant()
    def consistent(self) -> None:
        if hasattr(self, "machine"):
            self.machine.check_sessions()
            for name in self.core.usable.reasons:
                assert name in LINKS


TestControllerMachine = ControllerMachine.TestCase
TestControllerMachine.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
pytestmark = pytest.mark.filterwarnings("error")
