"""Paths of a fabric under one way of spreading and one set of failed links, and the groups that carry them out.

Rules send to groups by destination switch and plane, and a failure changes groups only: which groups exist, and their
numbers, follow from the fabric as it was built. Every port of a group leads to a switch that is *nearer* to the target
(see `controller.paths.order`), so whichever ports are alive, no packet ever comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from controller.flows import Group, ToGroup
from controller.paths.graph import BoolArray, IntArray, check_links
from controller.paths.groups import failover_group, select_group
from controller.paths.layout import MAX_PLANES, Attachment, Layout
from controller.paths.nexthops import UNREACHED, NextHops, without
from controller.paths.order import fastest_first, nearer_edges, ranks
from controller.paths.trees import NO_EDGE, plane_edges
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric


class Spread(str, Enum):
    """How packets are spread over equal paths."""

    HOSTS = "hosts"
    """By the two hosts: planes, the same way there and back, every packet of a pair on one path."""
    FLOWS = "flows"
    """By the switches' hash of addresses and ports (ECMP)."""


@dataclass(frozen=True, order=True)
class Distance:
    """How far a switch is from another.

    Attributes:
        links: Links on the way.
        latency_ns: Unloaded latency of a full-size frame, in ns.
    """

    links: int
    latency_ns: int


