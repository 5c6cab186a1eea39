"""Steering: which node storage traffic visits next, as rules of `Table.STEER`.

Steering happens where a packet enters the fabric: a rule matches the sender's port there and the packet's IP
addresses, rewrites the destination's Ethernet address to that of the next node to visit, and leaves the rest to
routing. So a packet is steered once per sender, whatever its source address says, and every leg ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from controller.flows import ETH_TYPE_IPV4, IP_PROTO_TCP, FlowRule, Match, Purpose, SetField, Table, cookie_of
from controller.paths import Paths
from controller.services import Service, storage_nodes
from controller.spread import assign
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, Node, Role

PRIORITY_SERVICE = 300
PRIORITY_PAIR = 100
_BUCKET_SHIFT = 1
"""Linux gives connect() even ports first, so the lowest bit says nothing."""


class Steering:
    """Writes steering rules for one fabric.

    Args:
        fabric: Where.
        routes: The paths underneath.
        services: The storage services.
        classed: Datapath ids of the switches with rules in `Table.CLASS`; the others skip it.
    """

    def __init__(
        self, fabric: Fabric, routes: Paths, services: tuple[Service, ...], classed: Collection[int] = ()
    ) -> None:
        self._fabric = fabric
        self._routes = routes
        self._services = services
        self._classed = classed
        self._clients = fabric.with_role(Role.GPU)
        self._storage = tuple(fabric.by_name[name] for name in storage_nodes(fabric, services))

    def choose(self, *roles: Role, design: str) -> dict[str, tuple[str, ...]]:
        """For every client one node of each role, of its own zone where there is one, evenly spread."""
        for role in roles:
            if not self._fabric.with_role(role):
                raise ControllerError(
                    f"the design {design!r} needs a node of role {role.value!r}, and the fabric "
                    f"{self._fabric.name!r} has none"
                )
        if not self._storage:
            return {}
        via: dict[str, tuple[str, ...]] = {client.name: () for client in self._clients}
        for role in roles:
            nodes = self._fabric.with_role(role)
            for zone in dict.fromkeys(client.zone for client in self._clients):
                near = [node.name for node in nodes if node.zone == zone] or [node.name for node in nodes]
                names = [client.name for client in self._clients if client.zone == zone]
                for name, node in assign(names, near, f"via {role.value}").items():
                    via[name] = (*via[name], node)
        self._check(via)
        return via

    def _check(self, via: Mapping[str, Sequence[str]]) -> None:
        for client, nodes in via.items():
            for server in self._storage:
                legs = [client, *nodes, server.name]
                for here, there in pairwise(legs):
                    if not self._routes.reaches(here, there):
                        raise ControllerError(f"storage traffic of {client}: no path over switches to {there}")

    def gateway(self, via: Mapping[str, Sequence[str]]) -> Iterator[FlowRule]:
        """Client and storage hand everything to the client's gateway; the gateway's own packets are left alone."""
        for client in self._clients:
            for gateway in via.get(client.name, ()):
                for server in self._storage:
                    yield self._pair(client, gateway, source=None, target=server)
                    yield self._pair(server, gateway, source=None, target=client)
                for service in self._services:
                    server = self._fabric.by_name[service.node]
                    yield self._to_service(client, gateway, service)
                    yield self._rule(
                        server,
                        gateway,
                        PRIORITY_SERVICE,
                        Match(
                            eth_type=ETH_TYPE_IPV4,
                            ip_proto=IP_PROTO_TCP,
                            ipv4_dst=_ip(client),
                            tcp_src=service.port,
                        ),
                        f"{service.name} to {client.name} through {gateway}",
                    )

    def conventional(self, via: Mapping[str, Sequence[str]]) -> Iterator[FlowRule]:
        """Client to router to compute node to storage, and for all but TCP the same way back."""
        behind: dict[str, set[str]] = {}
        for client in self._clients:
            if client.name not in via:
                continue
            router_name, compute_name = via[client.name]
            router, compute = self._fabric.by_name[router_name], self._fabric.by_name[compute_name]
            behind.setdefault(router.name, set()).add(compute.name)
            for server in self._storage:
                yield self._pair(client, router.name, source=None, target=server)
                yield self._pair(router, compute.name, source=client, target=server)
                yield self._pair(server, compute.name, source=None, target=client)
                yield self._pair(compute, router.name, source=server, target=client)
            for service in self._services:
                yield self._to_service(client, router.name, service)
        for name, computes in behind.items():
            for service in self._services:
                yield from self._from_router(self._fabric.by_name[name], sorted(computes), service)

    def _from_router(self, router: Node, computes: Sequence[str], service: Service) -> Iterator[FlowRule]:
        """Spread a router's own connections over the compute nodes by bits of their source port.

        The proxy there opens connections from its own address, so the client can no longer be seen.
        """
        for value, mask, compute in port_buckets(computes):
            yield self._rule(
                router,
                compute,
                PRIORITY_SERVICE,
                Match(
                    eth_type=ETH_TYPE_IPV4,
                    ip_proto=IP_PROTO_TCP,
                    ipv4_dst=service.ip,
                    tcp_src=value if mask else None,
                    tcp_src_mask=mask,
                    tcp_dst=service.port,
                ),
                f"{router.name} to {service.name} through {compute}",
            )

    def _to_service(self, client: Node, via: str, service: Service) -> FlowRule:
        match = Match(eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_TCP, ipv4_dst=service.ip, tcp_dst=service.port)
        return self._rule(client, via, PRIORITY_SERVICE, match, f"{client.name} to {service.name} through {via}")

    def _pair(self, sender: Node, via: str, *, source: Node | None, target: Node) -> FlowRule:
        match = Match(eth_type=ETH_TYPE_IPV4, ipv4_src=_ip(source) if source else None, ipv4_dst=_ip(target))
        origin = source.name if source else sender.name
        return self._rule(sender, via, PRIORITY_PAIR, match, f"{origin} to {target.name} through {via}")

    def _rule(self, sender: Node, via: str, priority: int, match: Match, note: str) -> FlowRule:
        attachment = self._routes.attachments[sender.name]
        dpid = self._fabric.by_name[attachment.switch].dpid or 0
        return FlowRule(
            dpid=dpid,
            table=Table.STEER,
            priority=priority,
            match=replace(match, in_port=attachment.port),
            actions=(SetField("eth_dst", self._fabric.by_name[via].mac or ""),),
            goto=Table.CLASS if dpid in self._classed else Table.SPREAD,
            cookie=cookie_of(Purpose.STEER),
            note=note,
        )


def _ip(node: Node) -> str:
    return str(node.ip.ip) if node.ip else ""


def port_buckets(nodes: Sequence[str]) -> list[tuple[int, int | None, str]]:
    """Divide TCP source ports among nodes: rules of (value, mask, node), mask None if there is only one node.

    The buckets are a power of two, at least four per node unless they divide evenly, and taken in turn.
    """
    if len(nodes) == 1:
        return [(0, None, nodes[0])]
    buckets = 1 << (len(nodes) - 1).bit_length()
    if buckets != len(nodes):
        buckets *= 4
    mask = (buckets - 1) << _BUCKET_SHIFT
    return [(index << _BUCKET_SHIFT, mask, nodes[index % len(nodes)]) for index in range(buckets)]
