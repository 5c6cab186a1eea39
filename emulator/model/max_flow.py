"""What a fabric's links carry at most between two groups of its nodes, whatever the routes: max-flow, min-cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from emulator.model.fabric import Fabric

_FROM, _TO = "from everywhere", "to everywhere"
"""Nodes beside those of the fabric; no name has a space."""


def max_flow_bps(fabric: Fabric, sources: Iterable[str], targets: Iterable[str], broken: Collection[int] = ()) -> int:
    """Bit/s on the lines between groups of nodes that send and receive without limits (Ford and Fulkerson, 1956).

    Args:
        fabric: Has the links; each carries its rate in each direction.
        sources: Nodes that send.
        targets: Nodes that receive; none of them sends.
        broken: Links that carry nothing, by index in the fabric.
    """
    import networkx  # takes long to load

    graph = networkx.DiGraph()
    graph.add_nodes_from((_FROM, _TO))
    # An edge without capacity is one without a limit.
    graph.add_edges_from((_FROM, name) for name in sources)
    graph.add_edges_from((name, _TO) for name in targets)
    for number, link in enumerate(fabric.links):
        if number not in broken:
            for a, b in ((link.a, link.b), (link.b, link.a)):
                before = graph.edges[a, b]["capacity"] if graph.has_edge(a, b) else 0
                graph.add_edge(a, b, capacity=before + link.spec.rate_bps)
    return int(networkx.maximum_flow_value(graph, _FROM, _TO))
