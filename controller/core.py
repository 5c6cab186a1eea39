"""The controller's state and decisions: takes events and the time, returns commands. No clock, no sockets, no Ryu.

Each switch of the fabric goes through::

    absent ──connected──▶ reading ──flows read──▶ verifying ──flows read, as planned──▶ ready
       ▲                                            │  ▲ differ: change again (3 times)
       └──────────────── disconnected ──────────────┤  └──────┘
                        (from every state)          └──still differ──▶ failed

What a switch has already is read first and only the difference is changed, so reconnecting a switch that kept its
rules loses no packet. New rules go in before stale ones are taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from controller.designs import Plan
from controller.events import (
    ChangeFlows,
    Close,
    Command,
    Connected,
    Disconnected,
    Event,
    FlowsRead,
    Port,
    PortChanged,
    ReadFailed,
    ReadFlows,
    Refused,
)
from controller.flows import FlowRule

MOST_ROUNDS = 3
_SHOWN_PROBLEMS = 3


class State(str, Enum):
    """Where a switch is, see the module's drawing."""

    ABSENT = "absent"
    READING = "reading"
    VERIFYING = "verifying"
    READY = "ready"
    FAILED = "failed"


def reconcile(dpid: int, installed: Iterable[FlowRule], wanted: Sequence[FlowRule], foreign: int = 0) -> ChangeFlows:
    """The changes that turn what a switch has into what it should have.

    Entries that are not expressible as rules cannot be deleted one by one, so they cost a clean slate.
    """
    if foreign:
        return ChangeFlows(dpid, True, tuple(wanted), ())
    have = {rule.key: rule for rule in installed}
    keys = {rule.key for rule in wanted}
    add = tuple(rule for rule in wanted if have.get(rule.key) != rule)
    return ChangeFlows(dpid, False, add, tuple(rule for key, rule in have.items() if key not in keys))


@dataclass
class SwitchSession:
    """What is known about one switch.

    Attributes:
        dpid: Datapath id.
        name: Name in the fabric.
        wanted: Planned rules.
        expected_ports: Interface name by port number, from the fabric.
        state: See `State`.
        ports: As described by the switch, by number.
        since_ns: When the state was entered.
        rounds: Changes that were tried on this connection.
        refusals: Errors that the switch sent on this connection.
        failure: Why the state is FAILED.
    """

    dpid: int
    name: str
    wanted: tuple[FlowRule, ...]
    expected_ports: dict[int, str]
    state: State = State.ABSENT
    ports: dict[int, Port] = field(default_factory=dict)
    since_ns: int = 0
    rounds: int = 0
    refusals: list[str] = field(default_factory=list)
    failure: str = ""

    def problems(self) -> list[str]:
        """What keeps the switch from forwarding as planned; empty if nothing does."""
        if self.state is State.ABSENT:
            return [f"{self.name} is not connected"]
        found = []
        if self.state is State.FAILED:
            found.append(f"{self.name}: {self.failure}")
        elif self.state is not State.READY:
            found.append(f"{self.name} has no verified rules yet")
        names = {port.name: number for number, port in self.ports.items()}
        for number, interface in self.expected_ports.items():
            port = self.ports.get(number)
            if names.get(interface, number) != number:
                found.append(f"{self.name}: {interface} is port {names[interface]} and should be port {number}")
            elif port is None:
                found.append(f"{self.name} has no port {number} ({interface})")
            elif not port.up:
                found.append(f"{self.name}: port {number} ({interface}) is down")
        return found


class Core:
    """Holds one session per switch of the fabric and decides what happens to them.

    Attributes:
        plan: What is to be installed.
        sessions: By datapath id, in the fabric's order.
        strangers: Datapath ids that connected and are not in the fabric.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sessions: dict[int, SwitchSession] = {}
        self.strangers: set[int] = set()
        rules: dict[int, list[FlowRule]] = {}
        for rule in plan.rules:
            rules.setdefault(rule.dpid, []).append(rule)
        for node in plan.fabric.switches:
            if node.dpid is not None:
                ports = {}
                for link in plan.fabric.links_of(node.name):
                    if link.a == node.name:
                        ports[link.a_port] = link.a_interface
                    else:
                        ports[link.b_port] = link.b_interface
                self.sessions[node.dpid] = SwitchSession(
                    node.dpid, node.name, tuple(rules.get(node.dpid, ())), dict(sorted(ports.items()))
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
        commands = self._decide(session, event)
        if session.state is not before:
            session.since_ns = now_ns
        return commands

    def _decide(self, session: SwitchSession, event: Event) -> list[Command]:
        if isinstance(event, Connected):
            session.state = State.READING
            session.ports = {port.number: port for port in event.ports}
            session.rounds = 0
            session.refusals = []
            session.failure = ""
            return [ReadFlows(session.dpid)]
        if isinstance(event, Disconnected):
            session.state = State.ABSENT
            session.ports = {}
            session.failure = ""
            return []
        if session.state is State.ABSENT:
            return []  # left over from a connection that is gone
        if isinstance(event, PortChanged):
            if event.present:
                session.ports[event.port.number] = event.port
            else:
                session.ports.pop(event.port.number, None)
            return []
        if isinstance(event, Refused):
            session.refusals.append(event.reason)
            return []
        if isinstance(event, ReadFailed):
            return [Close(session.dpid)]
        return self._compare(session, event)

    def _compare(self, session: SwitchSession, event: FlowsRead) -> list[Command]:
        change = reconcile(session.dpid, event.rules, session.wanted, event.foreign)
        if not (change.clear or change.add or change.delete):
            session.state = State.READY
            session.failure = ""
            return []
        if session.rounds == MOST_ROUNDS:
            session.state = State.FAILED
            session.failure = self._difference(session, change, event.foreign)
            return []
        session.rounds += 1
        session.state = State.VERIFYING
        return [change, ReadFlows(session.dpid)]

    @staticmethod
    def _difference(session: SwitchSession, change: ChangeFlows, foreign: int) -> str:
        parts = [f"{what} {rules[0]}" for what, rules in (("missing", change.add), ("stale", change.delete)) if rules]
        if foreign:
            parts.append(f"{foreign} foreign entries")
        parts += session.refusals[:_SHOWN_PROBLEMS]
        return f"does not take the planned rules: {'; '.join(parts)}"

    @property
    def ready(self) -> bool:
        """Whether every switch is connected, has exactly the planned rules, and has all its ports up."""
        return not any(session.problems() for session in self.sessions.values())
