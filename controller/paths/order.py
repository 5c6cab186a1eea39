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


def nearer_edges(graph: Graph, found: NextHops, places: IntArray, edges: IntArray) -> BoolArray:
    """Which directed links of one switch lead to one that is nearer to each target; targets x links."""
    peers = graph.target[edges]
    reached: BoolArray = found.hops[:, peers] != UNREACHED
    return reached & (places[:, peers] < places[:, graph.source[edges]])


def ports_by_distance(graph: Graph, found: NextHops, row: int, edges: IntArray) -> list[int]:
    """The ports of directed links, those that lead to the target fastest first."""
    peers = graph.target[edges]
    latency = found.latency_ns[row, peers] + graph.latency_ns[edges]
    ports: list[int] = graph.port[edges][np.lexsort((graph.port[edges], latency, found.hops[row, peers]))].tolist()
    return ports
