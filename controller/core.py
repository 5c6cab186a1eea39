"""The controller's state and decisions: takes events and the time, returns commands. No clock, no sockets, no Ryu.

Each switch of the fabric goes through::

    absent ──connected──▶ reading ──read──▶ verifying ──read, as planned──▶ ready
       ▲                                      │  ▲ differ: change again (3 times)
       └──────────── disconnected ────────────┤  └──────┘
                   (from every state)         └──still differ──▶ failed

What a switch has already is read first and only the difference is changed, so reconnecting a switch that kept its
rules loses no packet. New rules go in before stale ones are taken out.

When links or switches fail or come back, groups are computed anew and changed in steps (`controller.repair`); the next
step waits until every switch has done the one before. What happens meanwhile is looked at after the step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from controller.changes import Change, difference
from controller.designs import Plan
from controller.events import (
    Changed,
    Close,
    Command,
    Connected,
    Disconnected,
    Event,
    Failed,
    Make,
    PortChanged,
    ProgramRead,
    Read,
    Refused,
)
from controller.flows import Group, Program
from controller.linkstate import LinkStates, Usable
from controller.repair import Repair
from controller.session import State, SwitchSession, reconcile

__all__ = ["MOST_ROUNDS", "Core", "State", "SwitchSession", "reconcile"]

MOST_ROUNDS = 3


class Core:
    """Holds one session per switch of the fabric and decides what happens to them.

    Attributes:
        plan: What is to be installed while everything works.
        sessions: By datapath id, in the fabric's order.
        strangers: Datapath ids that connected and are not in the fabric.
        usable: Which links are not used now.
        repairs: How often paths were computed anew.
        repaired_ns: When the last step of the last repair was done, or None.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sessions: dict[int, SwitchSession] = {}
        self.strangers: set[int] = set()
        self.usable = Usable(frozenset(), frozenset(), frozenset())
        self.repairs = 0
        self.repaired_ns: int | None = None
        self._links = LinkStates(plan.fabric)
        self._repair = Repair(plan.routes)
        self._steps: deque[list[Group]] = deque()
        self._step = 0
        self._waiting: set[int] = set()
        for node in plan.fabric.switches:
            if node.dpid is not None:
                ports = {}
                for link in plan.fabric.links_of(node.name):
                    if link.a == node.name:
                        ports[link.a_port] = link.a_interface
                    else:
                        ports[link.b_port] = link.b_interface
                self.sessions[node.dpid] = SwitchSession(
                    node.dpid, node.name, plan.program_of(node.dpid), dict(sorted(ports.items()))
                )

    def handle(self, event: Event, now_ns: int) -> list[Command]:
        """Take one event and say what is to be done."""
        session = self.sessions.get(event.dpid)
        if session is None:
            if isinstance(event, Connected):
                self.strangers.add(event.dpid)
            elif isinstance(event, Disconnected):
                self.strangers.discard(event.dpid)
            return []
        before = session.state
        commands = self._decide(session, event, now_ns)
        if session.state is not before:
            session.since_ns = now_ns
            if session.state is State.READY:
                self._links.ready(session.dpid)
        return commands + self.look(now_ns)

    def look(self, now_ns: int) -> list[Command]:
        """See what has changed by the passing of time, and go on with a repair that is under way."""
        if self._waiting:
            return []
        usable = self._links.usable(now_ns)
        if usable != self.usable:
            self.usable = usable
            have = [group for session in self.sessions.values() for group in session.program.groups]
            want = self._repair.groups(usable)
            self._steps = deque(self._repair.steps(have, want))
            self.repairs += 1
        commands: list[Command] = []
        while self._steps and not self._waiting:
            commands += self._next_step()
        if not self._steps and not self._waiting and commands:
            self.repaired_ns = now_ns
        return commands

    def replan(self, plan: Plan, now_ns: int) -> list[Command]:
        """Take another plan for the same fabric; each switch gets what differs, and is read back."""
        self.plan = plan
        commands: list[Command] = []
        for dpid, session in self.sessions.items():
            have = session.program
            wanted = plan.program_of(dpid)
            session.program = replace(wanted, groups=have.groups)
            change = difference(dpid, have, session.program)
            # A switch that is being read or verified gets the new rules by that.
            if change and session.state in (State.READY, State.FAILED):
                session.state, session.since_ns = State.VERIFYING, now_ns
                session.rounds = 1
                session.failure = ""
                session.refusals = []
                commands += [Make(change), Read(dpid)]
        return commands

    def next_ns(self) -> int | None:
        """When `look` should be called even if nothing happens; None: not at all."""
        return self._links.next_ns()

    def _next_step(self) -> list[Command]:
        groups: dict[int, list[Group]] = {}
        for group in self._steps.popleft():
            groups.setdefault(group.dpid, []).append(group)
        self._step += 1
        commands: list[Command] = []
        for dpid, changed in groups.items():
            session = self.sessions[dpid]
            session.set_groups(changed)
            # A switch whose state is still being read or verified gets its groups by that.
            if session.state in (State.READY, State.FAILED):
                self._waiting.add(dpid)
                commands.append(Make(Change(dpid, put=Program(groups=tuple(changed))), self._step))
        return commands

    def _decide(self, session: SwitchSession, event: Event, now_ns: int) -> list[Command]:
        if isinstance(event, Connected):
            self._waiting.discard(session.dpid)
            session.state = State.READING
            session.ports = {port.number: port for port in event.ports}
            session.rounds = 0
            session.refusals = []
            session.failure = ""
            self._links.connected(session.dpid)
            self._tell_ports(session, now_ns)
            return [Read(session.dpid)]
        if isinstance(event, Disconnected):
            self._waiting.discard(session.dpid)
            session.state = State.ABSENT
            session.ports = {}
            session.failure = ""
            self._links.gone(session.dpid, now_ns)
            return []
        if session.state is State.ABSENT:
            return []  # left over from a connection that is gone
        if isinstance(event, PortChanged):
            if event.present:
                session.ports[event.port.number] = event.port
            else:
                session.ports.pop(event.port.number, None)
            self._tell_ports(session, now_ns)
            return []
        if isinstance(event, Refused):
            session.refusals.append(event.reason)
            return []
        if isinstance(event, Changed):
            if event.step == self._step:
                self._waiting.discard(session.dpid)
            return []
        if isinstance(event, Failed):
            self._waiting.discard(session.dpid)
            return [Close(session.dpid)]
        return self._compare(session, event)

    def _tell_ports(self, session: SwitchSession, now_ns: int) -> None:
        self._links.ports(session.dpid, {number: port.up for number, port in session.ports.items()}, now_ns)

    def _compare(self, session: SwitchSession, event: ProgramRead) -> list[Command]:
        change = reconcile(session.dpid, event.program, session.program, event.foreign)
        if not change:
            session.state = State.READY
            session.failure = ""
            return []
        if session.rounds == MOST_ROUNDS:
            session.state = State.FAILED
            session.failure = session.difference(change, event.foreign)
            return []
        session.rounds += 1
        session.state = State.VERIFYING
        return [Make(change), Read(session.dpid)]

    @property
    def ready(self) -> bool:
        """Whether every switch is connected, has exactly the planned rules, and has all its ports up."""
        return not any(session.problems() for session in self.sessions.values())
