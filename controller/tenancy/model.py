"""What tenants and the operator declare, as validated data. Shapes of single resources only; `state` checks references.

A tenant brings its VPCs as they are: the address ranges of different VPCs may overlap. A VPC's nodes are hosts of the
fabric with an address of the VPC; its endpoints are addresses of the VPC behind which a storage service is. Nothing may
talk unless a policy allows it.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, field_validator, model_validator

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$", max_length=64)]
"""Names of resources, which stand in URLs: 1 to 64 letters, digits, ``.``, ``_``, ``-``."""

TcpPort = Annotated[int, Field(ge=1, le=65_535, strict=True)]
Description = Annotated[str, Field(max_length=500)]


def _address(value: object) -> object:
    # The standard library also takes numbers and truth values for addresses.
    if isinstance(value, (str, IPv4Address)):
        return value
    raise ValueError("an address is text, like '10.0.0.1'")


def _prefix(value: object) -> object:
    # The standard library also takes net masks, host masks, and addresses without a length.
    if isinstance(value, IPv4Network) or (isinstance(value, str) and value.partition("/")[2].isdecimal()):
        return value
    raise ValueError("an address range is text with a prefix length, like '10.0.0.0/8'")


Address = Annotated[IPv4Address, BeforeValidator(_address)]
Prefix = Annotated[IPv4Network, BeforeValidator(_prefix)]
FIRST_SEGMENT, LAST_SEGMENT = 2, 4094
"""VLAN ids of VPCs; 1 is the infrastructure's own segment."""


class _Resource(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tenant(_Resource):
    """Who owns VPCs."""

    description: Description = ""


class Vpc(_Resource):
    """A tenant's private network.

    Attributes:
        tenant: Its owner.
        cidrs: Its address ranges, which do not overlap each other.
        segment: VLAN id on the fabric, unique among all VPCs. None: the controller chooses one, and answers with it.
        description: For people.
    """

    tenant: Name
    cidrs: Annotated[tuple[Prefix, ...], Field(min_length=1, max_length=64)]
    segment: Annotated[int, Field(ge=FIRST_SEGMENT, le=LAST_SEGMENT, strict=True)] | None = None
    description: Description = ""

    @field_validator("cidrs")
    @classmethod
    def _disjoint(cls, cidrs: tuple[IPv4Network, ...]) -> tuple[IPv4Network, ...]:
        for index, one in enumerate(cidrs):
            for other in cidrs[:index]:
                if one.overlaps(other):
                    raise ValueError(f"{one} and {other} overlap")
        return cidrs


class VpcNode(_Resource):
    """A host of the fabric as a member of a VPC; named after the host, which is in one VPC at most.

    Attributes:
        ip: Its address, inside the VPC's ranges.
        groups: Node groups that policies may name.
    """

    ip: Address
    groups: Annotated[tuple[Name, ...], Field(max_length=64)] = ()


class ServiceKind(str, Enum):
    """What a storage service offers."""

    BLOCK = "block"
    FILE = "file"
    OBJECT = "object"


class StorageService(_Resource):
    """Something that a storage node offers on a TCP port, for example one tenant's volume.

    Attributes:
        kind: Block, file or object.
        node: Host of the fabric that offers it.
        port: TCP port there.
        vpcs: The VPCs that may have endpoints for it; None: all.
        description: For people.
    """

    kind: ServiceKind
    node: Name
    port: TcpPort
    vpcs: Annotated[tuple[Name, ...], Field(max_length=4096)] | None = None
    description: Description = ""


class Endpoint(_Resource):
    """Where a VPC finds a storage service.

    Attributes:
        service: The service.
        ip: Address inside the VPC's ranges that no node has; several endpoints may share one under different ports.
        port: TCP port there.
    """

    service: Name
    ip: Address
    port: TcpPort


class Protocol(str, Enum):
    """What a policy is about; ``any`` is IPv4 of these three."""

    TCP = "tcp"
    UDP = "udp"
    ICMP = "icmp"
    ANY = "any"


class PortRange(_Resource):
    """Destination ports, both ends included."""

    first: TcpPort
    last: TcpPort

    @model_validator(mode="after")
    def _ordered(self) -> PortRange:
        if self.first > self.last:
            raise ValueError(f"the port range starts with {self.first} and ends with {self.last}")
        return self


class Sources(_Resource):
    """Nodes of the policy's VPCs; empty: all of them. A node matches if it is named or in a named group."""

    nodes: Annotated[tuple[Name, ...], Field(max_length=1024)] = ()
    groups: Annotated[tuple[Name, ...], Field(max_length=64)] = ()


class Destinations(_Resource):
    """Nodes and endpoints of the policy's VPCs; empty: all nodes and all endpoints.

    Attributes:
        nodes, groups: As in `Sources`.
        endpoints: Names of endpoints.
        kinds: Endpoints of services of these kinds.
    """

    nodes: Annotated[tuple[Name, ...], Field(max_length=1024)] = ()
    groups: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    endpoints: Annotated[tuple[Name, ...], Field(max_length=1024)] = ()
    kinds: Annotated[tuple[ServiceKind, ...], Field(max_length=3)] = ()


def _given(one: str, other: str) -> dict[str, JsonValue]:
    """JSON schema of objects in which one member is given and another one is not."""
    return {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}


class Policy(_Resource):
    """Who may open connections to whom; answers come back by themselves.

    Within one VPC the applicable policy with the highest priority decides, and a denial before a permission of the same
    priority. If none applies, the answer is no.

    Attributes:
        tenant: It applies in each of this tenant's VPCs separately, or
        vpc: in this VPC. One of the two is given.
        action: ``allow`` or ``deny``.
        priority: Higher wins.
        source, destination: Between whom.
        protocol: Of what.
        ports: Destination ports (of endpoints: the endpoint's own port); empty: all. Only for TCP and UDP.
        description: For people.
    """

    model_config = ConfigDict(json_schema_extra={"oneOf": [_given("tenant", "vpc"), _given("vpc", "tenant")]})

    tenant: Name | None = None
    vpc: Name | None = None
    action: Literal["allow", "deny"]
    priority: Annotated[int, Field(ge=0, le=9999, strict=True)] = 1000
    source: Sources = Sources()
    destination: Destinations = Destinations()
    protocol: Protocol = Protocol.ANY
    ports: Annotated[tuple[PortRange, ...], Field(max_length=64)] = ()
    description: Description = ""

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        if (self.tenant is None) == (self.vpc is None):
            raise ValueError("a policy names either a tenant or a vpc")
        if self.ports and self.protocol not in (Protocol.TCP, Protocol.UDP):
            raise ValueError(f"ports go with tcp or udp, not with {self.protocol.value}")
        return self
