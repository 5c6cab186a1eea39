"""What is known about one switch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from controller.changes import Change, difference
from controller.events import Port
from controller.flows import FlowRule, Group, Program

_SHOWN_PROBLEMS = 3


class State(str, Enum):
    """Where a switch is, see the drawing in `controller.core`."""

    ABSENT = "absent"
    READING = "reading"
    VERIFYING = "verifying"
    READY = "ready"
    FAILED = "failed"


def reconcile(dpid: int, have: Program, want: Program, foreign: int = 0) -> Change:
    """The change that turns what a switch has into what it should have.

    Entries that are not expressible as ours cannot be deleted one by one, so they cost a clean slate.
    """
    return Change(dpid, clear=True, put=want) if foreign else difference(dpid, have, want)


@dataclass
class SwitchSession:
    """What is known about one switch.

    Attributes:
        dpid: Datapath id.
        name: Name in the fabric.
        program: What it should hold.
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
    program: Program
    expected_ports: dict[int, str]
    state: State = State.ABSENT
    ports: dict[int, Port] = field(default_factory=dict)
    since_ns: int = 0
    rounds: int = 0
    refusals: list[str] = field(default_factory=list)
    failure: str = ""

    @property
    def wanted(self) -> tuple[FlowRule, ...]:
        """Planned rules."""
        return self.program.rules

    def set_groups(self, groups: Iterable[Group]) -> None:
        """Plan other contents for groups."""
        mine = {group.number: group for group in self.program.groups}
        mine |= {group.number: group for group in groups}
        self.program = replace(self.program, groups=tuple(mine.values()))

    def difference(self, change: Change, foreign: int) -> str:
        """Why the switch has failed: what it does not take, in words."""
        missing, stale = change.put, change.delete
        parts = [
            f"{what} {found[0]}"
            for what, found in (
                ("missing", (*missing.rules, *missing.groups, *missing.meters)),
                ("stale", (*stale.rules, *stale.groups, *stale.meters)),
            )
            if found
        ]
        if foreign:
            parts.append(f"{foreign} foreign entries")
        parts += self.refusals[:_SHOWN_PROBLEMS]
        return f"does not take the planned rules: {'; '.join(parts)}"

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
