"""What a gateway is told: the storage connections that it carries in each VPC's segment, and nothing else. Pure.

Services are translated at the client's switch (see `controller.tenancy.carriers`), so a gateway sees fabric addresses
in the VPC's segment: it passes a client's connection on to the server, and the answers back, and denies everything
else, also if a switch should err.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from controller.flows import IP_PROTO_TCP
from controller.tenancy.carriers import Connection
from controller.tenancy.site import Place, Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import Verdicts
from emulator.messages.gateway import NextHop, Policies, Route, Rule, Tenant

PORT = 0
"""The one port of a gateway on a stick: frames leave where they came in."""


def connections(site: Site, state: TenancyState) -> list[Connection]:
    """What the nodes of all VPCs may open to their endpoints."""
    return [connection for vpc in sorted(state.vpcs) for connection in _connections_of(site, state, vpc)]


def _connections_of(site: Site, state: TenancyState, vpc: str) -> Iterator[Connection]:
    gates = dict(sorted(state.gates(vpc).items()))
    services = {gate.service: state.services[gate.service] for gate in gates.values()}
    verdicts = Verdicts(state.policies_for(vpc), state.members(vpc), gates, services)
    segment = state.vpcs[vpc].segment or 0
    for host, node in sorted(state.members(vpc).items()):
        for name, gate in gates.items():
            if verdicts.opens(host, name):
                service = services[gate.service]
                server = site.places[service.node]
                yield Connection(site.places[host], str(node.ip), segment, gate, service, server)


def policies_for(site: Site, opened: Iterable[Connection], gateway: str) -> Policies:
    """What a gateway is to be told.

    Args:
        site: The fabric and who visits which node.
        opened: All connections that may be opened; the gateway is told of those that it carries.
        gateway: Name of the gateway's host.
    """
    own = site.places[gateway]
    carried = [connection for connection in opened if gateway in site.forwarders(connection.client.host)]
    hops: dict[tuple[str, int], int] = {}
    routes: dict[tuple[int, str], int] = {}
    rules: dict[Rule, None] = {}
    for connection in carried:
        segment, port = connection.segment, connection.service.port
        for place in (connection.client, connection.server):
            number = hops.setdefault((place.mac, segment), len(hops) + 1)
            routes[segment, place.ip] = number
        rules.update(dict.fromkeys(_rules(segment, connection.client, connection.server, port)))
    segments = sorted({segment for segment, _ in routes})
    return Policies(
        tenants=tuple(
            Tenant(
                number=segment,
                vlans=(segment,),
                addresses=tuple(IPv4Network(ip) for other, ip in sorted(routes) if other == segment),
            )
            for segment in segments
        ),
        rules=tuple(rules),
        next_hops=tuple(
            NextHop(port=PORT, target_mac=mac.lower(), source_mac=own.mac.lower(), vlan=segment)
            for mac, segment in hops
        ),
        routes=tuple(
            Route(tenant=segment, network=IPv4Network(ip), next_hop=number)
            for (segment, ip), number in sorted(routes.items())
        ),
    )


def _rules(segment: int, client: Place, server: Place, port: int) -> Iterator[Rule]:
    """A client's connections to a server, and the answers."""
    here, there, ports = IPv4Network(client.ip), IPv4Network(server.ip), (port, port)
    yield Rule(allow=True, tenant=segment, protocol=IP_PROTO_TCP, source=here, target=there, target_ports=ports)
    yield Rule(allow=True, tenant=segment, protocol=IP_PROTO_TCP, source=there, target=here, source_ports=ports)
