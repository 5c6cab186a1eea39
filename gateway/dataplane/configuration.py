"""All that a gateway's data plane is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from gateway.dataplane.classify import SERVICE_PORTS, Service, Tenants
from gateway.dataplane.parse import MAX_BYTES
from gateway.dataplane.policy import Rule
from gateway.dataplane.route import NextHop, Route
from gateway.dataplane.translate import Endpoint


@dataclass(frozen=True)
class Configuration:
    """All that a gateway is told.

    Attributes:
        macs: Ethernet addresses (6 bytes) of its ports by their numbers.
        tenants: Who is who.
        rules: What may pass; what no rule matches is denied.
        routes: Where things are.
        next_hops: What routes lead to; number 1 is the first.
        endpoints: What is translated.
        tunnel_ends: Addresses at which VXLAN ends here.
        services: Services by protocol and port.
        max_bytes: Longest frame that is taken.
        flow_capacity: Flows that are remembered.
    """

    macs: Mapping[int, bytes]
    tenants: Tenants = field(default_factory=Tenants)
    rules: Sequence[Rule] = ()
    routes: Sequence[Route] = ()
    next_hops: Sequence[NextHop] = ()
    endpoints: Sequence[Endpoint] = ()
    tunnel_ends: Sequence[IPv4Address] = ()
    services: Mapping[tuple[int, int], Service] = field(default_factory=lambda: SERVICE_PORTS)
    max_bytes: int = MAX_BYTES
    flow_capacity: int = 1 << 16
