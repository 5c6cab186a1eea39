"""Answers about the fabric: topology, links, paths."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field

from controller.rest.schemas.common import Answer, Count, DatapathId, PortNumber


class SwitchNode(Answer):
    """A switch of the fabric."""

    name: str
    role: Literal["switch"]
    zone: str
    tier: int
    dpid: DatapathId
    connected: Annotated[bool, Field(description="Whether it is connected to this controller now.")]


class HostNode(Answer):
    """A host of the fabric."""

    name: str
    role: str
    zone: str
    tier: int
    ip: Annotated[str | None, Field(description="Address and prefix on the fabric.")]
    mac: str | None
    switch: Annotated[str | None, Field(description="The switch where it is attached.")]
    switch_port: PortNumber | None
    via: Annotated[tuple[str, ...], Field(description="Nodes that this client's storage traffic visits, in order.")]


class LinkUse(str, Enum):
    """Whether a link carries packets."""

    USED = "used"
    DOWN = "down"
    AVOIDED = "avoided"


class LinkEntry(Answer):
    """A link with both ends."""

    name: str
    a: str
    a_port: PortNumber
    a_interface: str
    b: str
    b_port: PortNumber
    b_interface: str
    rate_bps: Count
    delay_ns: Count
    mtu_bytes: Count
    up: Annotated[bool, Field(description="Whether the switches at its ends say that their ports are up.")]
    use: Annotated[
        LinkUse,
        Field(
            description="`down`: carries nothing. `avoided`: it flapped lately, or a switch at its end is not "
            "connected, so other ways are taken where there are any."
        ),
    ]


class ServiceEntry(Answer):
    """A storage service that the controller was started with."""

    name: str
    node: str
    ip: str
    port: PortNumber
    protocol: Literal["tcp"]


class Topology(Answer):
    """The fabric."""

    name: str
    design: Annotated[str, Field(description="How storage traffic travels.")]
    planes: Annotated[Count, Field(description="How many equal-cost paths are told apart.")]
    nodes: tuple[SwitchNode | HostNode, ...]
    links: tuple[LinkEntry, ...]
    services: tuple[ServiceEntry, ...]


class Links(Answer):
    """All links."""

    links: tuple[LinkEntry, ...]


class Translation(Answer):
    """What an endpoint stands for."""

    endpoint: str
    service: str
    node: Annotated[str, Field(description="The host that offers the service.")]
    ip: Annotated[str, Field(description="Where the client connects to.")]
    port: PortNumber
    node_port: PortNumber


class Hop(Answer):
    """One node on a packet's way; the members after `dst_port` are there for switches only."""

    node: str
    role: str
    what: Literal["sends", "switches", "forwards", "terminates", "receives", "drops"]
    eth_dst: Annotated[str, Field(description="As the packet leaves the node, or ends there, like all members here.")]
    segment: Annotated[int | None, Field(ge=1, le=4094, description="VLAN id; not there: the packet has no tag.")] = (
        None
    )
    ipv4_src: str
    ipv4_dst: str
    src_port: Annotated[PortNumber | None, Field(description="Of TCP or UDP.")] = None
    dst_port: PortNumber | None = None
    in_port: PortNumber | None = None
    in_interface: str | None = None
    out_port: PortNumber | None = None
    out_interface: str | None = None
    rules: Annotated[tuple[str, ...], Field(description="The rules that matched.")] = ()


class Leg(Answer):
    """One packet, from the node that sends it to the node that keeps it."""

    outcome: str
    reason: Annotated[str, Field(description="Why it was not delivered; empty if it was.")]
    hops: tuple[Hop, ...]


class PathAnswer(Answer):
    """The way of a packet between two hosts, and of the answer."""

    src: str
    dst: str
    protocol: Literal["icmp", "tcp", "udp"]
    port: PortNumber | None = None
    source_port: PortNumber | None = None
    source: Literal["plan", "installed"]
    vpc: Annotated[str | None, Field(description="The source's VPC; not there: it is in none.")] = None
    segment: Annotated[int | None, Field(ge=1, le=4094, description="VLAN id of the VPC's packets in the fabric.")] = (
        None
    )
    translation: Annotated[Translation | None, Field(description="If the destination is an endpoint.")] = None
    delivered: bool
    reason: str
    there: tuple[Leg, ...]
    back: tuple[Leg, ...]


class ReachabilityAnswer(Answer):
    """Whether a connection may be opened, and why."""

    src: str
    dst: str
    protocol: Literal["tcp", "udp", "icmp"]
    port: PortNumber | None = None
    allowed: bool
    reason: str
    policy: Annotated[str | None, Field(description="The policy that decided.")]
    vpc: Annotated[str | None, Field(description="The source's VPC.")]
    translation: Annotated[Translation | None, Field(description="If the destination is an endpoint.")]
