"""Which of two switches is nearer to a target: a total order for each target, so that going nearer never loops."""

from __future__ import annotations

import numpy as np

from controller.paths.graph import BoolArray, Graph, IntArray
from controller.paths.nexthops import UNREACHED, NextHops


def ranks(graph: Graph, found: NextHops) -> IntArray:
    """The place of each switch among all of them, nearest to the target first; targets x switches.

    Nearer is: fewer links, then less latency, then more equal ports to choose from, then earlier in the fabric.
    Switches that do not reach the target come last.
    """
    places = np.empty(found.hops.shape, dtype=np.int64)
    place = np.arange(len(graph.switches))
    for row in range(len(places)):
        choices = np.bincount(graph.source[found.onward[row]], minlength=len(place))
        hops = np.where(found.hops[row] == UNREACHED, np.iinfo(np.int64).max, found.hops[row])
        places[row, np.lexsort((place, -choices, found.latency_ns[row], hops))] = place
    return places


def nearer_edges(graph: Graph, found: NextHops, places: IntArray, rows: IntArray, edges: IntArray) -> BoolArray:
    """Which directed links lead to a switch that is nearer to some of the targets; those targets x links."""
    row, peers = rows[:, None], graph.target[edges]
    reached: BoolArray = found.hops[row, peers] != UNREACHED
    return reached & (places[row, peers] < places[row, graph.source[edges]])


def fastest_first(graph: Graph, found: NextHops, rows: IntArray, edges: IntArray) -> IntArray:
    """Positions in *edges* for some of the targets, those that lead there fastest first; those targets x links."""
    row, peers = rows[:, None], graph.target[edges]
    latency = found.latency_ns[row, peers] + graph.latency_ns[edges]
    ports = np.broadcast_to(graph.port[edges], latency.shape)
    order: IntArray = np.lexsort((ports, latency, found.hops[row, peers]), axis=-1)
    return order