class Paths:
    """All paths of a fabric; constant once made.

    Args:
        fabric: The network.
        spread: How packets are spread over equal paths.
        down: Names of links that are not to be used.
        layout: What is known of the fabric already.

    Attributes:
        fabric, spread, down, layout: As given.
        attachments: Where each host is attached. Hosts whose first interface does not end at a switch have none.
        targets: Names of the switches with hosts, in the fabric's order. Only they are destinations.
        planes: Number of planes: as many as there are equal paths between two switches with hosts, at most 16; one
            if flows are spread by the switches. Failures do not change it.
        next_hops: Distances and equal next hops; rows are ``targets``, columns those of ``layout.graph``.
        alive: Which directed links may be used.
        changed_rows: The rows in which anything differs from the whole fabric's paths.
    """

    def __init__(
        self,
        fabric: Fabric,
        spread: Spread = Spread.HOSTS,
        down: Collection[str] = frozenset(),
        layout: Layout | None = None,
    ) -> None:
        check_links(fabric, down)
        self.fabric = fabric
        self.spread = spread
        self.down = frozenset(down)
        self.layout = layout or Layout(fabric)
        self.attachments: Mapping[str, Attachment] = self.layout.attachments
        self.targets = self.layout.targets
        self.planes = self.layout.planes if spread is Spread.HOSTS else 1
        self.next_hops: NextHops = self.layout.next_hops
        self._graph = self.layout.graph
        self.alive = self._graph.alive(self.down)
        self.changed_rows: IntArray = np.zeros(0, dtype=np.int64)
        if not self.alive.all():
            self.next_hops, self.changed_rows = without(
                self._graph, self.layout.target_indices, self.layout.next_hops, self.alive
            )

    def without(self, down: Collection[str]) -> Paths:
        """The paths of the same fabric with other links down."""
        return Paths(self.fabric, self.spread, down, self.layout)

    @property
    def colours(self) -> Mapping[str, int]:
        """Each attached host's colour, below ``planes``. Failures do not change it."""
        return self.layout.colours if self.spread is Spread.HOSTS else dict.fromkeys(self.attachments, 0)

    def plane(self, source: str, target: str) -> int:
        """The plane on which two hosts talk; the same in both directions."""
        if self.spread is Spread.FLOWS:
            return 0
        return (self.colours[source] + self.colours[target]) % self.planes

    # Switches

    def distance(self, switch: str, target: str) -> Distance | None:
        """How far a switch is from a switch with hosts; None: no path."""
        row, column = self._place(switch, target)
        hops = int(self.next_hops.hops[row, column])
        return None if hops == UNREACHED else Distance(hops, int(self.next_hops.latency_ns[row, column]))

    def next_ports(self, switch: str, target: str) -> tuple[int, ...]:
        """The ports of a switch that begin a best path to a switch with hosts, in order."""
        row, column = self._place(switch, target)
        edges = self._graph.edges_of(column)
        return tuple(int(self._graph.port[edge]) for edge in edges if self.next_hops.onward[row, edge])

    def plane_ports(self, switch: str, target: str) -> tuple[int, ...] | None:
        """The port by which a switch sends to another one on each plane, or None if it cannot."""
        row, column = self._place(switch, target)
        edges = self.trees[row, column]
        if edges[0] == NO_EDGE:
            return None
        shared = self.shared_planes(switch, target)
        return tuple(int(self._graph.port[edges[plane]]) for plane in shared)

    def shared_planes(self, switch: str, target: str) -> tuple[int, ...]:
        """For each plane the lowest one that takes the same port while nothing has failed: they share a group."""
        row, column = self._place(switch, target)
        edges = self.layout.trees[row, column, : self.planes].tolist()
        return tuple(edges.index(edge) for edge in edges)

    # Hosts

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
        return self.distance(self.attachments[source].switch, self.attachments[target].switch) is not None

    def path(self, source: str, target: str) -> list[str]:
        """The switches from one host to the other; where switches spread flows, one of the ways.

        Raises:
            ControllerError: Switches alone do not lead there.
        """
        if not self.reaches(source, target):
            raise ControllerError(f"no path over switches from {source} to {target}")
        plane, end = self.plane(source, target), self.attachments[target].switch
        path = [self.attachments[source].switch]
        while path[-1] != end:
            ports = self.plane_ports(path[-1], end)
            path.append(self.peers[path[-1], ports[plane] if ports else 0])
        return path

    @cached_property
    def peers(self) -> Mapping[tuple[str, int], str]:
        """The switch behind each port that leads to one."""
        graph = self._graph
        return {
            (graph.switches[source], port): graph.switches[target]
            for source, port, target in zip(
                graph.source.tolist(), graph.port.tolist(), graph.target.tolist(), strict=True
            )
        }

    # Groups

    def group_of(self, switch: str, target: str, plane: int) -> int:
        """The number of the group by which a switch sends to one with hosts on a plane; failures do not change it."""
        shared = self.shared_planes(switch, target)[plane]
        return 1 + self._graph.index[target] * MAX_PLANES + shared

    def target_of(self, number: int) -> str:
        """The switch that a group of this number leads to."""
        return self._graph.switches[(number - 1) // MAX_PLANES]

    def towards(self, switch: str, target: str, plane: int) -> ToGroup | None:
        """What sends a packet from a switch to another one on a plane; None: not even the whole fabric leads there."""
        row, column = self._place(switch, target)
        if self.layout.next_hops.hops[row, column] == UNREACHED:
            return None
        return ToGroup(self.group_of(switch, target, plane))

    def groups(self) -> tuple[Group, ...]:
        """The groups of all switches that have a datapath id, by dpid and number.

        Planes that take the same port while nothing has failed share a group, so there is one for each target and port
        that leads there. A group of a target that cannot be reached is empty and drops.
        """
        return self._groups

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        names = sorted((node.dpid, node.name) for node in self.fabric.switches if node.dpid is not None)
        return tuple(group for _, name in names for group in self.groups_of(name))

    def groups_of(self, switch: str) -> tuple[Group, ...]:
        """The groups of one switch that has a datapath id, by number."""
        return tuple(self.groups_at(switch, np.arange(len(self.targets))))

    def groups_at(self, switch: str, rows: IntArray) -> Iterator[Group]:
        """The same to some of the targets."""
        dpid = self.fabric.by_name[switch].dpid or 0
        graph, column = self._graph, self._graph.index[switch]
        edges = np.array(graph.edges_of(column), dtype=np.int64)
        onward = self.next_hops.onward[rows[:, None], edges]
        best = _chosen(onward, edges)
        ports = dict(zip(edges.tolist(), graph.port[edges].tolist(), strict=True))
        named = [(self.targets[row], 1 + int(self.layout.target_indices[row]) * MAX_PLANES) for row in rows]
        if self.spread is Spread.FLOWS:
            for (target, base), equal in zip(named, best, strict=True):
                if target != switch:
                    yield select_group(dpid, base, {ports[edge]: int(graph.rate_bps[edge]) for edge in equal}, target)
            return
        order = fastest_first(graph, self.next_hops, rows, edges)
        nearer = nearer_edges(graph, self.next_hops, self.ranks, rows, edges) & self.alive[edges] & ~onward
        others = _chosen(np.take_along_axis(nearer, order, axis=1), edges[order])
        # Planes that take the same port while nothing has failed share a group.
        planes = self.layout.trees[rows, column].tolist()
        mains = self.trees[rows, column].tolist()
        for (target, base), equal, more, whole, now in zip(named, best, others, planes, mains, strict=True):
            if target == switch:
                continue
            equals, alternates = [ports[edge] for edge in equal], [ports[edge] for edge in more]
            for plane in dict.fromkeys(map(whole.index, whole)):
                main = None if now[plane] == NO_EDGE else ports[now[plane]]
                yield failover_group(dpid, base + plane, main, equals, alternates, target, plane)

    def used(self, rows: IntArray) -> BoolArray:
        """Which directed links groups may lead over, to some of the targets; targets x directed links."""
        onward = self.next_hops.onward[rows]
        if self.spread is Spread.FLOWS:
            return onward
        edges = np.arange(len(self._graph.source))
        return onward | (nearer_edges(self._graph, self.next_hops, self.ranks, rows, edges) & self.alive)

    def _place(self, switch: str, target: str) -> tuple[int, int]:
        if target not in self.layout.rows:
            raise ControllerError(f"no hosts are attached to {target!r}, so there are no paths to it")
        if switch not in self._graph.index:
            raise ControllerError(f"there is no switch {switch!r} in the fabric {self.fabric.name!r}")
        return self.layout.rows[target], self._graph.index[switch]

    @cached_property
    def trees(self) -> NDArray[np.int32]:
        """As in `Layout`, with what failures changed."""
        whole = self.layout.trees[:, :, : self.planes]
        if not len(self.changed_rows):
            return whole
        trees = whole.copy()
        part = self.next_hops.of(self.changed_rows)
        trees[self.changed_rows] = plane_edges(self._graph, part, self.layout.weights, self.planes)
        return trees

    @cached_property
    def ranks(self) -> IntArray:
        """As in `Layout`, with what failures changed."""
        if not len(self.changed_rows):
            return self.layout.ranks
        places = self.layout.ranks.copy()
        places[self.changed_rows] = ranks(self._graph, self.next_hops.of(self.changed_rows))
        return places


def _chosen(marks: BoolArray, edges: IntArray) -> Iterator[list[int]]:
    """For each row the directed links that are marked, in order."""
    found = np.broadcast_to(edges, marks.shape)[marks].tolist()
    ends = np.cumsum(marks.sum(axis=1)).tolist()
    for begin, end in pairwise([0, *ends]):
        yield found[begin:end]


def compute(fabric: Fabric, spread: Spread | str = Spread.HOSTS, down: Collection[str] = frozenset()) -> Paths:
    """All paths of a fabric.

    Args:
        fabric: The network.
        spread: How packets are spread over equal paths.
        down: Names of links that are not to be used (`emulator.model.fabric.Link.name`).

    Raises:
        ControllerError: A link's name is unknown.
    """
    return Paths(fabric, Spread(spread), down)
