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

if TYPE_CHECKING:
    import networkx

ETHERNET_OVERHEAD_BYTES = 24
"""Preamble and start delimiter (8), frame check sequence (4), inter-packet gap (12): IEEE 802.3 clauses 3, 4.4.2."""

ETHERNET_HEADER_BYTES = 14
MAX_RATE_BPS = 1_600_000_000_000
"""Fastest link: 1.6 Tbit/s, as in IEEE P802.3dj."""

MIN_STORAGE_SHARE = 0.01
"""Least part of a line for either class, see `LinkSpec.storage_share`: below, the other one would hold it for long."""

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


class Aqm(str, Enum):
    """How a link's queue drops or marks."""

    DROP_TAIL = "drop-tail"
    ECN_THRESHOLD = "ecn-threshold"


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
class LinkSpec:
    """The properties of one link, the same in both directions.

    Attributes:
        rate_bps: Line rate in bit/s, 1 to 1.6e12.
        delay_ns: Propagation delay in ns, one way.
        mtu_bytes: Largest IP packet.
        queue_packets: Packets that may wait for the line, not counting those on it. None: see ``queue_bdp``.
        queue_bdp: The same in bandwidth-delay products of ``bdp_rtt_ns`` (only if ``queue_packets`` is None).
        bdp_rtt_ns: Round-trip time that one bandwidth-delay product refers to.
        loss_ppm: Random loss in parts per million.
        overhead_bytes: Bytes on the line for each frame besides the Ethernet header and payload.
        true_packets: Segmentation offloads are off, every packet on the line has at most ``mtu_bytes``. With
            super-packets (False) up to 64 KiB travel as one, each hop stores and forwards them whole: only for bulk.
        aqm: Drop-tail, or mark ECN-capable packets above a queue threshold.
        ecn_threshold_packets: Mark above this many waiting packets (only with `Aqm.ECN_THRESHOLD`).
        storage_share: Where storage and compute traffic want the line at once, the part of it, by bytes, that storage
            gets; each has a queue of its own in the directions that leave from switches. None: one queue for all.
    """

    rate_bps: int
    delay_ns: int
    mtu_bytes: int = 9000
    queue_packets: int | None = None
    queue_bdp: float = 1.0
    bdp_rtt_ns: int = 100_000
    loss_ppm: int = 0
    overhead_bytes: int = ETHERNET_OVERHEAD_BYTES
    true_packets: bool = True
    aqm: Aqm = Aqm.DROP_TAIL
    ecn_threshold_packets: int = 65
    storage_share: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.rate_bps <= MAX_RATE_BPS:
            raise TopologyError(
                f"a link rate of {self.rate_bps} bit/s is impossible: 1 bit/s to 1.6 Tbit/s", key="rate"
            )
        if not 0 <= self.delay_ns <= 10 * 10**9:
            raise TopologyError(f"a link delay of {self.delay_ns} ns is impossible: 0 to 10 s", key="delay")
        if not 576 <= self.mtu_bytes <= 65_535:
            raise TopologyError(f"an MTU of {self.mtu_bytes} bytes is impossible: 576 to 65535", key="mtu")
        if self.queue_packets is not None and not 1 <= self.queue_packets <= 10_000_000:
            raise TopologyError(f"a queue of {self.queue_packets} packets is impossible: 1 to 10000000", key="queue")
        if not 0 < self.queue_bdp <= 10_000:
            raise TopologyError(f"a queue of {self.queue_bdp} BDP is impossible: above 0, up to 10000", key="queue")
        if not 0 <= self.loss_ppm <= 1_000_000:
            raise TopologyError(f"a loss of {self.loss_ppm} ppm is impossible: 0 to 1000000", key="loss")
        # Written so that it refuses NaN too.
        if self.storage_share is not None and not MIN_STORAGE_SHARE <= self.storage_share <= 1 - MIN_STORAGE_SHARE:
            raise TopologyError(
                f"a storage share of {self.storage_share} is impossible: {MIN_STORAGE_SHARE} to "
                f"{1 - MIN_STORAGE_SHARE} of the line",
                key="storage_share",
            )

    @property
    def waiting_packets(self) -> int:
        """Packets that may wait for the line: as stated, or from bandwidth-delay products of full-size frames."""
        if self.queue_packets is not None:
            return self.queue_packets
        frame_bits = 8 * (self.mtu_bytes + ETHERNET_HEADER_BYTES + self.overhead_bytes)
        return max(2, round(self.queue_bdp * self.rate_bps * self.bdp_rtt_ns / 1e9 / frame_bits))

    def serialization_ns(self, frame_bytes: int) -> int:
        """Time to put a frame on the line, in whole ns rounded down as the kernel does.

        Args:
            frame_bytes: Length with Ethernet header, without preamble, check sequence and gap.
        """
        return (frame_bytes + self.overhead_bytes) * 8 * 10**9 // self.rate_bps

    def line_time_ns(self, frame_bytes: int) -> float:
        """The same without rounding: what a frame takes on average while the line is busy."""
        return (frame_bytes + self.overhead_bytes) * 8e9 / self.rate_bps


@dataclass(frozen=True)
class Link:
    """A full-duplex link between two ports.

    Attributes:
        a, b: Node names.
        a_port, b_port: Port numbers on them.
        spec: Its properties.
    """

    a: str
    b: str
    a_port: int
    b_port: int
    spec: LinkSpec

    @property
    def a_interface(self) -> str:
        """Interface name at end *a*."""
        return f"{self.a}-eth{self.a_port}"

    @property
    def b_interface(self) -> str:
        """Interface name at end *b*."""
        return f"{self.b}-eth{self.b_port}"

    @property
    def name(self) -> str:
        """``a--b``, with ports where two nodes share several links is left to the caller."""
        return f"{self.a_interface}--{self.b_interface}"


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
