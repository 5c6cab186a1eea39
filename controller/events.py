"""What happens to the controller (events) and what it wants done (commands), as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from controller.changes import Change
from controller.flows import Program


@dataclass(frozen=True)
class Port:
    """A port as the switch describes it.

    Attributes:
        number: OpenFlow port number.
        name: Interface name.
        mac: Hardware address.
        up: Whether it carries packets.
    """

    number: int
    name: str
    mac: str
    up: bool


@dataclass(frozen=True)
class Connected:
    """A switch finished its handshake."""

    dpid: int
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Disconnected:
    """A switch's connection is gone."""

    dpid: int


@dataclass(frozen=True)
class ProgramRead:
    """A switch said what it holds; ``foreign`` counts entries that nothing of ours can express."""

    dpid: int
    program: Program
    foreign: int = 0


@dataclass(frozen=True)
class Failed:
    """A switch did not answer a command in time."""

    dpid: int
    reason: str


@dataclass(frozen=True)
class Changed:
    """A switch has carried out a change that belonged to a step of an update."""

    dpid: int
    step: int


@dataclass(frozen=True)
class PortChanged:
    """A port was added, removed, or went up or down."""

    dpid: int
    port: Port
    present: bool


@dataclass(frozen=True)
class Refused:
    """A switch answered a message with an error."""

    dpid: int
    reason: str


@dataclass(frozen=True)
class Reported:
    """A packet that a rule handed to the controller.

    Attributes:
        dpid, port: Where it came in.
        cookie, table: Of the rule.
        data: Its first bytes.
    """

    dpid: int
    port: int
    cookie: int
    table: int
    data: bytes


Event = Connected | Disconnected | ProgramRead | Failed | Changed | PortChanged | Refused


@dataclass(frozen=True)
class Read:
    """Ask a switch for all that it holds; answered by `ProgramRead` or `Failed`."""

    dpid: int


@dataclass(frozen=True)
class Make:
    """Change what a switch holds, and wait until it has done so.

    Attributes:
        change: What to change.
        step: Number of the step that this belongs to, which a `Changed` is to name; None: no answer is wanted.
    """

    change: Change
    step: int | None = None

    @property
    def dpid(self) -> int:
        """The switch."""
        return self.change.dpid


@dataclass(frozen=True)
class Close:
    """Give a switch's connection up; it will connect again by itself."""

    dpid: int


Command = Read | Make | Close
