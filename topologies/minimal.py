"""Shortest-path routes through switches that route, for any fabric whose cards hang on such switches.

Cards with the same first bits form a group behind one switch, or one in each plane. Switches have a route for each
group, or fewer where groups next to each other go the same way. Every port that starts a shortest path is used: by a
hash of each flow, or, where asked for, each for destinations of its own (D-mod-k, as InfiniBand subnet managers route
fat trees), which keeps shifts and permutations free of collisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address

from emulator.model.fabric import Fabric, Link, Node, Role
from emulator.model.routing import Route, Routing
from topologies import cards
from topologies.prefixes import BITS, network, routes

_FAR = 1 << 30
EVERYWHERE = network(0, 0)


@dataclass(frozen=True)
class Group:
    """Cards behind the same switches, with addresses that begin alike.

    Attributes:
        key: The first bits of their addresses within 10.0.0.0/8.
        edges: Switches that they hang on; several if each card has several ports.
        members: Names of the cards by the last bits of their addresses.
    """

    key: int
    edges: tuple[str, ...]
    members: Mapping[int, str]


class MinimalTables:
    """Tables of the switches of a fabric.

    Args:
        fabric: Whose cards have addresses by place.
        groups: All cards.
        host_bits: The last bits of an address, which tell cards of a group apart.
        spreading: ``ecmp`` or ``static``.
        weight: Cost of crossing a link; None: 1.
        divisor: For ``static``: destinations that follow each other share a port in so many, as those before have
            been told apart further down. None: 1.
    """

    def __init__(
        self,
        fabric: Fabric,
        groups: Sequence[Group],
        host_bits: int,
        spreading: str,
        weight: Callable[[Link], int] | None = None,
        divisor: Callable[[Node], int] | None = None,
    ) -> None:
        self._fabric = fabric
        self._groups = groups
        self._host_bits = host_bits
        self._static = spreading == cards.STATIC
        self._weight = weight or (lambda _link: 1)
        self._divisor = divisor or (lambda _node: 1)

    def table(self, node: Node) -> list[Route]:
        """Routes of a switch."""
        to_group = {group.key: ports for group in self._groups if (ports := self._ports(node.name, group))}
        here = {
            group.key << self._host_bits | bits: (self._card_ports[node.name][card],)
            for group in self._groups
            if node.name in group.edges
            for bits, card in group.members.items()
        }
        at_cards = routes_to_each(here)
        if not self._static:
            return routes(to_group, BITS - self._host_bits) + at_cards
        return routes(self._by_destination(to_group, self._divisor(node))) + at_cards

    def _by_destination(self, to_group: Mapping[int, tuple[int, ...]], divisor: int) -> dict[int, tuple[int, ...]]:
        """One port for each card, in turns."""
        chosen: dict[int, tuple[int, ...]] = {}
        for group in self._groups:
            ports = to_group.get(group.key, ())
            for bits, card in group.members.items() if ports else ():
                chosen[group.key << self._host_bits | bits] = (ports[self._number[card] // divisor % len(ports)],)
        return chosen

    @cached_property
    def _number(self) -> dict[str, int]:
        return {node.name: number for number, node in enumerate(self._fabric.ends)}

    @cached_property
    def _neighbours(self) -> dict[str, list[tuple[int, str, int]]]:
        """Port, switch at the other end and cost, for each switch."""
        found: dict[str, list[tuple[int, str, int]]] = {}
        for node in self._fabric.with_role(Role.FORWARDER):
            found[node.name] = []
            for link in self._fabric.links_of(node.name):
                port, other = (link.a_port, link.b) if link.a == node.name else (link.b_port, link.a)
                if self._fabric.by_name[other].role is Role.FORWARDER:
                    found[node.name].append((port, other, self._weight(link)))
        return found

    @cached_property
    def _card_ports(self) -> dict[str, dict[str, int]]:
        """Port to each card, for each switch that has some."""
        found: dict[str, dict[str, int]] = {}
        for node in self._fabric.ends:
            for link in self._fabric.links_of(node.name):
                switch, port = (link.b, link.b_port) if link.a == node.name else (link.a, link.a_port)
                found.setdefault(switch, {})[node.name] = port
        return found

    @cached_property
    def _distances(self) -> dict[tuple[str, ...], dict[str, int]]:
        return {edges: self._from(edges) for edges in {group.edges: None for group in self._groups}}

    def _from(self, edges: tuple[str, ...]) -> dict[str, int]:
        """Cost from every switch to the nearest of some, by Dial's buckets."""
        distances = dict.fromkeys(edges, 0)
        buckets, cost = {0: list(edges)}, 0
        while buckets:
            for here in buckets.pop(cost, []):
                if distances[here] < cost:
                    continue
                for _, there, weight in self._neighbours[here]:
                    if cost + weight < distances.get(there, _FAR):
                        distances[there] = cost + weight
                        buckets.setdefault(cost + weight, []).append(there)
            cost += 1
        return distances

    def _ports(self, name: str, group: Group) -> tuple[int, ...]:
        """Ports on shortest paths to a group; none if it is here, or out of reach."""
        distances = self._distances[group.edges]
        here = distances.get(name, 0)
        if here == 0:
            return ()
        return tuple(
            port for port, there, weight in self._neighbours[name] if distances.get(there, _FAR) + weight == here
        )


def routes_to_each(ports: Mapping[int, tuple[int, ...]]) -> list[Route]:
    """A route of full length for each address, which says nothing about any other."""
    return [Route(network(key, BITS), one) for key, one in ports.items()]


def minimal_routing(
    fabric: Fabric,
    tables: MinimalTables,
    policy: str,
    card_routes: Callable[[Node], Sequence[Route]] | None = None,
    aliases: Mapping[str, tuple[IPv4Address, ...]] | None = None,
) -> Routing:
    """The routing of a fabric of cards and routed switches.

    Args:
        fabric: Which.
        tables: Of its switches.
        policy: Name for the report.
        card_routes: Routes of a card; None: everything goes to its only port.
        aliases: Further addresses of cards.
    """
    of_card = card_routes or default_route

    def table(node: Node) -> Sequence[Route]:
        return tables.table(node) if node.role is Role.FORWARDER else of_card(node)

    return Routing(fabric, policy, table, aliases)


def default_route(_node: Node) -> list[Route]:
    """Everything to the first port."""
    return [Route(EVERYWHERE, (0,))]


def prefix_of(address: IPv4Address, host_bits: int) -> int:
    """The group's key of an address."""
    return (int(address) & ((1 << BITS) - 1)) >> host_bits


def groups_by_address(fabric: Fabric, host_bits: int) -> list[Group]:
    """Groups of cards with one port each: those whose addresses differ in the last bits only."""
    found: dict[int, tuple[str, dict[int, str]]] = {}
    for node in fabric.ends:
        if node.ip is None:
            continue
        link = fabric.links_of(node.name)[0]
        switch = link.b if link.a == node.name else link.a
        _, members = found.setdefault(prefix_of(node.ip.ip, host_bits), (switch, {}))
        members[int(node.ip.ip) & ((1 << host_bits) - 1)] = node.name
    return [Group(key, (switch,), members) for key, (switch, members) in found.items()]
