"""Routes of a fabric whose nodes forward by IP prefixes, as plain data.

Cards of a torus, and switches that route, forward for each other: every node needs a table. A `Routing` makes the table
of a node when asked for it, so that ten thousand tables need no memory until they are installed. It is also the answer
to where packets go, link by link: for predictions, and to prove before anything runs that everything arrives.

What a kernel needs for it:

* every address of a node as a /32, on its first interface or on the loopback interface;
* for each port a permanent neighbour entry: the far node's first address and the far port's Ethernet address;
* for each route ``PREFIX nexthop via FAR-ADDRESS dev INTERFACE onlink`` for each of its ports, with the node's first
  address as preferred source;
* the settings in `FORWARDING_SYSCTLS`, and where a route has several ports those in `MULTIPATH_SYSCTLS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric, Link, Node

FORWARDING_SYSCTLS: Mapping[str, str] = {
    "net.ipv4.ip_forward": "1",
    # Packets of one flow may come in where nothing would go back out.
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.send_redirects": "0",
}
"""Settings of every node's namespace without which routes do not work as stated."""

# Flows, not hosts, are spread over equal next hops.
MULTIPATH_SYSCTLS: Mapping[str, str] = {"net.ipv4.fib_multipath_hash_policy": "1"}
"""Settings of nodes that have several ports for one prefix."""

ALL_BITS = 32


@dataclass(frozen=True)
class Route:
    """A line of a routing table.

    Attributes:
        prefix: Destinations; the longest prefix that matches counts.
        ports: Ports that packets leave by; with several, the kernel picks one for each flow, all equally likely.
    """

    prefix: IPv4Network
    ports: tuple[int, ...]


@dataclass(frozen=True)
class Passage:
    """A link in one direction.

    Attributes:
        link: Index of the link in the fabric.
        forward: From its end *a* to its end *b*.
    """

    link: int
    forward: bool


@dataclass(frozen=True)
class FarEnd:
    """What is at the other end of a port."""

    node: str
    link: Link
    passage: Passage


class Routing:
    """The routing tables of a fabric.

    Args:
        fabric: Whose.
        policy: Name of the way in which routes are chosen, for the report.
        table: Makes the routes of a node.
        aliases: Further addresses of nodes, besides the one that the fabric gives them.
    """

    def __init__(
        self,
        fabric: Fabric,
        policy: str,
        table: Callable[[Node], Sequence[Route]],
        aliases: Mapping[str, tuple[IPv4Address, ...]] | None = None,
    ) -> None:
        self.fabric = fabric
        self.policy = policy
        self._table = table
        self._aliases = aliases or {}
        self._index = {link: number for number, link in enumerate(fabric.links)}
        self._addresses: dict[str, tuple[IPv4Address, ...]] = {}
        self._far: dict[str, dict[int, FarEnd]] = {}
        self._matchers = lru_cache(maxsize=None)(self._matcher)
        self._ports = lru_cache(maxsize=1 << 20)(self._ports_to)

    def routes(self, node: str) -> tuple[Route, ...]:
        """The table of a node, made anew, so that a user who installs tables one by one holds one at a time."""
        return tuple(self._table(self._node(node)))

    def addresses(self, node: str) -> tuple[IPv4Address, ...]:
        """All addresses of a node; the first is the fabric's."""
        if node not in self._addresses:
            ip = self._node(node).ip
            self._addresses[node] = ((ip.ip,) if ip else ()) + self._aliases.get(node, ())
        return self._addresses[node]

    def far_ends(self, node: str) -> Mapping[int, FarEnd]:
        """What is at the other end of each of a node's ports, by port number."""
        if node not in self._far:
            self._far[node] = {
                (link.a_port if link.a == node else link.b_port): FarEnd(
                    link.b if link.a == node else link.a, link, Passage(self._index[link], link.a == node)
                )
                for link in self.fabric.links_of(node)
            }
        return self._far[node]

    def ports(self, node: str, destination: IPv4Address) -> tuple[int, ...]:
        """Ports by which a node sends packets for an address on; empty: it has no route there."""
        return self._ports(node, int(destination))

    def path(self, source: str, target: str, address: IPv4Address | None = None) -> tuple[Passage, ...]:
        """The links that packets cross where the first of several equal next hops is always taken.

        Args:
            source: Node that sends.
            target: Node that is meant.
            address: The one of its addresses that is meant; None: its first.

        Raises:
            TopologyError: Packets do not arrive.
        """
        destination = address or self._address(target)
        here, crossed = source, []
        while here != target:
            ports = self.ports(here, destination)
            if not ports:
                raise TopologyError(f"{here} has no route to {destination} ({source} to {target})")
            far = self.far_ends(here)[ports[0]]
            crossed.append(far.passage)
            here = far.node
            if len(crossed) > len(self.fabric.nodes):
                raise TopologyError(f"packets from {source} to {target} ({destination}) go in circles")
        return tuple(crossed)

    def shares(self, source: str, target: str, address: IPv4Address | None = None) -> dict[Passage, float]:
        """The share of traffic that crosses each link where every node splits it evenly over its equal next hops.

        Args:
            source: Node that sends.
            target: Node that is meant.
            address: The one of its addresses that is meant; None: its first.

        Raises:
            TopologyError: Some of it does not arrive.
        """
        destination = address or self._address(target)
        shares: dict[Passage, float] = {}
        at: dict[str, float] = {source: 1.0}
        for _ in range(len(self.fabric.nodes) + 1):
            onward: dict[str, float] = {}
            for here, share in at.items():
                if here == target:
                    continue
                ports = self.ports(here, destination)
                if not ports:
                    raise TopologyError(f"{here} has no route to {destination} ({source} to {target})")
                for port in ports:
                    far = self.far_ends(here)[port]
                    shares[far.passage] = shares.get(far.passage, 0.0) + share / len(ports)
                    onward[far.node] = onward.get(far.node, 0.0) + share / len(ports)
            if not onward:
                return shares
            at = onward
        raise TopologyError(f"packets from {source} to {target} ({destination}) go in circles")

    def _node(self, name: str) -> Node:
        if name not in self.fabric.by_name:
            raise TopologyError(f"there is no node {name!r}")
        return self.fabric.by_name[name]

    def _address(self, name: str) -> IPv4Address:
        addresses = self.addresses(name)
        if not addresses:
            raise TopologyError(f"{name} has no address")
        return addresses[0]

    def _matcher(self, name: str) -> list[tuple[int, dict[int, tuple[int, ...]]]]:
        """Routes by prefix length, longest first."""
        by_length: dict[int, dict[int, tuple[int, ...]]] = {}
        for route in self.routes(name):
            by_length.setdefault(route.prefix.prefixlen, {})[int(route.prefix.network_address)] = route.ports
        return sorted(by_length.items(), reverse=True)

    def _ports_to(self, name: str, destination: int) -> tuple[int, ...]:
        for length, routes in self._matchers(name):
            found = routes.get(destination >> (ALL_BITS - length) << (ALL_BITS - length))
            if found is not None:
                return found
        return ()
