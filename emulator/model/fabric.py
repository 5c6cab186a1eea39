"""A network as plain data: nodes, links and the graph they make.

A `Fabric` says what is to be built, not how: topologies produce it, the network package builds it in a kernel, the
controller computes routes on it, and the report draws it. Interfaces are called ``<node>-eth<port>`` as in Mininet;
ports count from 0 on hosts and from 1 on switches, in the order in which links are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

from emulator.errors import TopologyError
from emulator.model.link import ETHERNET_HEADER_BYTES, MAX_RATE_BPS, Aqm, Link, LinkSpec

if TYPE_CHECKING:
    import networkx

__all__ = [
    "ETHERNET_HEADER_BYTES",
    "MAX_INTERFACE_NAME",
    "MAX_RATE_BPS",
    "Aqm",
    "Fabric",
    "FabricBuilder",
    "Link",
    "LinkSpec",
    "Node",
    "Role",
]

MAX_INTERFACE_NAME = 15
"""Linux's IFNAMSIZ less the closing zero."""


class Role(str, Enum):
    """What a node stands for.

    A ``SWITCH`` forwards by OpenFlow, a ``FORWARDER`` is a switch that routes by IP prefixes, with a namespace of its
    own like a host.
    """

    SWITCH = "switch"
    GPU = "gpu"
    COMPUTE = "compute"
    ROUTER = "router"
    GATEWAY = "gateway"
    STORAGE = "storage"
    HOST = "host"
    FORWARDER = "forwarder"


@dataclass(frozen=True)
class Node:
    """A host or switch.

    Attributes:
        name: Unique name; at most 10 characters, so that interface names fit.
        role: What it stands for.
        zone: Availability zone, for drawings and for zone-crossing links.
        ip: Address with prefix length, hosts only.
        mac: Ethernet address of the host's first interface, hosts only.
        dpid: OpenFlow datapath id, switches only.
        tier: Row in a drawing: 0 spine, 1 leaf, 2 host.
    """

    name: str
    role: Role
    zone: str = "a"
    ip: IPv4Interface | None = None
    mac: str | None = None
    dpid: int | None = None
    tier: int = 2

    @property
    def is_switch(self) -> bool:
        """Whether this node forwards by OpenFlow."""
        return self.role is Role.SWITCH


@dataclass(frozen=True)
class Fabric:
    """Nodes and links, checked once on creation.

    Attributes:
        name: Topology name, for example ``icgw``.
        nodes: In order of creation.
        links: In order of creation.
        parameters: What the topology was made from, for the report.

    Raises:
        TopologyError: Duplicate names, addresses or ports, unknown nodes, over-long names, or a graph in parts.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    parameters: dict[str, object] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self._check_unique()
        for link in self.links:
            for end in (link.a, link.b):
                if end not in self.by_name:
                    raise TopologyError(f"link {link.name} names the unknown node {end!r}")
        for interface in self._interfaces():
            if len(interface) > MAX_INTERFACE_NAME:
                raise TopologyError(f"interface name {interface!r} is longer than {MAX_INTERFACE_NAME} characters")
        parts = self._parts()
        if len(parts) > 1:
            smallest = min(parts, key=lambda part: (len(part), part))
            raise TopologyError(
                f"the topology is in {len(parts)} parts: {', '.join(smallest[:5])} cannot reach the rest"
            )

    def _parts(self) -> list[list[str]]:
        """Sets of nodes that reach each other. By hand, so that describing a fabric needs the standard library only."""
        neighbours: dict[str, list[str]] = {name: [] for name in self.by_name}
        for link in self.links:
            neighbours[link.a].append(link.b)
            neighbours[link.b].append(link.a)
        parts: list[list[str]] = []
        seen: set[str] = set()
        for start in neighbours:
            if start in seen:
                continue
            part, frontier = {start}, [start]
            while frontier:
                fresh = set(neighbours[frontier.pop()]) - part
                part |= fresh
                frontier.extend(fresh)
            seen |= part
            parts.append(sorted(part))
        return parts

    def _check_unique(self) -> None:
        for what, values in (
            ("node name", [node.name for node in self.nodes]),
            ("IP address", [str(node.ip.ip) for node in self.nodes if node.ip]),
            ("MAC address", [node.mac for node in self.nodes if node.mac]),
            ("dpid", [node.dpid for node in self.nodes if node.dpid is not None]),
            ("interface", list(self._interfaces())),
        ):
            seen: set[object] = set()
            for value in values:
                if value in seen:
                    raise TopologyError(f"duplicate {what} {value!r}")
                seen.add(value)

    def _interfaces(self) -> Iterator[str]:
        for link in self.links:
            yield link.a_interface
            yield link.b_interface

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @property
    def hosts(self) -> tuple[Node, ...]:
        """Nodes that are not switches."""
        return tuple(node for node in self.nodes if not node.is_switch)

    @property
    def switches(self) -> tuple[Node, ...]:
        """Nodes that forward by OpenFlow."""
        return tuple(node for node in self.nodes if node.is_switch)

    def with_role(self, role: Role) -> tuple[Node, ...]:
        """Nodes of one role, in order."""
        return tuple(node for node in self.nodes if node.role is role)

    @property
    def ends(self) -> tuple[Node, ...]:
        """Nodes that send and receive: hosts that are not only there to forward."""
        return tuple(node for node in self.hosts if node.role is not Role.FORWARDER)

    def links_of(self, name: str) -> tuple[Link, ...]:
        """Links that end at a node, in the order of its ports."""
        return self._links_of.get(name, ())

    @cached_property
    def _links_of(self) -> dict[str, tuple[Link, ...]]:
        found: dict[str, list[tuple[int, Link]]] = {}
        for link in self.links:
            found.setdefault(link.a, []).append((link.a_port, link))
            found.setdefault(link.b, []).append((link.b_port, link))
        return {
            name: tuple(link for _, link in sorted(links, key=lambda entry: entry[0])) for name, links in found.items()
        }

    def graph(self) -> networkx.MultiGraph:
        """The fabric as a multigraph: edges carry ``link`` (the `Link`) under the link's name as key."""
        import networkx

        graph = networkx.MultiGraph(name=self.name)
        for node in self.nodes:
            graph.add_node(node.name, node=node)
        for link in self.links:
            graph.add_edge(link.a, link.b, key=link.name, link=link)
        return graph


