"""OpenFlow rules, groups and meters as plain data, in the subset of OpenFlow 1.3 (and Open vSwitch) that is planned.

Every switch has the same tables, passed in order; a packet skips those that do not concern it::

    ADMIT    may this sender say what it says?        addresses against the port's binding; LLDP to the controller
    ARP      whose address is that?                   answered by the switch itself; ARP never crosses the fabric
    ACCESS   may these two talk?                      policies, first hop only; tags the segment, translates endpoints
    STEER    which node must the packet visit next?   rewrites eth_dst, per ingress port
    CLASS    which queue of a shaped link?            storage or compute
    SPREAD   which of the equal paths may it take?    writes the source's colour into the metadata
    ROUTE    where is that node?                      outputs to a group by eth_dst (and colour); drops what is unknown
    DELIVER  may this node have it?                   last hop: checks and removes the segment's tag, translates back

A rule without an output and without a next table drops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

from controller.actions import (
    IN_PORT,
    Action,
    ArpReply,
    Output,
    PopVlan,
    PushVlan,
    SetField,
    SetQueue,
    ToController,
    ToGroup,
)
from controller.match import MASKED_FIELDS, Match

__all__ = [
    "COOKIE_OWNER",
    "ETH_TYPE_ARP",
    "ETH_TYPE_IPV4",
    "ETH_TYPE_LLDP",
    "ETH_TYPE_VLAN",
    "IN_PORT",
    "IP_PROTO_ICMP",
    "IP_PROTO_TCP",
    "IP_PROTO_UDP",
    "MASKED_FIELDS",
    "NO_VLAN",
    "Action",
    "ArpReply",
    "Bucket",
    "FlowRule",
    "Group",
    "GroupKind",
    "Match",
    "Meter",
    "Output",
    "PopVlan",
    "Program",
    "Purpose",
    "PushVlan",
    "SetField",
    "SetQueue",
    "Table",
    "ToController",
    "ToGroup",
    "cookie_of",
    "number_of",
    "purpose_of",
]

ETH_TYPE_IPV4 = 0x0800
ETH_TYPE_ARP = 0x0806
ETH_TYPE_VLAN = 0x8100
ETH_TYPE_LLDP = 0x88CC
IP_PROTO_ICMP = 1
IP_PROTO_TCP = 6
IP_PROTO_UDP = 17

COOKIE_OWNER = 0x69636777
"""Upper half of every cookie that this controller writes: ``icgw`` in ASCII."""

NO_VLAN = 0
"""`Match.vlan` of packets without a tag."""


class Table(IntEnum):
    """The tables of the pipeline; the number is the OpenFlow table id."""

    ADMIT = 0
    ARP = 1
    ACCESS = 2
    STEER = 3
    CLASS = 4
    SPREAD = 5
    ROUTE = 6
    DELIVER = 7


class Purpose(IntEnum):
    """Why a rule exists; bits 0 to 7 of its cookie (bits 8 to 31 may number it, see `cookie_of`)."""

    DEFAULT = 0
    """What happens to packets that nothing else matches: next table, or drop in the last one."""
    STEER = 1
    """Sends storage traffic to the next node that it must visit."""
    EXEMPT = 2
    """Keeps TCP that is no storage service out of the steering."""
    COLOUR = 3
    """Marks the packet with its source's colour."""
    ROUTE = 4
    """Outputs towards the node that owns the destination address."""
    DISCOVER = 5
    """Hands LLDP that comes from other switches to the controller."""
    ADMIT = 6
    """Lets a sender with its own addresses in."""
    VIOLATE = 7
    """Drops what a sender must not say, and tells the controller at a limited rate."""
    ARP = 8
    """Answers an ARP request."""
    ALLOW = 9
    """Lets two nodes, or a node and an endpoint, talk."""
    DENY = 10
    """Drops what no policy allows, or one denies, and tells the controller at a limited rate."""
    CLASS = 11
    """Chooses a queue."""
    DELIVER = 12
    """Hands a packet to the node it is for."""
    PIN = 13
    """Moves one large flow to another of the equal paths."""


