"""What happens to the controller (events) and what it wants done (commands), as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from controller.flows import FlowRule


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
class FlowsRead:
    """A switch said what is in its tables; ``foreign`` counts entries that no rule of ours can express."""

    dpid: int
    rules: tuple[FlowRule, ...]
    foreign: int = 0


@dataclass(frozen=True)
class ReadFailed:
    """A switch did not say what is in its tables."""

    dpid: int
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


Event = Connected | Disconnected | FlowsRead | ReadFailed | PortChanged | Refused


@dataclass(frozen=True)
class ReadFlows:
    """Ask a switch for all its flow entries; answered by `FlowsRead` or `ReadFailed`."""

    dpid: int


@dataclass(frozen=True)
class ChangeFlows:
    """Change a switch's tables, in this order, and wait until it has done so.

    Attributes:
        dpid: The switch.
        clear: Delete everything first.
        add: Rules to add (or to replace the one with the same key).
        delete: Rules to delete.
    """

    dpid: int
    clear: bool
    add: tuple[FlowRule, ...]
    delete: tuple[FlowRule, ...]


@dataclass(frozen=True)
class Close:
    """Give a switch's connection up; it will connect again by itself."""

    dpid: int


Command = ReadFlows | ChangeFlows | Close
