"""What rules do to packets, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

IN_PORT = 0xFFFFFFF8
"""`Output.port` that sends a packet back to where it came from (OpenFlow's OFPP_IN_PORT)."""


@dataclass(frozen=True)
class SetField:
    """Rewrite one header field.

    Attributes:
        name: ``eth_src``, ``eth_dst``, ``ipv4_src``, ``ipv4_dst``, ``tcp_src`` or ``tcp_dst``.
        value: In the notation of `Match`, without prefix or mask.
    """

    name: str
    value: int | str

    def __str__(self) -> str:
        return f"set_{self.name}:{self.value}"


@dataclass(frozen=True)
class PushVlan:
    """Add an IEEE 802.1Q tag with this VLAN id, 1 to 4094."""

    vlan: int

    def __str__(self) -> str:
        return f"push_vlan:{self.vlan}"


@dataclass(frozen=True)
class PopVlan:
    """Remove the outermost tag."""

    def __str__(self) -> str:
        return "pop_vlan"


@dataclass(frozen=True)
class SetQueue:
    """Choose a queue of whichever port the packet leaves by."""

    queue: int

    def __str__(self) -> str:
        return f"set_queue:{self.queue}"


@dataclass(frozen=True)
class ArpReply:
    """Turn the ARP request into the answer "`ip` is at `mac`", ready for `Output` to `IN_PORT`.

    The sender becomes the target. Needs Open vSwitch's register moves: OpenFlow 1.3 cannot copy one field to another.
    """

    ip: str
    mac: str

    def __str__(self) -> str:
        return f"arp_reply:{self.ip}={self.mac}"


@dataclass(frozen=True)
class Output:
    """Send to a port."""

    port: int

    def __str__(self) -> str:
        return "output:in_port" if self.port == IN_PORT else f"output:{self.port}"


@dataclass(frozen=True)
class ToGroup:
    """Send to a group."""

    group: int

    def __str__(self) -> str:
        return f"group:{self.group}"


@dataclass(frozen=True)
class ToController:
    """Send a copy of the first bytes to the controller."""

    max_bytes: int = 128

    def __str__(self) -> str:
        return f"controller:{self.max_bytes}"


Action = SetField | PushVlan | PopVlan | SetQueue | ArpReply | Output | ToGroup | ToController
