"""All equally good next hops from all switches to all targets, in one breadth-first sweep of arrays.

A path is best when it has the fewest links, then the lowest unloaded latency of a full-size frame. The sweep goes
outwards from all targets of a block at once and looks at every pair of target and directed link once, so the work
grows with targets times links and does not depend on how far switches are apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.paths.graph import BoolArray, Graph, IntArray

UNREACHED = -1
_BLOCK = 1 << 21
"""Pairs of target and directed link that are looked at together: bounds what the sweep itself needs to 0.3 GiB."""
_FAR = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, eq=False)
class NextHops:
    """Distances and next hops. Rows are targets in the order that was asked for.

    Attributes:
        hops: Links from each switch to the target, or `UNREACHED`; targets x switches.
        latency_ns: Latency of the best paths, 0 where there is none; targets x switches.
        onward: Which directed links begin a best path from their source to the target; targets x directed links.
        paths: Number of best paths, at most what was asked for; targets x switches.
    """

    hops: IntArray
    latency_ns: IntArray
    onward: BoolArray
    paths: IntArray

    def of(self, rows: IntArray) -> NextHops:
        """Some of the targets."""
        return NextHops(self.hops[rows], self.latency_ns[rows], self.onward[rows], self.paths[rows])


def next_hops(graph: Graph, targets: IntArray, alive: BoolArray | None = None, most_paths: int = 1) -> NextHops:
    """Sweep outwards from the targets.

    Memory: about 25 bytes for each pair of target and switch and 1 for each pair of target and directed link, and
    0.3 GiB while it runs.

    Args:
        graph: The switches.
        targets: Switches to reach.
        alive: Which directed links may be used; None: all.
        most_paths: Paths are counted up to here.
    """
    switches, edges = len(graph.switches), len(graph.source)
    shape = (len(targets), switches)
    found = NextHops(
        np.full(shape, UNREACHED, dtype=np.int64),
        np.full(shape, _FAR, dtype=np.int64),
        np.zeros((len(targets), edges), dtype=np.bool_),
        np.zeros(shape, dtype=np.int64),
    )
    usable = np.arange(edges) if alive is None else np.flatnonzero(alive)
    first = np.searchsorted(graph.source[usable], np.arange(switches + 1))
    rows = max(1, _BLOCK // max(1, edges, switches))
    for begin in range(0, len(targets), rows):
        part = slice(begin, begin + rows)
        block = NextHops(found.hops[part], found.latency_ns[part], found.onward[part], found.paths[part])
        _sweep(graph, targets[part], usable, first, most_paths, block)
    found.latency_ns[found.hops == UNREACHED] = 0
    return found


def without(
    graph: Graph, targets: IntArray, whole: NextHops, alive: BoolArray, most_paths: int = 1
) -> tuple[NextHops, IntArray]:
    """The same with fewer links, from what holds with all of them.

    Only for targets that a lost link led to anything changes, so only they are swept again.

    Args:
        graph: The switches.
        targets: Switches to reach.
        whole: With all links.
        alive: Which directed links remain.
        most_paths: Paths are counted up to here.

    Returns:
        What holds then, and the rows that were swept again.
    """
    rows = np.flatnonzero(whole.onward[:, ~alive].any(axis=1))
    if not len(rows):
        return whole, rows
    part = next_hops(graph, targets[rows], alive, most_paths)
    found = NextHops(
        whole.hops.copy(), whole.latency_ns.copy(), whole.onward.copy(), np.minimum(whole.paths, most_paths)
    )
    found.hops[rows], found.latency_ns[rows] = part.hops, part.latency_ns
    found.onward[rows], found.paths[rows] = part.onward, part.paths
    return found, rows


def _sweep(
    graph: Graph, targets: IntArray, usable: IntArray, first: IntArray, most_paths: int, found: NextHops
) -> None:
    """Fill a block of rows, ring by ring; arrays are addressed as row times width plus place."""
    switches, edges = len(graph.switches), len(graph.source)
    hops, latency, paths = found.hops.reshape(-1), found.latency_ns.reshape(-1), found.paths.reshape(-1)
    onward = found.onward.reshape(-1)
    last = np.empty(len(hops), dtype=np.int64)
    peer, back = graph.target[usable], graph.reverse[usable]
    degree = np.diff(first)

    row, switch = np.arange(len(targets)), targets
    ring = row * switches + switch
    hops[ring], latency[ring], paths[ring] = 0, 0, 1
    distance = 0
    while len(ring):
        distance += 1
        count = degree[switch]
        # For every switch of the ring all its links: their places are the first one's, counted on.
        skipped = np.cumsum(count) - count
        edge = np.repeat(first[switch] - skipped, count) + np.arange(int(count.sum()))
        there = np.repeat(ring - switch, count) + peer[edge]
        fresh = np.flatnonzero(hops[there] == UNREACHED)
        there, edge = there[fresh], back[edge[fresh]]
        here = np.repeat(np.arange(len(ring)), count)[fresh]
        total = latency[ring][here] + graph.latency_ns[edge]
        np.minimum.at(latency, there, total)
        best = np.flatnonzero(total == latency[there])
        there, edge, here = there[best], edge[best], here[best]
        onward[row[here] * edges + edge] = True
        np.add.at(paths, there, paths[ring][here])
        hops[there] = distance
        # A switch that was found over several links goes into the next ring once.
        last[there] = np.arange(len(there))
        once = np.flatnonzero(last[there] == np.arange(len(there)))
        ring, row, switch = there[once], row[here[once]], graph.source[edge[once]]
        paths[ring] = np.minimum(paths[ring], most_paths)
