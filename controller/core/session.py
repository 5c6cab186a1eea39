"""One switch: what it should hold, what it is known to hold, and what to do about the difference.

::

    absent ──connected──▶ reading ──read──▶ verifying ──read again, as wanted──▶ ready ⇄ updating
       ▲         │          ▲                 │  ▲ differs: change again               (what is wanted
       │         │ standby  │ this controller │  └──────┘ (3 times)                     changed)
       │         ▼          │ decides now     └── still differs ──▶ failed
       │      claiming ──▶ standby
       └── disconnected (from every state)

What a switch has already is read first and only the difference is changed, so reconnecting a switch that kept its
rules loses no packet; a second reading proves that it holds what it should. A later change is confirmed by a barrier,
and read back if the switch complained meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.changes import Change
from controller.core.state import State
from controller.core.tables import Key, Tables, turn
from controller.events import (
    Apply,
    Close,
    Command,
    ControllerRole,
    Foreign,
    Part,
    Port,
    Read,
    TakeRole,
)
from controller.flows import FlowRule, Program

MOST_ROUNDS = 3
_MOST_REFUSALS = 100
_SHOWN_PROBLEMS = 3


class SwitchSession:
    """What is known about one switch.

    Args:
        dpid: Datapath id.
        name: Name in the fabric.
        program: What it should hold.
        expected_ports: Interface name by port number, from the fabric.
        new_token: Numbers commands.

    Attributes:
        ports: As described by the switch, by number.
        since_ns: When the state was entered.
        rounds: Changes that were tried in this reconciliation.
        refusals: Errors that the switch sent on this connection.
        failure: Why the state is FAILED.
        corrected: How often what it held had to be changed after it was read.
    """

    def __init__(
        self, dpid: int, name: str, program: Program, expected_ports: dict[int, str], new_token: Callable[[], int]
    ) -> None:
        self.dpid = dpid
        self.name = name
        self.expected_ports = expected_ports
        self._state = State.ABSENT
        self._problems: list[str] | None = None
        self.ports: dict[int, Port] = {}
        self.since_ns = 0
        self.rounds = 0
        self.refusals: list[str] = []
        self.failure = ""
        self.corrected = 0
        self._wanted = Tables(program)
        self._held = Tables()
        self._foreign: tuple[Foreign, ...] = ()
        self._dirty: dict[Key, None] = {}
        self._new_token = new_token
        self._token = 0
        self._role: ControllerRole | None = None
        self._complained = False
        self._program: Program | None = None

    @property
    def state(self) -> State:
        """Where the switch is."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self._problems = None

    # What is wanted

    @property
    def program(self) -> Program:
        """What the switch should hold."""
        if self._program is None:
            self._program = self._wanted.program
        return self._program

    @property
    def wanted(self) -> tuple[FlowRule, ...]:
        """The rules that the switch should hold."""
        return self.program.rules

    @property
    def tables(self) -> Tables:
        """The same by key; not to be changed."""
        return self._wanted

    def change(self, put: Program, delete: Program) -> list[Command]:
        """Want something else: add or replace entries, and remove others unless they were replaced."""
        changed = self._wanted.drop(delete)
        changed += self._wanted.put(put)
        self._program = None
        if not changed:
            return []
        self._dirty.update(dict.fromkeys(changed))
        # What a switch is asked for anew it has not failed to take yet.
        self.rounds = 0
        if self.state is State.READY:
            return self._update()
        if self.state is State.FAILED:
            return self.read()
        return []

    # What happens

    def connect(self, ports: Iterable[Port], role: ControllerRole | None, generation: int) -> list[Command]:
        """The switch is there; *role* None: there is only one controller, which need not ask for a role."""
        self.ports = {port.number: port for port in ports}
        self._problems = None
        self.refusals, self.failure = [], ""
        self._held, self._foreign = Tables(), ()
        return self.read() if role is None else self.claim(role, generation)

    def disconnect(self) -> None:
        """The switch is gone."""
        self.ports = {}
        self.state = State.ABSENT
        self.failure = ""
        self._token = 0

    def claim(self, role: ControllerRole, generation: int) -> list[Command]:
        """Ask for a role, and go on from there."""
        self.state, self._role, self.failure = State.CLAIMING, role, ""
        return [TakeRole(self.dpid, self._next(), role, generation)]

    def role_taken(self, token: int) -> list[Command]:
        """The switch gave the role."""
        if not self._answers(token, State.CLAIMING):
            return []
        if self._role is ControllerRole.SLAVE:
            self.state = State.STANDBY
            return []
        return self.read()

    def read(self) -> list[Command]:
        """Compare what the switch holds with what it should, from the beginning."""
        self.state, self.rounds, self.failure = State.READING, 0, ""
        return [Read(self.dpid, self._next())]

    def have_read(self, token: int, program: Program, foreign: tuple[Foreign, ...]) -> list[Command]:
        """The switch said what it holds."""
        if not self._answers(token, State.READING, State.VERIFYING):
            return []
        again = self.state is State.VERIFYING and bool(self._foreign) and bool(foreign)
        self._held, self._foreign = Tables(program), foreign
        self._dirty = {}
        keys = dict.fromkeys((*self._wanted.entries, *self._held.entries))
        change = turn(self.dpid, self._held, self._wanted, keys)
        unwanted = tuple(item for item in foreign if not self._will_be_replaced(item))
        if again:
            # Deleting exactly these entries did not help.
            change, unwanted = Change(self.dpid, clear=True, put=self.program), foreign
        if not change and not unwanted:
            self.state = State.READY
            return []
        if self.rounds == MOST_ROUNDS:
            self.state = State.FAILED
            self.failure = self._difference(change, unwanted)
            return []
        self.rounds += 1
        self.corrected += 1
        self.state = State.VERIFYING
        return [self._apply(change, () if change.clear else unwanted)]

    def applied(self, token: int) -> list[Command]:
        """The switch has done what it was told."""
        if not self._answers(token, State.VERIFYING, State.UPDATING):
            return []
        if self.state is State.VERIFYING:
            return [Read(self.dpid, self._next())]
        if self._complained:
            return self.read()
        self._dirty = {key: None for key in self._dirty if self._held.get(key) != self._wanted.get(key)}
        self.state = State.READY
        return self._update()

    def failed(self, token: int, reason: str) -> list[Command]:
        """The switch did not do something in time: start afresh on a new connection."""
        return [Close(self.dpid, reason)] if token == self._token and self.state is not State.ABSENT else []

    def refused(self, reason: str) -> None:
        """The switch complained."""
        if self.state is not State.ABSENT:
            self.refusals = [*self.refusals, reason][-_MOST_REFUSALS:]
            self._complained = True

    # Inside

    def _next(self) -> int:
        self._token = self._new_token()
        return self._token

    def _answers(self, token: int, *states: State) -> bool:
        return token == self._token and self.state in states

    def _update(self) -> list[Command]:
        change = turn(self.dpid, self._held, self._wanted, self._dirty)
        if not change:
            self._dirty = {}
            return []
        self.state, self._complained = State.UPDATING, False
        command = self._apply(change, ())
        self._held.drop(change.delete)
        self._held.put(change.put)
        return [command]

    def _apply(self, change: Change, foreign: tuple[Foreign, ...]) -> Apply:
        known = self._held.numbers(Part.METER) | {item.number for item in self._foreign if item.part is Part.METER}
        return Apply(self.dpid, self._next(), change, frozenset() if change.clear else known, foreign)

    def _will_be_replaced(self, item: Foreign) -> bool:
        """Whether one of our own entries takes its place, so that deleting it would delete ours."""
        key: Key = (item.part, item.key if item.part is Part.FLOW else item.number)
        return self._wanted.get(key) is not None

    def _difference(self, change: Change, foreign: tuple[Foreign, ...]) -> str:
        parts = []
        for what, program in (("missing", change.put), ("stale", change.delete)):
            found = (*program.rules, *program.groups, *program.meters)
            if found:
                parts.append(f"{what} {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else ""))
        if foreign:
            parts.append(f"{len(foreign)} foreign entries, such as {foreign[0].text}")
        parts += list(dict.fromkeys(self.refusals))[-_SHOWN_PROBLEMS:]
        return f"does not take the planned rules: {'; '.join(parts)}"

    def problems(self) -> list[str]:
        """What keeps the switch from forwarding as planned; empty if nothing does."""
        if self._problems is None:
            self._problems = self._find_problems()
        return list(self._problems)

    def _find_problems(self) -> list[str]:
        if self.state is State.ABSENT:
            return [f"{self.name} is not connected"]
        found = []
        if self.state is State.FAILED:
            found.append(f"{self.name}: {self.failure}")
        elif self.state is State.UPDATING:
            found.append(f"{self.name} has not confirmed its latest changes yet")
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

    def set_port(self, port: Port, *, present: bool) -> None:
        """A port was added, changed or removed."""
        self._problems = None
        if present:
            self.ports[port.number] = port
        else:
            self.ports.pop(port.number, None)
