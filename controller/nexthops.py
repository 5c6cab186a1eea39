"""All equally good next hops between all switches of a fabric, at once: numpy over switches times targets.

A path is best when it has the fewest links, then the lowest unloaded latency of a full-size frame: propagation plus
serialization at the link's true rate (Open vSwitch reports 10 Gbit/s whatever the link is, so rates come from the
fabric). Memory grows with directed links times targets, one byte each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulator.model.fabric import ETHERNET_HEADER_BYTES, Fabric, Link

UNREACHABLE = 32_767
_MOST_PATHS = 1 << 40
"""Path counts stop growing here, long before they matter."""


@dataclass(frozen=True)
class Edge:
    """A link as seen from one switch.

    Attributes:
        port: Port there.
        peer: Index of the switch at the other end.
        latency_ns: Unloaded latency of a full-size frame.
        rate_bps: Line rate.
        link: Name of the link.
    """

    port: int
    peer: int
    latency_ns: int
    rate_bps: int
    link: str


def latency_ns(link: Link) -> int:
    """Unloaded latency of a full-size frame on a link."""
    return link.spec.delay_ns + link.spec.serialization_ns(link.spec.mtu_bytes + ETHERNET_HEADER_BYTES)


def fabric_links(fabric: Fabric) -> list[Link]:
    """Links between two switches, in order."""
    return [link for link in fabric.links if fabric.by_name[link.a].is_switch and fabric.by_name[link.b].is_switch]


class NextHops:
    """Distances and next hops from every switch to every target.

    Args:
        fabric: The network.
        targets: Names of the switches to reach.
        down: Names of links that are not to be used.

    Attributes:
        index: Row of each switch, by name.
        column: Column of each target, by name.
        edges: Usable links of each switch, by row, in order of their ports.
        hops: Links to the target; int16, shape (switches, targets); `UNREACHABLE` where there is no path.
        paths: Number of best paths; int64, the same shape.
    """

    def __init__(self, fabric: Fabric, targets: Sequence[str], down: Collection[str] = frozenset()) -> None:
        self.index = {node.name: row for row, node in enumerate(fabric.switches)}
        self.column = {name: column for column, name in enumerate(targets)}
        self.edges = _edges(fabric, self.index, down)
        self.hops = _hops(self.edges, [self.index[name] for name in targets])
        self.paths: NDArray[np.int64]
        self._best: list[NDArray[np.bool_]]
        self.paths, self._best = _best(self.edges, self.hops)

    def reaches(self, switch: str, target: str) -> bool:
        """Whether there is a path."""
        return bool(self.hops[self.index[switch], self.column[target]] != UNREACHABLE)

    def distance(self, switch: str, target: str) -> int | None:
        """Links to the target, or None."""
        hops = int(self.hops[self.index[switch], self.column[target]])
        return None if hops == UNREACHABLE else hops

    def best(self, switch: str, target: str) -> list[Edge]:
        """All equally good first links to the target, in order of their ports."""
        row, column = self.index[switch], self.column[target]
        return [edge for edge, good in zip(self.edges[row], self._best[row][:, column], strict=True) if good]

    def nearer(self, switch: str, target: str) -> list[Edge]:
        """All first links after which the target is one link nearer, the best ones among them, by latency."""
        row, column = self.index[switch], self.column[target]
        distance = int(self.hops[row, column])
        if distance in (0, UNREACHABLE):
            return []
        return sorted(
            (edge for edge in self.edges[row] if self.hops[edge.peer, column] == distance - 1),
            key=lambda edge: (edge.latency_ns, edge.port),
        )


def _edges(fabric: Fabric, index: dict[str, int], down: Collection[str]) -> list[list[Edge]]:
    edges: list[list[Edge]] = [[] for _ in index]
    for link in fabric_links(fabric):
        if link.name in down:
            continue
        a, b, ns, bps = index[link.a], index[link.b], latency_ns(link), link.spec.rate_bps
        edges[a].append(Edge(link.a_port, b, ns, bps, link.name))
        edges[b].append(Edge(link.b_port, a, ns, bps, link.name))
    for own in edges:
        own.sort(key=lambda edge: edge.port)
    return edges


def _hops(edges: list[list[Edge]], targets: list[int]) -> NDArray[np.int16]:
    """Breadth-first search from all targets at once, a matrix product for each step."""
    count = len(edges)
    adjacent = np.zeros((count, count), dtype=np.float32)
    for row, own in enumerate(edges):
        for edge in own:
            adjacent[row, edge.peer] = 1
    hops = np.full((count, len(targets)), UNREACHABLE, dtype=np.int16)
    frontier = np.zeros((count, len(targets)), dtype=np.float32)
    frontier[targets, np.arange(len(targets))] = 1
    distance = 0
    while frontier.any():
        hops[frontier > 0] = distance
        distance += 1
        frontier = ((adjacent @ frontier > 0) & (hops == UNREACHABLE)).astype(np.float32)
    return hops


def _best(edges: list[list[Edge]], hops: NDArray[np.int16]) -> tuple[NDArray[np.int64], list[NDArray[np.bool_]]]:
    """Number of best paths and, for each switch, which (link, target) begin one; nearest switches first."""
    count, width = hops.shape
    latency = np.zeros((count, width), dtype=np.int64)
    paths = (hops == 0).astype(np.int64)
    best = [np.zeros((len(own), width), dtype=np.bool_) for own in edges]
    peers = [np.array([edge.peer for edge in own], dtype=np.intp) for own in edges]
    costs = [np.array([edge.latency_ns for edge in own], dtype=np.int64)[:, None] for own in edges]
    far = np.iinfo(np.int64).max
    reachable = hops[hops != UNREACHABLE]
    for distance in range(1, int(reachable.max(initial=0)) + 1):
        for row in np.flatnonzero((hops == distance).any(axis=1)):
            columns = np.flatnonzero(hops[row] == distance)
            grid = np.ix_(peers[row], columns)
            totals = np.where(hops[grid] == distance - 1, latency[grid] + costs[row], far)
            lowest = totals.min(axis=0)
            good = totals == lowest
            latency[row, columns] = lowest
            paths[row, columns] = np.minimum(np.where(good, paths[grid], 0).sum(axis=0), _MOST_PATHS)
            best[row][:, columns] = good
    return paths, best
