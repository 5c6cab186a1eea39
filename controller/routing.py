"""Shortest paths over the switches of a fabric, spread evenly over equal ones.

A path is best when it has the fewest links, then the lowest unloaded latency for a full-size frame. Where several are
equally good, the fabric is looked at in *planes*: each plane breaks ties by a symmetric weight of its own (rotating
over the switches of a tier and zone, then a hash of the link), so that within one plane every path is unique. Unique
shortest paths have two properties that matter here: the way back is the way there reversed, and all paths to one
destination form a tree, which a switch can follow by destination alone.

Every host has a *colour*; two hosts talk on the plane that is the sum of their colours modulo the number of planes.
So a switch needs at most one rule per colour and destination instead of one per pair of hosts.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from controller.nexthops import NextHops, fabric_links, latency_ns
from controller.spread import assign
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, Link
from emulator.rng import derive

MAX_PLANES = 16


class Spread(str, Enum):
    """How packets are spread over equal paths."""

    HOSTS = "hosts"
    """By the two hosts: planes, the same way there and back, every packet of a pair on one path."""
    FLOWS = "flows"
    """By the switches' hash of addresses and ports (ECMP)."""


@dataclass(frozen=True)
class Attachment:
    """Where a host meets the switches.

    Attributes:
        switch: Name of the switch.
        port: Port of that switch.
    """

    switch: str
    port: int


@dataclass(frozen=True)
class _Edge:
    """A link as seen from one switch."""

    port: int
    peer: str
    latency_ns: int
    weights: tuple[tuple[int, int], ...]


_Cost = tuple[int, int, int]


class Routes:
    """All paths of a fabric; computed once, constant afterwards.

    Args:
        fabric: The network.
        spread: How packets are spread over equal paths.
        down: Names of links that are not to be used. Colours and planes are those of the whole fabric all the same.

    Attributes:
        fabric, spread, down: As given.
        attachments: Where each host is attached. Hosts whose first interface does not end at a switch have none.
        targets: Names of the switches with hosts, in the fabric's order.
        next_hops: Distances and equal next hops between switches.
        planes: Number of planes: as many as there are equal paths between two switches with hosts, at most 16; one
            if flows are spread by the switches.
        colours: Each attached host's colour, below ``planes``.
    """

    def __init__(
        self,
        fabric: Fabric,
        spread: Spread = Spread.HOSTS,
        down: frozenset[str] = frozenset(),
        whole: Routes | None = None,
    ) -> None:
        self.fabric = fabric
        self.spread = spread
        self.down = down
        self.attachments: dict[str, Attachment] = whole.attachments if whole else _attachments(fabric)
        ends = {attachment.switch for attachment in self.attachments.values()}
        self.targets = tuple(node.name for node in fabric.switches if node.name in ends)
        self.next_hops = NextHops(fabric, self.targets, down)
        self.planes: int
        self.colours: dict[str, int]
        if whole:
            self.planes, self.colours = whole.planes, whole.colours
        else:
            if down:
                raise ControllerError("routes without some links are derived from those of the whole fabric")
            self.planes = _planes(self.next_hops, self.targets) if spread is Spread.HOSTS else 1
            self.colours = _colours(fabric, self.attachments, self.planes)
        self._trees: dict[str, dict[str, tuple[int, ...]]] = {}

    def without(self, down: Collection[str]) -> Routes:
        """The routes of the same fabric without some links."""
        return Routes(self.fabric, self.spread, frozenset(down), whole=self)

    @cached_property
    def _edges(self) -> dict[str, list[_Edge]]:
        links = [link for link in fabric_links(self.fabric) if link.name not in self.down]
        return _edges(self.fabric, links, self.planes)

    def plane(self, source: str, target: str) -> int:
        """The plane on which two hosts talk; the same in both directions."""
        return (self.colours[source] + self.colours[target]) % self.planes

    def plane_ports(self, switch: str, target: str) -> tuple[int, ...] | None:
        """The port by which a switch reaches another one on each plane, or None if it cannot."""
        if target not in self._trees:
            self._trees[target] = _trees(self._edges, target, self.planes)
        return self._trees[target].get(switch)

    def port_to(self, switch: str, host: str, plane: int) -> int | None:
        """The port by which a switch reaches a host on a plane, or None if it cannot."""
        attachment = self.attachments[host]
        if attachment.switch == switch:
            return attachment.port
        ports = self.plane_ports(switch, attachment.switch)
        return None if ports is None else ports[plane]

    def reaches(self, source: str, target: str) -> bool:
        """Whether switches alone lead from one host to the other."""
        if source not in self.attachments or target not in self.attachments:
            return False
        return self.next_hops.reaches(self.attachments[source].switch, self.attachments[target].switch)

    def path(self, source: str, target: str) -> list[str]:
        """The switches from one host to the other.

        Raises:
            ControllerError: Switches alone do not lead there.
        """
        if not self.reaches(source, target):
            raise ControllerError(f"no path over switches from {source} to {target}")
        peers: dict[tuple[str, int | None], str] = {}
        for link in self.fabric.links:
            peers[link.a, link.a_port] = link.b
            peers[link.b, link.b_port] = link.a
        plane = self.plane(source, target)
        path = [self.attachments[source].switch]
        while path[-1] != self.attachments[target].switch:
            path.append(peers[path[-1], self.port_to(path[-1], target, plane)])
        return path


