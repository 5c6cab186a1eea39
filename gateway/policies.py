"""Policies as messages say them, and as a pipeline has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.messages import gateway as messages
from gateway.dataplane.classify import Service, Tenants
from gateway.dataplane.headers import TCP
from gateway.dataplane.pipeline import Configuration
from gateway.dataplane.policy import Rule
from gateway.dataplane.route import NextHop, Route, Tunnel
from gateway.dataplane.translate import Endpoint

_SERVICE_NAMES: Mapping[Service, messages.ServiceName] = {
    Service.OTHER: "other",
    Service.BLOCK: "block",
    Service.FILE: "file",
    Service.OBJECT: "object",
    Service.COMPUTE: "compute",
}


def configuration_of(policies: messages.Policies, base: Configuration) -> Configuration:
    """What a pipeline is told.

    Args:
        policies: What the message says.
        base: What is not in messages: the ports' Ethernet addresses and the sizes.
    """
    tenants = policies.tenants
    return Configuration(
        macs=base.macs,
        tenants=Tenants(
            by_vlan=_unique("VLAN", [(vlan, tenant.number) for tenant in tenants for vlan in tenant.vlans]),
            by_port=_unique("port", [(port, tenant.number) for tenant in tenants for port in tenant.ports]),
            by_vni=_unique("VNI", [(vni, tenant.number) for tenant in tenants for vni in tenant.vnis]),
            addresses={tenant.number: tenant.addresses for tenant in tenants if tenant.addresses is not None},
        ),
        rules=[
            Rule(
                rule.allow,
                rule.tenant,
                None if rule.service is None else Service[rule.service.upper()],
                rule.protocol,
                rule.source,
                rule.target,
                rule.source_ports,
                rule.target_ports,
            )
            for rule in policies.rules
        ],
        routes=[Route(route.tenant, route.network, route.next_hop) for route in policies.routes],
        next_hops=[
            NextHop(
                hop.port,
                mac_of(hop.target_mac),
                mac_of(hop.source_mac),
                hop.vlan,
                None if hop.tunnel is None else _tunnel(hop.tunnel),
                hop.max_bytes,
            )
            for hop in policies.next_hops
        ],
        endpoints=[
            Endpoint(one.protocol, one.address, one.port, one.backend, one.backend_port, one.tenant)
            for one in policies.endpoints
        ],
        tunnel_ends=policies.tunnel_ends,
        services=base.services,
        max_bytes=base.max_bytes,
        flow_capacity=base.flow_capacity,
    )


def policies_of(configuration: Configuration) -> messages.Policies:
    """The inverse of `configuration_of`: what a message would have to say."""
    tenants = configuration.tenants
    numbers = {*tenants.by_vlan.values(), *tenants.by_port.values(), *tenants.by_vni.values(), *tenants.addresses}
    return messages.Policies(
        tenants=tuple(
            messages.Tenant(
                number=number,
                vlans=_names_of(tenants.by_vlan, number),
                ports=_names_of(tenants.by_port, number),
                vnis=_names_of(tenants.by_vni, number),
                addresses=tuple(tenants.addresses[number]) if number in tenants.addresses else None,
            )
            for number in sorted(numbers)
        ),
        rules=tuple(
            messages.Rule(
                allow=rule.allow,
                tenant=rule.tenant,
                service=None if rule.service is None else _SERVICE_NAMES[rule.service],
                protocol=rule.protocol,
                source=rule.source,
                target=rule.target,
                source_ports=rule.source_ports,
                target_ports=rule.target_ports,
            )
            for rule in configuration.rules
        ),
        endpoints=tuple(
            messages.Endpoint(
                protocol=6 if one.protocol == TCP else 17,
                address=one.address,
                port=one.port,
                backend=one.backend,
                backend_port=one.backend_port,
                tenant=one.tenant,
            )
            for one in configuration.endpoints
        ),
        next_hops=tuple(
            messages.NextHop(
                port=hop.port,
                target_mac=hop.target_mac.hex(":"),
                source_mac=hop.source_mac.hex(":"),
                vlan=hop.vlan,
                tunnel=None if hop.tunnel is None else _tunnel_message(hop.tunnel),
                max_bytes=hop.max_bytes,
            )
            for hop in configuration.next_hops
        ),
        routes=tuple(
            messages.Route(tenant=one.tenant, network=one.network, next_hop=one.next_hop)
            for one in configuration.routes
        ),
        tunnel_ends=tuple(configuration.tunnel_ends),
    )


def _names_of(mapping: Mapping[int, int], tenant: int) -> tuple[int, ...]:
    return tuple(sorted(name for name, owner in mapping.items() if owner == tenant))


def _tunnel_message(tunnel: Tunnel) -> messages.Tunnel:
    return messages.Tunnel(
        vni=tunnel.vni,
        local=tunnel.local,
        remote=tunnel.remote,
        target_mac=tunnel.target_mac.hex(":"),
        source_mac=tunnel.source_mac.hex(":"),
        port=tunnel.port,
    )


def mac_of(text: str) -> bytes:
    """The 6 bytes of an Ethernet address."""
    return bytes.fromhex(text.replace(":", ""))


def _tunnel(tunnel: messages.Tunnel) -> Tunnel:
    macs = mac_of(tunnel.target_mac), mac_of(tunnel.source_mac)
    return Tunnel(tunnel.vni, tunnel.local, tunnel.remote, *macs, tunnel.port)


def _unique(what: str, pairs: Sequence[tuple[int, int]]) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for name, tenant in pairs:
        if found.setdefault(name, tenant) != tenant:
            raise ValueError(f"{what} {name} belongs to tenants {found[name]} and {tenant}")
    return found
