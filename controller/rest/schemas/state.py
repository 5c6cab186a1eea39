"""Answers about what switches hold and count, and about the controller."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from controller.core import State
from controller.gateways.session import Phase
from controller.rest.schemas.common import Answer, Count, DatapathId, PortNumber


class FlowEntry(Answer):
    """A flow entry of a switch; an entry that no rule of ours can express has `foreign` instead of what it does."""

    dpid: DatapathId
    switch: str
    planned: Annotated[bool, Field(description="Whether exactly this entry is planned.")]
    packets: Count
    bytes: Annotated[Count, Field(description="Ethernet headers included.")]
    duration_ns: Annotated[Count, Field(description="Since it was installed, on the switch's clock.")]
    table: str = ""
    priority: Annotated[int, Field(ge=0, lt=1 << 16)] = 0
    match: Annotated[
        dict[str, int | str | bool], Field(default_factory=dict, description="What it looks at; empty: anything.")
    ]
    actions: tuple[str, ...] = ()
    cookie: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    purpose: str | None = None
    note: str = ""
    foreign: Annotated[dict[str, Any] | None, Field(description="The entry in Ryu's shape.")] = None


class Flows(Answer):
    """Flow entries."""

    flows: tuple[FlowEntry, ...]


class BucketEntry(Answer):
    """One choice of a group."""

    port: PortNumber
    weight: Annotated[Count, Field(description="Share of a select group's packets; 0 in failover groups.")]
    packets: Count
    bytes: Count


class GroupEntry(Answer):
    """A group of a switch."""

    dpid: DatapathId
    switch: str
    group: PortNumber
    planned: Annotated[bool, Field(description="Whether exactly this group is planned.")]
    kind: Annotated[
        Literal["select", "ff"] | None,
        Field(description="`ff`: the first live bucket. `select`: by a hash. null: a group that is not ours."),
    ]
    packets: Count
    bytes: Count
    buckets: Annotated[tuple[BucketEntry, ...], Field(description="In order of preference.")]
    note: str


class GroupsAnswer(Answer):
    """Groups."""

    groups: tuple[GroupEntry, ...]


_UNCOUNTED = "null: the port does not count this."


class PortCounters(Answer):
    """Counters of one port, received and sent as the switch sees it."""

    dpid: DatapathId
    switch: str
    port: PortNumber
    interface: str
    peer: str
    peer_interface: str
    peer_role: str
    rx_packets: Count
    tx_packets: Count
    rx_bytes: Count
    tx_bytes: Count
    rx_dropped: Annotated[Count | None, Field(description=_UNCOUNTED)]
    tx_dropped: Annotated[Count | None, Field(description=_UNCOUNTED)]
    rx_errors: Annotated[Count | None, Field(description=_UNCOUNTED)]
    tx_errors: Annotated[Count | None, Field(description=_UNCOUNTED)]
    duration_ns: Count


class RoleCounters(Answer):
    """Sums over the ports behind which hosts of one role are, as seen by them."""

    to_packets: Count
    to_bytes: Count
    from_packets: Count
    from_bytes: Count


class CountersAnswer(Answer):
    """Port counters."""

    ports: tuple[PortCounters, ...]
    roles: dict[str, RoleCounters]


class Offender(Answer):
    """Where packets came in that were dropped for a reason."""

    switch: str
    port: PortNumber | None
    host: Annotated[str | None, Field(description="Who is behind the port.")]
    packets: Count


class ViolationEntry(Answer):
    """Packets that were dropped for one reason."""

    reason: str
    sentence: str
    packets: Annotated[Count, Field(description="Counted by the rules that the switches have now.")]
    bytes: Count
    reported: Annotated[
        Count, Field(description="Reports that arrived since the controller started; their rate is limited.")
    ]
    sources: tuple[Offender, ...]


class Violations(Answer):
    """What senders did that they must not."""

    violations: tuple[ViolationEntry, ...]


class SwitchCounts(Answer):
    """How many switches there are."""

    expected: Count
    connected: Count
    installed: Annotated[Count, Field(description="Whose tables were read back and are as planned.")]


class RuleCounts(Answer):
    """How many rules there are."""

    planned: Count
    installed: Count


class ControllerEntry(Answer):
    """This controller among those that share a store."""

    name: str
    active: bool
    holder: Annotated[str, Field(description="Name of the active one; empty: unknown.")]


class GatewayEntry(Answer):
    """A gateway that is told what tenants may do."""

    name: str
    socket: Annotated[str, Field(description="Path of its daemon's control socket.")]
    state: Annotated[
        Phase,
        Field(description="`ready`: it has exactly what it should. `refused`: it will not, until that changes."),
    ]
    mode: Annotated[str | None, Field(description="What kind of daemon it is.")]
    revision: Annotated[int | None, Field(description="Of the policies that it has.")]
    problem: Annotated[str | None, Field(description="Why it is not as it should be.")]
    tenants: Annotated[Count, Field(description="VPCs whose traffic it is to carry.")]
    rules: Annotated[Count, Field(description="What it is to let through; it denies everything else.")]
    routes: Count
    connections: Count
    disconnections: Count
    refusals: Count


class GatewayDetails(GatewayEntry):
    """A gateway, and its own figures."""

    statistics: Annotated[dict[str, Any] | None, Field(description="As the daemon counts; null: it is not connected.")]


class GatewaysAnswer(Answer):
    """All gateways."""

    gateways: tuple[GatewayEntry, ...]


class Health(Answer):
    """Whether everything is as planned."""

    ready: bool
    design: str
    mode: Annotated[Literal["open", "tenants"], Field(description="`open`: no store, all hosts may talk.")]
    controller: ControllerEntry
    switches: SwitchCounts
    rules: RuleCounts
    strangers: Annotated[
        tuple[DatapathId, ...], Field(description="Datapath ids that connected and are not of the fabric.")
    ]
    problems: tuple[str, ...]
    states: dict[str, State]


class Event(Answer):
    """Something that happened."""

    number: Annotated[int, Field(ge=1)]
    time_ns: Annotated[int, Field(description="Nanoseconds since 1970 on the controller's clock.")]
    kind: str
    severity: Literal["info", "warning"]
    message: str
    fields: Annotated[dict[str, Any], Field(description="The same for programs.")]


class Events(Answer):
    """What happened lately, oldest first."""

    events: tuple[Event, ...]
    first: Annotated[Count, Field(description="Number of the oldest event that is kept.")]
    last: Annotated[Count, Field(description="Number of the newest event.")]
    next: Annotated[str | None, Field(description="Address of the events after these; null: there are none yet.")]
