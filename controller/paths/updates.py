"""The order in which groups change, so that no packet ever loops on the way from old paths to new ones.

Take one target, and call a group *done* when it is in its new state and so is every group that its new ports lead to.
All ports of done groups lead to done groups, and nearer in the new order, so a packet that meets one never meets the
same twice; until then it only meets groups in their old state, whose ports led nearer in the old order, so it does not
there either. The steps keep every group that has its new state done at every moment, because a group changes only
after all groups that its new ports lead to, whatever the order inside a step.

The groups of switches that can no longer reach the target become empty last, when none that still reaches it sends to
them. This is the rule behind ordered updates of forwarding tables (RFC 6976, section 4: routers update after those that
they are going to use); there ranks are times, here each step is confirmed before the next one begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from controller.flows import Group
from controller.paths.choice import Choice
from controller.paths.graph import BoolArray, Graph, IntArray
from controller.paths.paths import Paths
from emulator.errors import ControllerError


def phases(before: Paths, after: Paths) -> tuple[tuple[Group, ...], ...]:
    """The groups that differ, in their new state, step by step; see `steps`.

    Raises:
        ControllerError: The two are of different fabrics, or spread differently: then there is more to change than
            groups.
    """
    if before.layout is not after.layout and before.fabric != after.fabric:
        raise ControllerError(f"paths of {before.fabric.name!r} cannot be changed to paths of {after.fabric.name!r}")
    if before.spread is not after.spread:
        raise ControllerError("paths that are spread differently differ in rules, not only in groups")
    have = {(group.dpid, group.number): group for group in before.groups()}
    choice = Choice(after)
    differ = choice.groups_that_differ(Choice(before))
    return steps(choice, [group for group in differ if have[group.dpid, group.number] != group])


def steps(after: Choice, changed: Iterable[Group]) -> tuple[tuple[Group, ...], ...]:
    """Some groups, step by step.

    A step may begin when all switches have confirmed the one before; inside a step any order will do.

    Args:
        after: All groups as they should be.
        changed: Those that switches do not have yet, in their new state. What switches have is free of loops: paths, or
            what is left of an update that was broken off.
    """
    paths = after.plain
    columns = {node.dpid: paths.layout.graph.index[node.name] for node in paths.fabric.switches}
    placed = [(paths.layout.rows[paths.target_of(group.number)], columns[group.dpid], group) for group in changed]
    marks = np.zeros(paths.next_hops.hops.shape, dtype=np.bool_)
    for row, column, _ in placed:
        marks[row, column] = True
    # A switch that is the only one of its target waits for nobody.
    rows = np.flatnonzero(marks.sum(axis=1) > 1)
    depths = np.zeros(marks.shape, dtype=np.int64)
    if len(rows):
        depths[rows] = _depths(paths.layout.graph, after.order(rows), after.used(rows), marks[rows])
    found: dict[int, list[Group]] = defaultdict(list)
    emptied: list[Group] = []
    for row, column, group in placed:
        (found[int(depths[row, column])] if group.buckets else emptied).append(group)
    ordered = [found[step] for step in sorted(found)] + ([emptied] if emptied else [])
    return tuple(tuple(sorted(groups, key=lambda group: (group.dpid, group.number))) for groups in ordered)


def _depths(graph: Graph, order: IntArray, used: BoolArray, changed: BoolArray) -> IntArray:
    """For each switch: how many changed ones, at most, its packets may meet after it; targets x switches."""
    degree = np.diff(graph.first)
    # The directed links of each switch in a row of their own, filled up with those of a later one, which do not count.
    place = np.arange(int(degree.max(initial=0)))
    links = np.minimum(graph.first[:-1, None] + place, max(0, len(graph.source) - 1))
    there = place < degree[:, None]
    depths = np.zeros(changed.shape, dtype=np.int64)
    row = np.arange(len(order))[:, None]
    for switch in order.T:
        edges = links[switch]
        peers = graph.target[edges]
        after = np.where(used[row, edges] & there[switch], depths[row, peers] + changed[row, peers], 0)
        depths[row[:, 0], switch] = after.max(axis=1, initial=0)
    return depths
