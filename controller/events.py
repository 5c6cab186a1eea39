"""What happens to the controller (events) and what it wants done (commands), as plain data.

A command with a ``token`` is answered by one event with the same token, or by none if the connection ends first. What
answers anything else than the last command to a switch is late and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from controller.changes import Change
from controller.flows import FlowRule, Match, Program, Table


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


class Part(str, Enum):
    """One of the tables of a switch."""

    FLOW = "flow"
    GROUP = "group"
    METER = "meter"


@dataclass(frozen=True)
class Foreign:
    """An entry that no rule, group or meter of ours can express.

    Attributes:
        part: Where it is.
        text: What it looks like, for people.
        number: Group or meter id.
        key: Table, priority and match of a flow entry, if these are expressible.
        handle: What the shell needs to delete exactly this entry.
    """

    part: Part
    text: str
    number: int = 0
    key: tuple[Table, int, Match] | None = None
    handle: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PortCount:
    """What a port has counted, as the switch sees it.

    Attributes:
        port: Port number.
        tx_bytes: Sent bytes.
        rx_bytes: Received bytes.
    """

    port: int
    tx_bytes: int
    rx_bytes: int


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
class TablesRead:
    """A switch said what it holds; answers `Read`."""

    dpid: int
    token: int
    program: Program
    foreign: tuple[Foreign, ...] = ()


@dataclass(frozen=True)
class Applied:
    """A switch has done everything of an `Apply`."""

    dpid: int
    token: int


@dataclass(frozen=True)
class RoleTaken:
    """A switch has given this controller the role that it asked for; answers `TakeRole`."""

    dpid: int
    token: int


@dataclass(frozen=True)
class Counted:
    """Counters of a switch; answers `Count`.

    Attributes:
        dpid, token: Of the command.
        ports: Of its ports.
        rules: Bytes by rule, of those that hold or count large flows.
    """

    dpid: int
    token: int
    ports: tuple[PortCount, ...]
    rules: tuple[tuple[FlowRule, int], ...] = ()


@dataclass(frozen=True)
class Failed:
    """A command was not done in time; answers any command with a token."""

    dpid: int
    token: int
    reason: str


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


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Elected:
    """From now on this controller decides, as the one of this generation."""

    generation: int


@dataclass(frozen=True)
class Deposed:
    """From now on another controller decides, as the one of this generation, or none does."""

    generation: int
    reason: str


SwitchEvent = (
    Connected | Disconnected | TablesRead | Applied | RoleTaken | Counted | Failed | PortChanged | Refused | Reported
)
Event = SwitchEvent | Tick | Elected | Deposed


class ControllerRole(str, Enum):
    """What a controller is to a switch (OpenFlow 1.3, section 6.3.4)."""

    EQUAL = "equal"
    MASTER = "master"
    SLAVE = "slave"


@dataclass(frozen=True)
class Read:
    """Ask a switch for all that it holds; answered by `TablesRead` or `Failed`."""

    dpid: int
    token: int


@dataclass(frozen=True)
class Apply:
    """Change what a switch holds, and wait until it has done so; answered by `Applied` or `Failed`.

    Attributes:
        dpid, token: Which switch, and what comes back in the answer.
        change: What to put and delete.
        meters: Numbers of the meters that exist already, so must be modified and not added.
        foreign: Further entries to delete, after everything was put.
    """

    dpid: int
    token: int
    change: Change
    meters: frozenset[int] = frozenset()
    foreign: tuple[Foreign, ...] = ()


@dataclass(frozen=True)
class TakeRole:
    """Ask a switch for a role; answered by `RoleTaken` or `Failed`."""

    dpid: int
    token: int
    role: ControllerRole
    generation: int


@dataclass(frozen=True)
class Count:
    """Ask a switch for its counters; answered by `Counted` or `Failed`."""

    dpid: int
    token: int


@dataclass(frozen=True)
class SendPacket:
    """Have a switch send a frame by a port."""

    dpid: int
    port: int
    data: bytes


@dataclass(frozen=True)
class Close:
    """Give a switch's connection up; it will connect again by itself."""

    dpid: int
    reason: str


Command = Read | Apply | TakeRole | Count | SendPacket | Close
