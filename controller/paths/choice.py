"""The groups that fit what is usable now, and where they differ from those that fitted before.

What is shunned is left out where that leads to the target, and else used: a switch without a careful way sends to one
that is nearer on the plain way, until one of them has a careful way, which only leads to others of that kind. So the
mixture has no circle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from controller.flows import Group
from controller.paths.graph import BoolArray, IntArray
from controller.paths.nexthops import UNREACHED
from controller.paths.order import nearer_edges
from controller.paths.paths import Paths, Spread


class Choice:
    """Groups of two kinds of paths of one fabric.

    Args:
        plain: Paths without what is down.
        careful: Paths without what is shunned as well; None: nothing is shunned.
    """

    def __init__(self, plain: Paths, careful: Paths | None = None) -> None:
        self.plain = plain
        self.careful = careful or plain

    def groups_at(self, switch: str, rows: IntArray) -> Iterator[Group]:
        """The groups of one switch to some of the targets, by number."""
        made = self.careful.groups_at(switch, rows)
        if self.careful is self.plain:
            yield from made
            return
        for careful, plain in zip(made, self.plain.groups_at(switch, rows), strict=True):
            yield careful if careful.buckets else plain

    def groups_that_differ(self, other: Choice) -> Iterator[Group]:
        """These groups, where those of another choice of the same fabric may be different ones."""
        marks = _differences(self.plain, other.plain)
        if self.careful is not self.plain or other.careful is not other.plain:
            marks |= _differences(self.careful, other.careful)
        graph, fabric = self.plain.layout.graph, self.plain.fabric
        for column in np.flatnonzero(marks.any(axis=0)):
            switch = graph.switches[column]
            if fabric.by_name[switch].dpid is not None:
                yield from self.groups_at(switch, np.flatnonzero(marks[:, column]))

    def used(self, rows: IntArray) -> BoolArray:
        """Which directed links the groups may lead over, to some of the targets; targets x directed links."""
        used = self.careful.used(rows)
        if self.careful is self.plain:
            return used
        source = self.plain.layout.graph.source
        reached = self.careful.next_hops.hops[rows][:, source] != UNREACHED
        return np.where(reached, used, self.plain.used(rows))

    def order(self, rows: IntArray) -> IntArray:
        """The switches so that all links of `used` lead to earlier ones, for some targets; targets x switches."""
        places = self.careful.ranks[rows]
        if self.careful is not self.plain:
            reached = self.careful.next_hops.hops[rows] != UNREACHED
            places = np.where(reached, places, places.shape[1] + self.plain.ranks[rows])
        order: IntArray = np.argsort(places, axis=1)
        return order


def _differences(one: Paths, other: Paths) -> BoolArray:
    """Where groups of two may differ; targets x switches."""
    graph = one.layout.graph
    marks = np.zeros((len(one.targets), len(graph.switches)), dtype=np.bool_)
    rows = np.union1d(one.changed_rows, other.changed_rows)
    edges = np.arange(len(graph.source))
    mine, theirs = one.next_hops.of(rows), other.next_hops.of(rows)
    apart = mine.onward != theirs.onward
    if one.spread is Spread.HOSTS:
        near = [nearer_edges(graph, paths.next_hops, paths.ranks, rows, edges) for paths in (one, other)]
        # Alternates are in order of distance.
        moved = (mine.hops != theirs.hops) | (mine.latency_ns != theirs.latency_ns)
        apart |= (near[0] != near[1]) | (moved[:, graph.target] & (near[0] | near[1]))
        marks[rows] = (one.trees[rows] != other.trees[rows]).any(axis=2)
        # A link that no best path crosses may be an alternate to any target.
        marks[:, graph.source[one.alive != other.alive]] = True
    row, edge = np.nonzero(apart)
    marks[rows[row], graph.source[edge]] = True
    return marks
