"""Puts the parts together: which of them hears of an event, and when which of them is to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from controller.core.clock import Steady
from controller.core.gather import Gathering
from controller.core.layers import Change, Layers
from controller.core.links import LinkStates, Usable
from controller.core.loads import Loads
from controller.core.notes import Notes
from controller.core.office import Office
from controller.core.options import Options
from controller.core.repair import Repair
from controller.core.session import SwitchSession
from controller.core.sessions import sessions_of
from controller.core.state import State
from controller.core.watch import Watch
from controller.designs import Plan
from controller.events import (
    Applied,
    Command,
    Connected,
    Counted,
    Deposed,
    Disconnected,
    Elected,
    Event,
    Failed,
    PortChanged,
    Refused,
    Reported,
    RoleTaken,
    TablesRead,
    Tick,
)
from controller.flows import Program
from controller.journal import Journal, Kind, Severity

_BASE, _GROUPS, _PINS = "base", "groups", "pins"


class Core:
    """Holds one session per switch of the fabric and decides what happens to them.

    Args:
        plan: What switches should hold while everything works.
        options: How to behave.
        key: Secret for discovery.
        journal: Where to note what happens.

    Attributes:
        plan, options, journal: As given.
        sessions: By datapath id, in the fabric's order.
        strangers: Datapath ids that connected and are not in the fabric.
        office: Whether this controller does something to switches.
        links: Which links can be used.
        repair: The groups' updates.
        watch: What discovery and reports of violations say.
        loads: Moves of large flows.
    """

    def __init__(
        self, plan: Plan, options: Options | None = None, key: bytes = b"", journal: Journal | None = None
    ) -> None:
        self.plan = plan
        self.options = options or Options()
        self.journal = journal or Journal()
        self._tokens = count(1)
        self.sessions = sessions_of(plan, self._new_token)
        self.strangers: set[int] = set()
        self._clock = Steady()
        self._note = Notes(self.journal, self._clock)
        self.office = Office(self.sessions, self._note, redundant=self.options.redundant)
        self._layers = Layers()
        program = plan.program
        self._layers.set({_BASE: Program(program.rules, (), program.meters), _GROUPS: Program((), program.groups)})
        self._retry_ns: dict[int, int] = {}
        self.links = LinkStates(plan.fabric, self.options.grace_ns, self.options.startup_ns)
        self._gather = Gathering(self.options.gather_ns)
        self.watch = Watch(plan.fabric, key, self.options.lldp_interval_ns, self._note)
        self.loads = Loads(plan.routes, self.options.balance_interval_ns, self._new_token, self._note)
        self.repair = Repair(
            plan.routes,
            self.sessions,
            self.options.step_limit_ns,
            lambda paths: self._layers.replace(_PINS, self.loads.release(paths)),
        )

    # What happens

    def handle(self, event: Event, now_ns: int) -> list[Command]:
        """Take one event and say what is to be done.

        Args:
            event: What happened.
            now_ns: When, on any clock; it may jump.
        """
        now_ns = self._at(now_ns)
        if isinstance(event, Tick):
            return self._look(now_ns)
        if isinstance(event, (Elected, Deposed)):
            commands = self._changed_office(event)
        elif (session := self.sessions.get(event.dpid)) is None:
            self._stranger(event)
            return []
        else:
            before = session.state
            commands = self._decide(session, event, now_ns)
            if session.state is not before:
                self._entered(session, before, now_ns)
        return commands + self._look(now_ns)

    def declare(self, plan: Plan, layers: Mapping[str, Program], note: str, now_ns: int) -> list[Command]:
        """Want other rules than before; groups and pins stay.

        Args:
            plan: What they were made from, for the same fabric and paths.
            layers: All rules and meters, in layers; one that is the same object as before did not change.
            note: What was changed, for people; empty: nothing that one needs to know.
            now_ns: The time.
        """
        now_ns = self._at(now_ns)
        self.plan = plan
        commands = self._change(self._layers.set(layers, keep=(_GROUPS, _PINS)), now_ns)
        if note:
            self._note.declared(note, sorted({self.sessions[command.dpid].name for command in commands}))
        return commands + self._look(now_ns)

    def next_ns(self) -> int | None:
        """When a `Tick` should come even if nothing else happens; None: not at all."""
        times = [
            self.links.next_ns(),
            self._gather.next_ns(),
            self.repair.next_ns(),
            self.watch.next_ns() if self.office.active else None,
            self.loads.next_ns() if self.office.active else None,
            *self._retry_ns.values(),
        ]
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else self._clock.back(due)

    @property
    def ready(self) -> bool:
        """Whether every switch is connected, has exactly what it should, and has all its ports up."""
        return not any(session.problems() for session in self.sessions.values()) and not self.watch.problems()

    def problems(self) -> list[str]:
        """What is not as planned, one line each."""
        found = [problem for session in self.sessions.values() for problem in session.problems()]
        return found + self.watch.problems()

    @property
    def gathering(self) -> bool:
        """Whether switches are still waited for after the start."""
        return self._gather.waiting

    @property
    def usable(self) -> Usable:
        """Which links are not used now."""
        return self.repair.usable

    # Events

    def _at(self, now_ns: int) -> int:
        now_ns = self._clock.at(now_ns)
        self.links.start(now_ns)
        return now_ns

    def _new_token(self) -> int:
        return next(self._tokens)

    def _decide(self, session: SwitchSession, event: Event, now_ns: int) -> list[Command]:
        if isinstance(event, Connected):
            self._note(Kind.SWITCH, f"{session.name} connected", switch=session.name, state="connected")
            self.links.connected(session.dpid)
            commands = session.connect(event.ports, self.office.role, self.office.generation)
            self._ports_changed(session, now_ns)
            return self._gather.take(commands, now_ns)
        if isinstance(event, Disconnected):
            session.disconnect()
            self._gather.drop(session.dpid)
            self.links.gone(session.dpid, now_ns)
            return []
        if session.state is State.ABSENT:
            return []  # left over from a connection that is gone
        if isinstance(event, PortChanged):
            self._note.port(session, event)
            session.set_port(event.port, present=event.present)
            self._ports_changed(session, now_ns)
        elif isinstance(event, Refused):
            session.refused(event.reason)
            self._note.switch(session, f"{session.name} answers with an error: {event.reason}", reason=event.reason)
        elif isinstance(event, Reported):
            if self.office.active:
                self.watch.report(event, now_ns)
        elif isinstance(event, RoleTaken):
            return session.role_taken(event.token)
        elif isinstance(event, Applied):
            return session.applied(event.token)
        elif isinstance(event, TablesRead):
            return session.have_read(event.token, event.program, event.foreign)
        elif isinstance(event, Counted):
            self.loads.counted(session.name, event)
        elif isinstance(event, Failed):
            self.loads.failed(event.token)
            commands = session.failed(event.token, event.reason)
            if commands:
                self._note.switch(session, event.reason, reason=event.reason)
            return commands
        return []

    def _stranger(self, event: Event) -> None:
        if isinstance(event, Connected) and event.dpid not in self.strangers:
            self.strangers.add(event.dpid)
            message = f"a switch with the unknown datapath id {event.dpid:#x} connected: it is ignored"
            self._note(Kind.SWITCH, message, Severity.WARNING, dpid=event.dpid)
        elif isinstance(event, Disconnected):
            self.strangers.discard(event.dpid)

    def _changed_office(self, event: Elected | Deposed) -> list[Command]:
        self._gather.end()
        self._retry_ns.clear()
        for dpid in self.sessions:
            self.watch.gone(dpid)
        return self.office.change(event)

    # Consequences

    def _entered(self, session: SwitchSession, before: State, now_ns: int) -> None:
        """A switch is in another state than before."""
        session.since_ns = now_ns
        self._retry_ns.pop(session.dpid, None)
        if session.state is State.READY:
            self.links.ready(session.dpid)
            if before is not State.UPDATING:
                self.watch.ready(session.dpid, session.ports, now_ns)
        elif session.state is State.FAILED:
            self.links.failed(session.dpid)
            self._retry_ns[session.dpid] = now_ns + self.options.retry_ns
        if session.state in (State.ABSENT, State.READING, State.CLAIMING, State.FAILED):
            self.watch.gone(session.dpid)
        self._note.state(session, before)

    def _ports_changed(self, session: SwitchSession, now_ns: int) -> None:
        up = {number: port.up for number, port in session.ports.items()}
        self.links.set_ports(session.dpid, up, now_ns)
        self.watch.set_ports(session.dpid, session.ports)

    def _change(self, changes: Mapping[int, Change], now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for dpid, (put, delete) in changes.items():
            session = self.sessions[dpid]
            before = session.state
            commands += session.change(put, delete)
            if session.state is not before:
                self._entered(session, before, now_ns)
        return commands

    def _look(self, now_ns: int) -> list[Command]:
        """See what has changed by the passing of time, and go on with what is under way."""
        commands: list[Command] = []
        if self.office.active:
            commands += self.watch.look(now_ns)
            self.links.discovered(self.watch.discovery.silent, self.watch.discovery.wrong)
            for dpid in [dpid for dpid, at_ns in self._retry_ns.items() if now_ns >= at_ns]:
                commands += self.sessions[dpid].read()
                self._entered(self.sessions[dpid], State.FAILED, now_ns)
        before, done = self.repair.usable, self.repair.ended_ns
        if self._gather.waiting:
            self.repair.adopt(self.links.usable(now_ns))
            complete = all(session.state is not State.ABSENT for session in self.sessions.values())
            commands += self._gather.look(now_ns, complete=complete)
        else:
            commands += self._repaired(now_ns)
        self._note.links(before, self.repair.usable)
        self._note.repaired(self.repair, done)
        if self.office.active:
            wanted = self.loads.look(self.sessions, self.repair, now_ns)
            if wanted is not None:
                commands += self._change(self._layers.replace(_PINS, wanted), now_ns)
            commands += self.loads.commands()
        self._note.progress(self.sessions, lambda: self.ready)
        return commands

    def _repaired(self, now_ns: int) -> list[Command]:
        states = {dpid: session.state for dpid, session in self.sessions.items()}
        commands = self.repair.go_on(lambda: self.links.usable(now_ns), now_ns)
        for dpid in {command.dpid for command in commands}:
            if self.sessions[dpid].state is not states[dpid]:
                self._entered(self.sessions[dpid], states[dpid], now_ns)
        return commands
