"""What holds for a fabric as it was built, whatever fails: where hosts are, colours, planes, and how planes break ties.

Every host has a *colour*; two hosts talk on the *plane* that is the sum of their colours modulo the number of planes.
Each plane breaks ties between equally good paths by a symmetric weight of its own: rotating over the switches of a tier
and zone, then a hash of the link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controller.paths.graph import Graph, IntArray, graph_of
from controller.paths.nexthops import NextHops, next_hops
from controller.paths.order import ranks
from controller.paths.trees import Weights, plane_edges
from controller.spread import assign
from emulator.model.fabric import Fabric
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


class Layout:
    """A fabric without failures.

    Attributes:
        fabric: The network.
        graph: Its switches.
        attachments: Where each host is attached. Hosts whose first interface does not end at a switch have none.
        targets: Names of the switches with hosts, in the fabric's order.
        rows: The position of each target in ``targets``.
        next_hops: Paths to the targets while nothing has failed.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.graph: Graph = graph_of(fabric)
        self.attachments: Mapping[str, Attachment] = _attachments(fabric)
        ends = {attachment.switch for attachment in self.attachments.values()}
        self.targets = tuple(name for name in self.graph.switches if name in ends)
        self.rows: Mapping[str, int] = {name: row for row, name in enumerate(self.targets)}
        self.next_hops: NextHops = next_hops(self.graph, self.target_indices, most_paths=MAX_PLANES)

    @cached_property
    def target_indices(self) -> IntArray:
        """The targets as switch numbers."""
        return np.array([self.graph.index[name] for name in self.targets], dtype=np.int64)

    @cached_property
    def planes(self) -> int:
        """As many as there are equal paths between two switches with hosts, at most `MAX_PLANES`."""
        return int(self.next_hops.paths[:, self.target_indices].max(initial=1))

    @cached_property
    def colours(self) -> Mapping[str, int]:
        """Each attached host's colour, below ``planes``: the hosts of each switch and role, evenly spread."""
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for node in self.fabric.hosts:
            if node.name in self.attachments:
                groups[self.attachments[node.name].switch, node.role.value].append(node.name)
        colours: dict[str, int] = {}
        for names in groups.values():
            colours |= assign(names, range(self.planes), "colour")
        return colours

    @cached_property
    def weights(self) -> Weights:
        """How each plane breaks ties."""
        # Ranks count within a tier of one zone: those are the switches that a packet chooses between.
        widths: Counter[tuple[str, int]] = Counter()
        ranks: list[int] = []
        for node in self.fabric.switches:
            ranks.append(widths[node.zone, node.tier])
            widths[node.zone, node.tier] += 1
        rank = np.array(ranks, dtype=np.int64)[:, None]
        width = np.array([widths[node.zone, node.tier] for node in self.fabric.switches], dtype=np.int64)[:, None]
        turns = (rank + np.arange(self.planes)) % width if ranks else np.zeros((0, self.planes), dtype=np.int64)
        hashes = np.array(
            [[derive(0, "plane", link.name, plane) for plane in range(self.planes)] for link in self.graph.links],
            dtype=np.uint64,
        ).reshape(len(self.graph.links), self.planes)[self.graph.link]
        return Weights(
            turns[self.graph.source] + turns[self.graph.target],
            (hashes >> np.uint64(32)).astype(np.int64),
            (hashes & np.uint64(0xFFFFFFFF)).astype(np.int64),
        )

    @cached_property
    def ranks(self) -> IntArray:
        """Place of each switch in the order of each target; targets x switches."""
        return ranks(self.graph, self.next_hops)

    @cached_property
    def trees(self) -> NDArray[np.int32]:
        """The directed link by which each switch goes on to each target on each plane; see `plane_edges`."""
        return plane_edges(self.graph, self.next_hops, self.weights, self.planes)


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
