"""Puts the parts together: which of them hears of an event, and when which of them is to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from controller.core.clock import Steady
from controller.core.layers import Change, Layers
from controller.core.links import LinkStates, Usable
from controller.core.loads import Loads
from controller.core.options import Options
from controller.core.repair import Repair
from controller.core.session import BUSY, State, SwitchSession
from controller.core.watch import Watch
from controller.designs import Plan
from controller.events import (
    Applied,
    Command,
    Connected,
    ControllerRole,
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

_TEXTS = {
    State.ABSENT: "disconnected",
    State.STANDBY: "has been told that this controller stands by",
    State.VERIFYING: "does not hold what it should: it is changed",
    State.READY: "holds what it should",
    State.FAILED: "",
}
_BASE = "base"
_GROUPS = "groups"
_PINS = "pins"


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
        active: Whether this controller does something to switches.
        generation: Of this controller, if there are several.
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
        self.sessions: dict[int, SwitchSession] = {}
        self.strangers: set[int] = set()
        self.active = not self.options.redundant
        self.generation = 0
        self._clock = Steady()
        self._tokens = count(1)
        self._layers = Layers()
        program = plan.program
        self._layers.set({_BASE: Program(program.rules, (), program.meters), _GROUPS: Program((), program.groups)})
        self._retry_ns: dict[int, int] = {}
        self._was_ready = False
        self._announced: list[str] = []
        programs = plan.program.by_switch()
        for node in plan.fabric.switches:
            if node.dpid is not None:
                ports: dict[int, str] = {}
                for link in plan.fabric.links_of(node.name):
                    here = link.a == node.name
                    ports[link.a_port if here else link.b_port] = link.a_interface if here else link.b_interface
                program = programs.get(node.dpid, Program())
                self.sessions[node.dpid] = SwitchSession(
                    node.dpid, node.name, program, dict(sorted(ports.items())), self._new_token
                )
        self._links: LinkStates | None = None
        self.repair = Repair(plan.routes, self.sessions, self.options.step_limit_ns)
        self.watch = Watch(plan.fabric, key, self.options.lldp_interval_ns, self._note)
        self.loads = Loads(plan.routes, self.options.balance_interval_ns, self._new_token, self._note)

    # What happens

    def handle(self, event: Event, now_ns: int) -> list[Command]:
        """Take one event and say what is to be done.

        Args:
            event: What happened.
            now_ns: When, on any clock; it may jump.
        """
        now_ns = self._clock.at(now_ns)
        if isinstance(event, Tick):
            return self._look(now_ns)
        if isinstance(event, Elected):
            commands = self._elected(event.generation)
        elif isinstance(event, Deposed):
            commands = self._deposed(event)
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
        now_ns = self._clock.at(now_ns)
        self.plan = plan
        commands = self._change(self._layers.set(layers, keep=(_GROUPS, _PINS)), now_ns)
        if note:
            switches = sorted({self.sessions[command.dpid].name for command in commands})
            self._note(Kind.TENANCY, note, switches=switches)
            self._announced.append(note)
        return commands + self._look(now_ns)

    def next_ns(self) -> int | None:
        """When a `Tick` should come even if nothing else happens; None: not at all."""
        times = [
            self._state_of_links(0).next_ns(),
            self.repair.next_ns(),
            self.watch.next_ns() if self.active else None,
            self.loads.next_ns() if self.active else None,
            *self._retry_ns.values(),
        ]
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else self._clock.back(due)

    @property
    def ready(self) -> bool:
        """Whether every switch is connected, has exactly what it should, and has all its ports up."""
        return not self.problems()

    def problems(self) -> list[str]:
        """What is not as planned, one line each."""
        found = [problem for session in self.sessions.values() for problem in session.problems()]
        return found + self.watch.problems()

    @property
    def usable(self) -> Usable:
        """Which links are not used now."""
        return self.repair.usable

    # Events

    def _new_token(self) -> int:
        return next(self._tokens)

    def _decide(self, session: SwitchSession, event: Event, now_ns: int) -> list[Command]:
        links = self._state_of_links(now_ns)
        if isinstance(event, Connected):
            self._note(Kind.SWITCH, f"{session.name} connected", switch=session.name, state="connected")
            links.connected(session.dpid)
            role = None
            if self.options.redundant:
                role = ControllerRole.MASTER if self.active else ControllerRole.SLAVE
            commands = session.connect(event.ports, role, self.generation)
            self._ports_changed(session, now_ns)
            return commands
        if isinstance(event, Disconnected):
            session.disconnect()
            links.gone(session.dpid, now_ns)
            return []
        if session.state is State.ABSENT:
            return []  # left over from a connection that is gone
        if isinstance(event, PortChanged):
            self._note_port(session, event)
            session.set_port(event.port, present=event.present)
            self._ports_changed(session, now_ns)
        elif isinstance(event, Refused):
            session.refused(event.reason)
            self._note(
                Kind.SWITCH,
                f"{session.name} answers with an error: {event.reason}",
                Severity.WARNING,
                switch=session.name,
                reason=event.reason,
            )
        elif isinstance(event, Reported):
            if self.active:
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
            return session.failed(event.token, event.reason)
        return []

    def _stranger(self, event: Event) -> None:
        if isinstance(event, Connected) and event.dpid not in self.strangers:
            self.strangers.add(event.dpid)
            message = f"a switch with the unknown datapath id {event.dpid:#x} connected: it is ignored"
            self._note(Kind.SWITCH, message, Severity.WARNING, dpid=event.dpid)
        elif isinstance(event, Disconnected):
            self.strangers.discard(event.dpid)

    def _elected(self, generation: int) -> list[Command]:
        self.active, self.generation = True, generation
        self._note(Kind.CONTROLLER, f"this controller decides from now on (generation {generation})", role="active")
        return self._claim(ControllerRole.MASTER)

    def _deposed(self, event: Deposed) -> list[Command]:
        self.active, self.generation = False, event.generation
        self._retry_ns.clear()
        for session in self.sessions.values():
            self.watch.gone(session.dpid)
        self._note(Kind.CONTROLLER, f"this controller stands by: {event.reason}", role="standby")
        return self._claim(ControllerRole.SLAVE)

    def _claim(self, role: ControllerRole) -> list[Command]:
        commands: list[Command] = []
        for session in self.sessions.values():
            if session.state is not State.ABSENT:
                commands += session.claim(role, self.generation)
        return commands

    # Consequences

    def _entered(self, session: SwitchSession, before: State, now_ns: int) -> None:
        """A switch is in another state than before."""
        session.since_ns = now_ns
        links = self._state_of_links(now_ns)
        self._retry_ns.pop(session.dpid, None)
        if session.state is State.READY:
            links.ready(session.dpid)
            if before is not State.UPDATING:
                self.watch.ready(session.dpid, session.ports, now_ns)
        elif session.state is State.FAILED:
            links.failed(session.dpid)
            self._retry_ns[session.dpid] = now_ns + self.options.retry_ns
        if session.state in (State.ABSENT, State.READING, State.CLAIMING, State.FAILED):
            self.watch.gone(session.dpid)
        text = _TEXTS.get(session.state)
        if text is None or before is State.UPDATING:
            return  # every change of a tenant would be seen here
        bad = session.state in (State.FAILED, State.ABSENT)
        self._note(
            Kind.SWITCH,
            f"{session.name} {text}{session.failure}",
            Severity.WARNING if bad else Severity.INFO,
            switch=session.name,
            state=session.state.value,
        )

    def _note_port(self, session: SwitchSession, event: PortChanged) -> None:
        port, known = event.port, session.ports.get(event.port.number)
        if event.present and known is not None and known.up == port.up:
            return
        what = "removed" if not event.present else "up" if port.up else "down"
        self._note(
            Kind.PORT,
            f"{session.name}: port {port.number} ({port.name}) {what}",
            Severity.INFO if what == "up" else Severity.WARNING,
            switch=session.name,
            port=port.number,
            state=what,
        )

    def _ports_changed(self, session: SwitchSession, now_ns: int) -> None:
        up = {number: port.up for number, port in session.ports.items()}
        self._state_of_links(now_ns).set_ports(session.dpid, up, now_ns)
        self.watch.set_ports(session.dpid, session.ports)

    def _state_of_links(self, now_ns: int) -> LinkStates:
        if self._links is None:
            self._links = LinkStates(self.plan.fabric, self.options.grace_ns, self.options.startup_ns, now_ns)
        return self._links

    def _change(self, changes: Mapping[int, Change], now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for dpid, (put, delete) in changes.items():
            session = self.sessions[dpid]
            before = session.state
            commands += session.change(put, delete)
            if session.state is not before:
                self._entered(session, before, now_ns)
        return commands

    # Time

    def _look(self, now_ns: int) -> list[Command]:
        """See what has changed by the passing of time, and go on with what is under way."""
        links = self._state_of_links(now_ns)
        commands: list[Command] = []
        if self.active:
            commands += self.watch.look(now_ns)
            links.discovered(self.watch.discovery.silent, self.watch.discovery.wrong)
            for dpid in [dpid for dpid, at_ns in self._retry_ns.items() if now_ns >= at_ns]:
                commands += self.sessions[dpid].read()
                self._entered(self.sessions[dpid], State.FAILED, now_ns)
        before, done = self.repair.usable, self.repair.ended_ns
        commands += self._repaired(links, now_ns)
        self._note_links(before, self.repair.usable)
        self._note_repair(done)
        if self.active:
            wanted = self.loads.look(self.sessions, self.repair, now_ns)
            if wanted is not None:
                commands += self._change(self._layers.replace(_PINS, wanted), now_ns)
            commands += self.loads.commands()
        self._note_progress()
        return commands

    def _repaired(self, links: LinkStates, now_ns: int) -> list[Command]:
        states = {dpid: session.state for dpid, session in self.sessions.items()}
        commands = self.repair.go_on(lambda: links.usable(now_ns), now_ns)
        for dpid in {command.dpid for command in commands}:
            if self.sessions[dpid].state is not states[dpid]:
                self._entered(self.sessions[dpid], states[dpid], now_ns)
        return commands

    # What is noted

    def _note(self, kind: Kind, message: str, severity: Severity = Severity.INFO, **fields: object) -> None:
        self.journal.add(self._clock.now_ns, kind, message, severity=severity, **fields)

    def _note_links(self, before: Usable, after: Usable) -> None:
        if before is after:
            return
        for link in sorted({*before.reasons, *after.reasons}):
            old, new = before.reasons.get(link), after.reasons.get(link)
            if old == new:
                continue
            if new is None:
                self._note(Kind.LINK, f"{link} is used again", link=link, state="used")
            else:
                state = "down" if link in after.down else "avoided"
                self._note(Kind.LINK, f"{link} is {state}: {new}", Severity.WARNING, link=link, state=state, reason=new)

    def _note_repair(self, ended_ns: int | None) -> None:
        repair = self.repair
        if repair.ended_ns is None or repair.ended_ns == ended_ns or repair.begun_ns is None:
            return
        took_ns = repair.ended_ns - repair.begun_ns
        slow = f"; {', '.join(repair.slow)} did not confirm in time" if repair.slow else ""
        self._note(
            Kind.PATHS,
            f"paths were computed anew and are in use after {took_ns / 1e6:.3f} ms{slow}",
            Severity.WARNING if slow else Severity.INFO,
            took_ns=took_ns,
            update=repair.count,
            slow=list(repair.slow),
        )

    def _note_progress(self) -> None:
        if self._announced and not any(session.state in BUSY for session in self.sessions.values()):
            self._note(Kind.TENANCY, f"installed: {'; '.join(self._announced)}", changes=list(self._announced))
            self._announced.clear()
        if any(session.state is State.UPDATING for session in self.sessions.values()):
            return
        ready = self.ready
        if ready and not self._was_ready:
            rules = sum(len(session.tables.entries) for session in self.sessions.values())
            self._note(Kind.CONTROLLER, f"ready: {len(self.sessions)} switches, {rules} entries", ready=True)
        self._was_ready = ready
