"""Connections between clients and services: translation at the client's switch, and the nodes that carry them.

A connection has *legs*. Every node that forwards passes packets on with the same IP addresses, so they stay in the
client's segment; every node that ends TCP (a proxy) opens a connection of its own to the same service, which belongs to
the infrastructure's segment, and answers as the service would::

    gateway        client ══▶ gateway ══▶ storage             one leg, client's segment
                        ◀══         ◀══
    conventional   client ══▶ router │ router ──▶ compute │ compute ──▶ storage
                        ◀══          │        ◀──         │         ◀──

Which of the next proxies a proxy's connection comes to is up to steering, so all of those behind it may carry it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controller.flows import (
    ETH_TYPE_IPV4,
    IP_PROTO_TCP,
    Action,
    FlowRule,
    Match,
    Purpose,
    PushVlan,
    SetField,
    Table,
    cookie_of,
)
from controller.tenancy import delivery
from controller.tenancy.access import PRIORITY_ANSWER, PRIORITY_OPEN
from controller.tenancy.admission import sends_from
from controller.tenancy.model import Endpoint, StorageService
from controller.tenancy.site import INFRASTRUCTURE_SEGMENT, Place, Site
from controller.tenancy.state import TenancyState


@dataclass(frozen=True)
class Connection:
    """What a client may open.

    Attributes:
        client: Who opens it.
        ip: Its address in the VPC.
        segment: The VPC's segment.
        endpoint, service: To what.
        server: Node of the service.
    """

    client: Place
    ip: str
    segment: int
    endpoint: Endpoint
    service: StorageService
    server: Place


def connection_rules(site: Site, connection: Connection) -> Iterator[FlowRule]:
    """The rules of one client's connections to one endpoint, in the client's segment."""
    client, server, service = connection.client, connection.server, connection.service
    tag = PushVlan(connection.segment)
    path = site.via.get(client.host, ())
    answer = (tag, SetField("eth_dst", client.mac))
    yield _rule(
        client,
        PRIORITY_OPEN,
        {"ipv4_dst": str(connection.endpoint.ip), "tcp_dst": connection.endpoint.port},
        (
            tag,
            SetField("eth_dst", server.mac),
            SetField("ipv4_src", client.ip),
            SetField("ipv4_dst", server.ip),
            SetField("tcp_dst", service.port),
        ),
        f"{client.host} opens to {connection.endpoint.service}",
    )
    for name in site.forwarders(client.host):
        node = site.places[name]
        yield _rule(
            node,
            PRIORITY_OPEN,
            {"ipv4_src": client.ip, "ipv4_dst": server.ip, "tcp_dst": service.port},
            (tag, SetField("eth_dst", server.mac)),
            f"{name} passes {client.host} on to {connection.endpoint.service}",
        )
        yield _answer(node, server, client.ip, service.port, answer, f"{name} passes the answer on to {client.host}")
    end = site.places[site.proxies(client.host)[0]] if site.proxies(client.host) else server
    yield _answer(end, server, client.ip, service.port, answer, f"{end.host} answers {client.host}")
    last = site.places[path[0]] if path else server
    yield delivery.translated(client, connection.ip, connection.segment, last, server, service, connection.endpoint)


def visited(site: Site, connection: Connection) -> tuple[str, ...]:
    """The nodes that get packets of a connection in the client's segment, besides the client."""
    forwarders, proxies = site.forwarders(connection.client.host), site.proxies(connection.client.host)
    return (*forwarders, proxies[0] if proxies else connection.server.host)


def carried_client_rules(site: Site, client: Place) -> Iterator[FlowRule]:
    """Nodes that forward a client's packets send from its address."""
    for name in site.forwarders(client.host):
        yield sends_from(site.places[name], client.ip)


@dataclass
class _Load:
    """What carriers have to do, from all VPCs together.

    Attributes:
        services: Names of the services whose packets each carrier handles.
        proxies: Proxies, those nearer to clients first, each with those that its connections may come to.
    """

    services: dict[str, set[str]] = field(default_factory=dict)
    proxies: dict[str, set[str]] = field(default_factory=dict)


def _load(site: Site, state: TenancyState) -> _Load:
    load = _Load()
    for vpc in state.vpcs:
        services = {gate.service for gate in state.gates(vpc).values()}
        if not services:
            continue
        for host in state.members(vpc):
            for name in site.via.get(host, ()):
                load.services.setdefault(name, set()).update(services)
    # Steering knows no tenants: a proxy's connection may come to any of those behind it, other clients' included.
    chains = sorted({site.proxies(client) for client in site.via})
    for depth in range(max(map(len, chains), default=0)):
        for chain in chains:
            if depth < len(chain) and chain[depth] in load.services:
                behind = chain[depth + 1 : depth + 2]
                load.proxies.setdefault(chain[depth], set()).update(behind)
                for other in behind:
                    load.services.setdefault(other, set()).update(load.services[chain[depth]])
    return load


def infrastructure_rules(site: Site, state: TenancyState) -> Iterator[FlowRule]:
    """What carriers send on their own account, and as services: the same for all VPCs."""
    load = _load(site, state)
    receivers: set[str] = set()
    for name, services in sorted(load.services.items()):
        carrier = site.places[name]
        for node in sorted({state.services[service].node for service in services}):
            yield sends_from(carrier, site.places[node].ip)
    for name, behind in sorted(load.proxies.items()):
        proxy = site.places[name]
        receivers.add(name)
        for service_name in sorted(load.services[name]):
            service = state.services[service_name]
            server = site.places[service.node]
            yield from _proxied(site, proxy, sorted(behind) or [server.host], service_name, service, server)
            receivers.update(() if behind else (server.host,))
    for name in sorted(receivers):
        yield delivery.plain(site.places[name], INFRASTRUCTURE_SEGMENT)


def _proxied(
    site: Site, proxy: Place, answerers: list[str], name: str, service: StorageService, server: Place
) -> Iterator[FlowRule]:
    tag = PushVlan(INFRASTRUCTURE_SEGMENT)
    yield _rule(
        proxy,
        PRIORITY_OPEN,
        {"ipv4_src": proxy.ip, "ipv4_dst": server.ip, "tcp_dst": service.port},
        (tag, SetField("eth_dst", server.mac)),
        f"{proxy.host} opens to {name}",
    )
    for answerer in answerers:
        yield _answer(
            site.places[answerer],
            server,
            proxy.ip,
            service.port,
            (tag, SetField("eth_dst", proxy.mac)),
            f"{answerer} answers {proxy.host}",
        )


def _answer(
    sender: Place, server: Place, target_ip: str, port: int, actions: tuple[Action, ...], note: str
) -> FlowRule:
    fields: Mapping[str, object] = {"ipv4_src": server.ip, "ipv4_dst": target_ip, "tcp_src": port, "tcp_ack": True}
    return _rule(sender, PRIORITY_ANSWER, fields, actions, note)


def _rule(
    sender: Place, priority: int, fields: Mapping[str, object], actions: tuple[Action, ...], note: str
) -> FlowRule:
    match = Match(
        in_port=sender.port,
        eth_type=ETH_TYPE_IPV4,
        ip_proto=IP_PROTO_TCP,
        **fields,  # type: ignore[arg-type]  # the names of fields are checked by Match
    )
    return FlowRule(
        sender.dpid,
        Table.ACCESS,
        priority,
        match,
        actions,
        goto=Table.STEER,
        cookie=cookie_of(Purpose.ALLOW),
        note=note,
    )
