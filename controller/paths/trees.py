"""Planes: of all equally good paths exactly one for each plane, so that those to one target form a tree.

Unique shortest paths under symmetric weights have two properties that matter here: the way back is the way there
reversed, and a switch can follow them by destination alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from controller.paths.graph import Graph, IntArray
from controller.paths.nexthops import NextHops

NO_EDGE = -1
"""Where no best path goes on."""
_BLOCK = 1 << 20
_FAR = np.iinfo(np.int64).max // 2
_HALF = 32
_LOW = (1 << _HALF) - 1


@dataclass(frozen=True, eq=False)
class Weights:
    """How planes break ties: the smallest sum along the path wins, of ``turn``, then of the hash.

    Attributes:
        turn: Rotation; directed links x planes.
        hash_high, hash_low: 64-bit hash in two halves, so that sums fit; directed links x planes.
    """

    turn: IntArray
    hash_high: IntArray
    hash_low: IntArray


def plane_edges(graph: Graph, found: NextHops, weights: Weights, planes: int) -> NDArray[np.int32]:
    """The directed link by which each switch goes on to each target on each plane, or `NO_EDGE`.

    Args:
        graph: The switches.
        found: Their best paths.
        weights: How planes break ties.
        planes: How many planes, from the first.

    Returns:
        An array of targets x switches x planes: 4 bytes each.
    """
    weights = Weights(weights.turn[:, :planes], weights.hash_high[:, :planes], weights.hash_low[:, :planes])
    chosen = np.full((*found.hops.shape, planes), NO_EDGE, dtype=np.int32)
    rows = max(1, _BLOCK // max(1, planes * max(len(graph.source), len(graph.switches))))
    for begin in range(0, len(chosen), rows):
        part = slice(begin, begin + rows)
        _choose(graph, found.hops[part], found.onward[part], weights, chosen[part])
    return chosen


def _choose(
    graph: Graph, hops: IntArray, onward: NDArray[np.bool_], weights: Weights, chosen: NDArray[np.int32]
) -> None:
    """Fill a block of targets, nearest switches first."""
    switches, planes = len(graph.switches), weights.turn.shape[1]
    flat = chosen.reshape(-1, planes)
    turn, high, low = (np.zeros(flat.shape, dtype=np.int64) for _ in range(3))
    row, edge = np.nonzero(onward)
    distance = hops[row, graph.source[edge]]
    order = np.argsort(distance, kind="stable")
    rings = np.searchsorted(distance[order], np.arange(1, int(distance.max(initial=0)) + 2))
    for begin, end in pairwise(rings.tolist()):
        ring = order[begin:end]
        links = edge[ring]
        here = row[ring] * switches + graph.source[links]
        there = row[ring] * switches + graph.target[links]
        # Links stay in order of row, switch and port, so those of one switch are neighbours.
        starts = np.flatnonzero(np.r_[True, here[1:] != here[:-1]])
        switch = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(here)]))
        lows = low[there] + weights.hash_low[links]
        sums = (
            turn[there] + weights.turn[links],
            high[there] + weights.hash_high[links] + (lows >> _HALF),
            lows & _LOW,
        )
        tied = np.ones(lows.shape, dtype=np.bool_)
        for values in sums:
            least = np.minimum.reduceat(np.where(tied, values, _FAR), starts, axis=0)
            tied &= values == least[switch]
        # Still tied: the lowest port.
        places = np.arange(len(links))[:, None]
        best = np.minimum.reduceat(np.where(tied, places, _FAR), starts, axis=0)
        target = here[starts]
        flat[target] = links[best]
        plane = np.arange(planes)
        turn[target], high[target], low[target] = (values[best, plane] for values in sums)
