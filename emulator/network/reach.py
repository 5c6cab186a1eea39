"""What makes nodes reach each other, as netlink requests: addresses, neighbours and routes. Pure."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from types import MappingProxyType
from typing import NamedTuple, Protocol

from emulator.model.fabric import Fabric
from emulator.model.routing import ALL_BITS, MULTIPATH_SYSCTLS, FarEnd, Routing
from emulator.network import interfaces
from emulator.network.netlink import (
    CREATE,
    MAIN_TABLE,
    NEXT_HOP,
    ONLINK,
    ROUTE,
    RTA_DST,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_PREFSRC,
    RTM_DELROUTE,
    RTM_NEWROUTE,
    Request,
    attribute,
    u32,
)
from emulator.network.ports import Port
from emulator.network.wiring import LOOPBACK_INDEX

_STATIC, _UNIVERSE, _UNICAST, _UNREACHABLE = 4, 0, 1, 7


class Needs(NamedTuple):
    """What one node needs besides its interfaces, which are up.

    Attributes:
        requests: To its kernel.
        sysctls: Settings, besides those that all nodes have.
    """

    requests: list[Request]
    sysctls: Mapping[str, str] = MappingProxyType({})


class Reach(Protocol):
    """A way for the nodes of a network to reach each other."""

    def needs(self, node: str, ports: Sequence[Port], indices: Mapping[str, int]) -> Needs:
        """What one node needs.

        Args:
            node: Its name.
            ports: Its ends of links.
            indices: Their interface numbers by name.
        """


class Neighbours:
    """All hosts are in one subnet, joined by switches, and have permanent ARP entries of all others.

    Args:
        fabric: Has the hosts.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._tails = {
            node.name: interfaces.neighbour_tail(node.ip.ip, node.mac) for node in fabric.hosts if node.ip and node.mac
        }

    def needs(self, node: str, ports: Sequence[Port], indices: Mapping[str, int]) -> Needs:
        """The loopback, the address on the first port, and the other hosts; see `Reach`."""
        address = self._fabric.by_name[node].ip
        if address is None or not ports:
            return Needs([])
        first = indices[ports[0].interface]
        others = [tail for name, tail in self._tails.items() if name != node]
        return Needs(
            [
                interfaces.set_up(LOOPBACK_INDEX, node),
                interfaces.add_address(first, address, node),
                *interfaces.add_neighbours(first, others, node),
            ]
        )


class Prefixes:
    """Nodes forward for each other by prefixes; see `emulator.model.routing`.

    Args:
        routing: Of the fabric.
        links: Both ends of every link, in the fabric's order.
    """

    def __init__(self, routing: Routing, links: Sequence[tuple[Port, Port]]) -> None:
        self._routing = routing
        self._links = links

    def needs(self, node: str, ports: Sequence[Port], indices: Mapping[str, int]) -> Needs:  # noqa: ARG002
        """The loopback with all addresses, so that they stay when a link does not, and the routes; see `Reach`."""
        addresses = self._routing.addresses(node)
        requests = [interfaces.set_up(LOOPBACK_INDEX, node)]
        requests += [interfaces.add_address(LOOPBACK_INDEX, IPv4Interface((one, ALL_BITS)), node) for one in addresses]
        for far in self._routing.far_ends(node).values():
            near, there = self._ends(far)
            tail = interfaces.neighbour_tail(self._address(far.node), there.mac)
            requests += interfaces.add_neighbours(indices[near.interface], [tail], node)
        routes = self._routing.routes(node)
        requests += [self.line(node, route.prefix, route.ports, indices) for route in routes]
        return Needs(requests, MULTIPATH_SYSCTLS if any(len(route.ports) > 1 for route in routes) else {})

    def line(
        self, node: str, prefix: IPv4Network, ports: Sequence[int], indices: Mapping[str, int], how: int = CREATE
    ) -> Request:
        """What enters a line into a node's table.

        Args:
            node: Whose table.
            prefix: Destinations.
            ports: By which packets go there; none: they are refused.
            indices: Interface numbers by name.
            how: Flags; by default there must be no such line yet.
        """
        what = route_name(node, prefix)
        far_ends = self._routing.far_ends(node)
        hops = [
            (indices[self._ends(far)[0].interface], self._address(far.node).packed)
            for far in (far_ends[port] for port in ports)
        ]
        if not hops:
            return refuse_route(prefix, what, how)
        own = self._routing.addresses(node)
        return add_route(prefix, hops, own[0].packed if own else b"", what, how)

    def _ends(self, far: FarEnd) -> tuple[Port, Port]:
        a, b = self._links[far.passage.link]
        return (a, b) if far.passage.forward else (b, a)

    def _address(self, node: str) -> IPv4Address:
        return self._routing.addresses(node)[0]


def route_name(node: str, prefix: IPv4Network) -> str:
    """What a line of a node's table is called in errors."""
    return f"{node}: route to {prefix}"


def delete_route(prefix: IPv4Network, what: str) -> Request:
    """Remove a route that `add_route` or `refuse_route` entered."""
    body = ROUTE.pack(socket.AF_INET, prefix.prefixlen, 0, 0, MAIN_TABLE, _STATIC, _UNIVERSE, 0, 0)
    return Request(RTM_DELROUTE, body + attribute(RTA_DST, prefix.network_address.packed), what)


def refuse_route(prefix: IPv4Network, what: str, how: int = CREATE) -> Request:
    """Enter a route that leads nowhere: packets are dropped, and their senders told so (RFC 1812, 4.3.3.1)."""
    body = ROUTE.pack(socket.AF_INET, prefix.prefixlen, 0, 0, MAIN_TABLE, _STATIC, _UNIVERSE, _UNREACHABLE, 0)
    return Request(RTM_NEWROUTE, body + attribute(RTA_DST, prefix.network_address.packed), what, how)


def add_route(
    prefix: IPv4Network, hops: Sequence[tuple[int, bytes]], source: bytes, what: str, how: int = CREATE
) -> Request:
    """Enter a route whose next hops are neighbours, whatever their addresses.

    Args:
        prefix: Destinations.
        hops: Interface number and address of each next hop; flows are spread evenly over several.
        source: Address of what this node itself sends there.
        what: For the error line.
        how: Flags; by default there must be no such route yet.
    """
    several = len(hops) > 1
    flags = 0 if several else ONLINK
    body = ROUTE.pack(
        socket.AF_INET, prefix.prefixlen, 0, 0, MAIN_TABLE, _STATIC, _UNIVERSE, _UNICAST, flags
    )  # fmt: skip
    body += attribute(RTA_DST, prefix.network_address.packed) + attribute(RTA_PREFSRC, source)
    if several:
        tails = [(index, attribute(RTA_GATEWAY, gateway)) for index, gateway in hops]
        nested = b"".join(NEXT_HOP.pack(NEXT_HOP.size + len(tail), ONLINK, 0, index) + tail for index, tail in tails)
        return Request(RTM_NEWROUTE, body + attribute(RTA_MULTIPATH, nested), what, how)
    [(index, gateway)] = hops
    return Request(RTM_NEWROUTE, body + attribute(RTA_GATEWAY, gateway) + u32(RTA_OIF, index), what, how)
