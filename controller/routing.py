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
from collections.abc import Iterable
from dataclasses import dataclass

from controller.spread import assign
from emulator.errors import ControllerError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Fabric, Link
from emulator.rng import derive

MAX_PLANES = 16


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

    Attributes:
        attachments: Where each host is attached. Hosts whose first interface does not end at a switch have none.
        planes: Number of planes: as many as there are equal paths between two switches with hosts, at most 16.
        colours: Each attached host's colour, below ``planes``.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self.attachments = _attachments(fabric)
        links = [link for link in fabric.links if _is_fabric_link(fabric, link)]
        targets = {attachment.switch for attachment in self.attachments.values()}
        self.planes = min(MAX_PLANES, _most_paths(fabric, links, targets))
        self.colours = _colours(fabric, self.attachments, self.planes)
        edges = _edges(fabric, links, self.planes)
        self._ports = {target: _trees(edges, target, self.planes) for target in targets}

    def plane(self, source: str, target: str) -> int:
        """The plane on which two hosts talk; the same in both directions."""
        return (self.colours[source] + self.colours[target]) % self.planes

    def port_to(self, switch: str, host: str, plane: int) -> int | None:
        """The port by which a switch reaches a host on a plane, or None if it cannot."""
        attachment = self.attachments[host]
        if attachment.switch == switch:
            return attachment.port
        ports = self._ports[attachment.switch].get(switch)
        return None if ports is None else ports[plane]

    def reaches(self, source: str, target: str) -> bool:
        """Whether switches alone lead from one host to the other."""
        if source not in self.attachments or target not in self.attachments:
            return False
        return self.port_to(self.attachments[source].switch, target, 0) is not None

    def path(self, source: str, target: str) -> list[str]:
        """The switches from one host to the other.

        Raises:
            ControllerError: Switches alone do not lead there.
        """
        if not self.reaches(source, target):
            raise ControllerError(f"no path over switches from {source} to {target}")
        peers: dict[tuple[str, int | None], str] = {}
        for link in self._fabric.links:
            peers[link.a, link.a_port] = link.b
            peers[link.b, link.b_port] = link.a
        plane = self.plane(source, target)
        path = [self.attachments[source].switch]
        while path[-1] != self.attachments[target].switch:
            path.append(peers[path[-1], self.port_to(path[-1], target, plane)])
        return path


def _is_fabric_link(fabric: Fabric, link: Link) -> bool:
    return fabric.by_name[link.a].is_switch and fabric.by_name[link.b].is_switch


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
        latency_ns = link.spec.delay_ns + link.spec.serialization_ns(link.spec.mtu_bytes + ETHERNET_HEADER_BYTES)
        edges[link.a].append(_Edge(link.a_port, link.b, latency_ns, weights))
        edges[link.b].append(_Edge(link.b_port, link.a, latency_ns, weights))
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


def _most_paths(fabric: Fabric, links: list[Link], edge_switches: Iterable[str]) -> int:
    """The largest number of equally good paths between any two switches that have hosts."""
    edges = _edges(fabric, links, 0)
    ends = set(edge_switches)
    most = 1
    for target in ends:
        distances = _distances(edges, target)
        latency_ns = {target: 0}
        paths = {target: 1}
        for switch, distance in distances.items():
            if switch == target:
                continue
            nearer = [edge for edge in edges[switch] if distances[edge.peer] == distance - 1]
            best = min(latency_ns[edge.peer] + edge.latency_ns for edge in nearer)
            latency_ns[switch] = best
            paths[switch] = sum(paths[edge.peer] for edge in nearer if latency_ns[edge.peer] + edge.latency_ns == best)
            if switch in ends:
                most = max(most, paths[switch])
    return most