class FabricBuilder:
    """Adds nodes and links in order and numbers their ports; `build` checks and freezes the result."""

    def __init__(self, name: str, **parameters: object) -> None:
        self._name = name
        self._parameters = parameters
        self._nodes: list[Node] = []
        self._links: list[Link] = []
        self._switches = 0
        self._next_port: dict[str, int] = {}

    def add_host(
        self, name: str, ip: str, *, role: Role = Role.HOST, zone: str = "a", mac: str | None = None, tier: int = 2
    ) -> Node:
        """Add a host with its address, for example ``10.0.0.1/16``; its MAC derives from the address by default."""
        address = IPv4Interface(ip)
        mac = mac or "02:00:" + ":".join(f"{byte:02x}" for byte in address.ip.packed)
        node = Node(name, role, zone, address, mac, tier=tier)
        self._nodes.append(node)
        self._next_port.setdefault(name, 0)
        return node

    def add_switch(self, name: str, *, zone: str = "a", tier: int = 1) -> Node:
        """Add a switch; datapath ids count from 1 in order of creation."""
        self._switches += 1
        node = Node(name, Role.SWITCH, zone, dpid=self._switches, tier=tier)
        self._nodes.append(node)
        self._next_port.setdefault(name, 1)
        return node

    def add_link(self, a: str, b: str, spec: LinkSpec, *, ports: tuple[int, int] | None = None) -> Link:
        """Join two nodes.

        Args:
            a: One node.
            b: The other one.
            spec: Properties of the link.
            ports: Port numbers on them; None: the next after the highest that is taken.

        Raises:
            TopologyError: One of them was not added before.
        """
        for end in (a, b):
            if end not in self._next_port:
                raise TopologyError(f"a link names the unknown node {end!r}")
        if a == b:
            raise TopologyError(f"a link joins {a!r} to itself")
        a_port, b_port = ports or (self._next_port[a], self._next_port[b])
        link = Link(a, b, a_port, b_port, spec)
        self._next_port[a] = max(self._next_port[a], a_port + 1)
        self._next_port[b] = max(self._next_port[b], b_port + 1)
        self._links.append(link)
        return link

    def build(self) -> Fabric:
        """Check and freeze."""
        return Fabric(self._name, tuple(self._nodes), tuple(self._links), dict(self._parameters))
