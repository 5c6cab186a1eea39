"""What gateways are told and tell over their control sockets: policies, flows, profiles; requests are in `gateway`."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_ENTRIES = 20_000


class Message(BaseModel):
    """What all messages have in common: unknown keys are errors, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Port = Annotated[int, Field(ge=1, le=65535)]
AnyPort = Annotated[int, Field(ge=0, le=65535)]
TenantNumber = Annotated[int, Field(ge=0, le=65535)]
Protocol = Annotated[int, Field(ge=0, le=255)]
Mac = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Vlan = Annotated[int, Field(ge=1, le=4094)]
Vni = Annotated[int, Field(ge=0, le=(1 << 24) - 1)]
PortNumber = Annotated[int, Field(ge=0, le=255)]
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
ServiceName = Literal["other", "block", "file", "object", "compute"]


class Tenant(Message):
    """A tenant: how its frames are known, and which addresses they may come from (None: any)."""

    number: TenantNumber
    vlans: tuple[Vlan, ...] = ()
    ports: tuple[PortNumber, ...] = ()
    vnis: tuple[Vni, ...] = ()
    addresses: tuple[Network, ...] | None = None


class Rule(Message):
    """A rule; what is None matches anything. Ports are first and last."""

    allow: bool
    tenant: TenantNumber | None = None
    service: ServiceName | None = None
    protocol: Protocol | None = None
    source: Network | None = None
    target: Network | None = None
    source_ports: tuple[AnyPort, AnyPort] = (0, 65535)
    target_ports: tuple[AnyPort, AnyPort] = (0, 65535)


class Endpoint(Message):
    """A service's address and port, and the backend that does its work."""

    protocol: Literal[6, 17]
    address: Address
    port: Port
    backend: Address
    backend_port: Port
    tenant: TenantNumber | None = None


class Tunnel(Message):
    """A VXLAN tunnel to a next hop."""

    vni: Vni
    local: IPv4Address
    remote: IPv4Address
    target_mac: Mac
    source_mac: Mac
    port: Port = 4789


class NextHop(Message):
    """A neighbour behind a port, and the tag (0: none) or tunnel with which frames go to it."""

    port: PortNumber
    target_mac: Mac
    source_mac: Mac
    vlan: Annotated[int, Field(ge=0, le=4094)] = 0
    tunnel: Tunnel | None = None
    max_bytes: Annotated[int, Field(ge=60, le=65557)] = 9018


class Route(Message):
    """A prefix within a tenant, and the number of its next hop: 1 is the first, 0 the gateway itself."""

    tenant: TenantNumber
    network: Network
    next_hop: Annotated[int, Field(ge=0)]


class Policies(Message):
    """All that a gateway is told; it is taken over whole or not at all."""

    tenants: Annotated[tuple[Tenant, ...], Field(max_length=MAX_ENTRIES)] = ()
    rules: Annotated[tuple[Rule, ...], Field(max_length=MAX_ENTRIES)] = ()
    endpoints: Annotated[tuple[Endpoint, ...], Field(max_length=MAX_ENTRIES)] = ()
    next_hops: Annotated[tuple[NextHop, ...], Field(max_length=MAX_ENTRIES)] = ()
    routes: Annotated[tuple[Route, ...], Field(max_length=MAX_ENTRIES)] = ()
    tunnel_ends: Annotated[tuple[IPv4Address, ...], Field(max_length=MAX_ENTRIES)] = ()


class FlowKey(Message):
    """The name of a flow."""

    tenant: TenantNumber
    protocol: Protocol
    source: Address
    target: Address
    source_port: AnyPort = 0
    target_port: AnyPort = 0

    @model_validator(mode="after")
    def _of_one_family(self) -> FlowKey:
        if self.source.version != self.target.version:
            raise ValueError(f"{self.source} and {self.target} are of different families")
        return self


class Flow(Message):
    """A flow that is decided from outside: dropped, or sent to a next hop, perhaps with other addresses and ports."""

    key: FlowKey
    allow: bool
    next_hop: Annotated[int, Field(ge=1)] | None = None
    source: Address | None = None
    target: Address | None = None
    source_port: AnyPort | None = None
    target_port: AnyPort | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Flow:
        if self.allow == (self.next_hop is None):
            raise ValueError("a flow that is allowed needs a next hop, and one that is not has none")
        for address in (self.source, self.target):
            if address is not None and address.version != self.key.source.version:
                raise ValueError(f"{address} is of another family than the flow")
        changed = (self.source, self.target, self.source_port, self.target_port)
        if self.key.protocol not in (6, 17) and any(value is not None for value in changed):
            raise ValueError("only TCP (6) and UDP (17) can be translated")
        return self


class Profile(Message):
    """What processing costs: the fields of `emulator.model.profile.StationModel`."""

    latency_ns: Annotated[int, Field(ge=0, le=3600 * 10**9)]
    packet_rate: Annotated[int, Field(ge=1, le=10**15)] | None
    bit_rate_bps: Annotated[int, Field(ge=1, le=10**15)] | None
    queue_packets: Annotated[int, Field(ge=0, le=10**7)]
    source: Annotated[str, Field(max_length=1000)] = "set over the control socket"