def _attachments(fabric: Fabric) -> dict[str, Attachment]:
    """A host's address belongs to its first interface, so that is where it is attached."""
    first: dict[str, tuple[int, str, int]] = {}
    for link in fabric.links:
        for node, port, peer, peer_port in (
            (link.a, link.a_port, link.b, link.b_port),
            (link.b, link.b_port, link.a, link.a_port),
        ):
            if not fabric.by_name[node].is_switch and (node not in first or port < first[node][0]):
                first[node] = (port, peer, peer_port)
    return {
        host: Attachment(peer, peer_port)
        for host, (_, peer, peer_port) in first.items()
        if fabric.by_name[peer].is_switch
    }


def _colours(fabric: Fabric, attachments: dict[str, Attachment], planes: int) -> dict[str, int]:
    """Spread the hosts of each switch and role evenly over the colours."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in fabric.hosts:
        if node.name in attachments:
            groups[attachments[node.name].switch, node.role.value].append(node.name)
    colours: dict[str, int] = {}
    for names in groups.values():
        colours |= assign(names, range(planes), "colour")
    return colours


def _edges(fabric: Fabric, links: list[Link], planes: int) -> dict[str, list[_Edge]]:
    # Ranks count within a tier of one zone: those are the switches that a packet chooses between.
    ranks: dict[str, int] = {}
    widths: Counter[tuple[str, int]] = Counter()
    for node in fabric.switches:
        ranks[node.name] = widths[node.zone, node.tier]
        widths[node.zone, node.tier] += 1

    def turn(name: str, plane: int) -> int:
        node = fabric.by_name[name]
        return (ranks[name] + plane) % widths[node.zone, node.tier]

    edges: dict[str, list[_Edge]] = {node.name: [] for node in fabric.switches}
    for link in links:
        weights = tuple(
            (turn(link.a, plane) + turn(link.b, plane), derive(0, "plane", link.name, plane)) for plane in range(planes)
        )
        edges[link.a].append(_Edge(link.a_port, link.b, latency_ns(link), weights))
        edges[link.b].append(_Edge(link.b_port, link.a, latency_ns(link), weights))
    return edges


def _distances(edges: dict[str, list[_Edge]], target: str) -> dict[str, int]:
    """Links from every switch to the target, nearest first."""
    distances = {target: 0}
    waiting = deque([target])
    while waiting:
        switch = waiting.popleft()
        for edge in edges[switch]:
            if edge.peer not in distances:
                distances[edge.peer] = distances[switch] + 1
                waiting.append(edge.peer)
    return distances


def _trees(edges: dict[str, list[_Edge]], target: str, planes: int) -> dict[str, tuple[int, ...]]:
    """For every switch that reaches the target: its port on each plane."""
    distances = _distances(edges, target)
    costs: dict[str, list[_Cost]] = {target: [(0, 0, 0)] * planes}
    ports: dict[str, tuple[int, ...]] = {}
    for switch, distance in distances.items():
        if switch == target:
            continue
        nearer = [edge for edge in edges[switch] if distances[edge.peer] == distance - 1]
        best = [
            min(
                (
                    (
                        costs[edge.peer][plane][0] + edge.latency_ns,
                        costs[edge.peer][plane][1] + edge.weights[plane][0],
                        costs[edge.peer][plane][2] + edge.weights[plane][1],
                    ),
                    edge.port,
                )
                for edge in nearer
            )
            for plane in range(planes)
        ]
        costs[switch] = [cost for cost, _ in best]
        ports[switch] = tuple(port for _, port in best)
    return ports


def _planes(next_hops: NextHops, targets: Collection[str]) -> int:
    """The largest number of equally good paths between two switches with hosts, at most `MAX_PLANES`."""
    rows = [next_hops.index[name] for name in targets]
    return min(MAX_PLANES, int(next_hops.paths[rows].max(initial=1)))