@dataclass(frozen=True)
class FlowRule:
    """One entry of a flow table.

    Attributes:
        dpid: Datapath id of the switch.
        table: Where in the pipeline.
        priority: Higher wins.
        match: What it applies to.
        actions: Done at once, in order.
        meter: Meter that limits the packets first; what is above its rate is dropped.
        write_metadata: New metadata.
        goto: Next table.
        cookie: Owner and purpose, see `cookie_of`.
        note: One clause for people; not part of what is installed.
    """

    dpid: int
    table: Table
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    meter: int | None = None
    write_metadata: int | None = None
    goto: Table | None = None
    cookie: int = 0
    note: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[Table, int, Match]:
        """What identifies the rule in its switch: adding another one with the same key replaces it."""
        return (self.table, self.priority, self.match)

    @property
    def drops(self) -> bool:
        """Whether packets end here (a copy for the controller does not count)."""
        return self.goto is None and not any(isinstance(action, (Output, ToGroup)) for action in self.actions)

    @property
    def texts(self) -> list[str]:
        """What it does, as short texts in order."""
        texts = [f"meter:{self.meter}"] if self.meter is not None else []
        texts += [str(action) for action in self.actions]
        if self.write_metadata is not None:
            texts.append(f"write_metadata:{self.write_metadata}")
        if self.goto is not None:
            texts.append(f"goto:{self.goto.name.lower()}")
        return texts or ["drop"]

    def __str__(self) -> str:
        return (
            f"dpid={self.dpid} table={self.table.name.lower()} priority={self.priority} "
            f"{self.match} -> {' '.join(self.texts)}"
        )


class GroupKind(str, Enum):
    """How a group chooses among its buckets."""

    SELECT = "select"
    """By a hash of the packet, among live buckets, in proportion to their weights."""
    FAST_FAILOVER = "ff"
    """The first live bucket."""


@dataclass(frozen=True)
class Bucket:
    """One choice of a group.

    Attributes:
        port: Output port; the bucket is live while this port is up.
        weight: Share of a select group's packets; 0 in fast-failover groups.
    """

    port: int
    weight: int = 0


@dataclass(frozen=True)
class Group:
    """One entry of a group table.

    Attributes:
        dpid: Datapath id of the switch.
        number: Group id.
        kind: How it chooses.
        buckets: In order of preference.
        note: One clause for people; not part of what is installed.
    """

    dpid: int
    number: int
    kind: GroupKind
    buckets: tuple[Bucket, ...]
    note: str = field(default="", compare=False)

    def __str__(self) -> str:
        shown = " ".join(
            f"{bucket.port}*{bucket.weight}" if bucket.weight else str(bucket.port) for bucket in self.buckets
        )
        return f"dpid={self.dpid} group={self.number} {self.kind.value} {shown or 'empty'}"


@dataclass(frozen=True)
class Meter:
    """A rate limit in packets; what is above it is dropped.

    Attributes:
        dpid: Datapath id of the switch.
        number: Meter id, from 1.
        rate_pps: Packets per second.
        burst_packets: How many may come at once.
    """

    dpid: int
    number: int
    rate_pps: int
    burst_packets: int


@dataclass(frozen=True)
class Program:
    """All that one switch, or several, should hold, in a fixed order."""

    rules: tuple[FlowRule, ...] = ()
    groups: tuple[Group, ...] = ()
    meters: tuple[Meter, ...] = ()

    def __add__(self, other: Program) -> Program:
        return Program(self.rules + other.rules, self.groups + other.groups, self.meters + other.meters)

    def by_switch(self) -> dict[int, Program]:
        """The same, divided by datapath id."""
        parts: dict[int, tuple[list[FlowRule], list[Group], list[Meter]]] = {}
        for rule in self.rules:
            parts.setdefault(rule.dpid, ([], [], []))[0].append(rule)
        for group in self.groups:
            parts.setdefault(group.dpid, ([], [], []))[1].append(group)
        for meter in self.meters:
            parts.setdefault(meter.dpid, ([], [], []))[2].append(meter)
        return {dpid: Program(tuple(a), tuple(b), tuple(c)) for dpid, (a, b, c) in parts.items()}


def cookie_of(purpose: Purpose, number: int = 0) -> int:
    """The 64-bit cookie of this controller's rules of one purpose.

    Args:
        purpose: Why the rule exists.
        number: Says more within the purpose, for example which violation; 0 to 2^24-1.
    """
    return COOKIE_OWNER << 32 | number << 8 | purpose


def purpose_of(cookie: int) -> Purpose | None:
    """The purpose behind a cookie, or None if it is not one of ours."""
    if cookie >> 32 != COOKIE_OWNER:
        return None
    try:
        return Purpose(cookie & 0xFF)
    except ValueError:
        return None


def number_of(cookie: int) -> int:
    """The number within the purpose."""
    return cookie >> 8 & 0xFFFFFF
