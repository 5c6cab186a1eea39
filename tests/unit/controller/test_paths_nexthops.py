"""Equal next hops of all switches at once: against networkx where it can, against invariants where it cannot."""

from __future__ import annotations

import tracemalloc

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.paths import compute
from controller.paths.graph import Graph, fabric_links, graph_of, latency_ns
from controller.paths.nexthops import UNREACHED, NextHops, next_hops
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec
from tests.support.controller_fabrics import random_regular

HOP = 10**12
"""More than any latency: a path with fewer links is better, whatever it takes."""
GBIT = 10**9
GIB = 1 << 30


def network(switches: int, links: list[tuple[int, int, int]]) -> Fabric:
    """A chain of switches with further links of given rates."""
    builder = FabricBuilder("random")
    for index in range(switches):
        builder.add_switch(f"s{index}")
    for index in range(1, switches):
        builder.add_link(f"s{index - 1}", f"s{index}", LinkSpec(100 * GBIT, 1000))
    for a, b, rate in links:
        if a % switches != b % switches:
            builder.add_link(f"s{a % switches}", f"s{b % switches}", LinkSpec(rate * GBIT, 1000))
    return builder.build()


_LINKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([40, 100, 400])), max_size=25)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 10), _LINKS, st.sets(st.integers(0, 20)))
def test_next_hops_are_those_of_networkx(switches: int, links: list[tuple[int, int, int]], cut: set[int]) -> None:
    """Distances, latencies, numbers of paths and first links, parallel links and failures included."""
    fabric = network(switches, links)
    every = fabric_links(fabric)
    down = {every[index].name for index in cut if index < len(every)}
    names = [node.name for node in fabric.switches]
    graph = graph_of(fabric)
    found = next_hops(graph, np.arange(switches), graph.alive(down), most_paths=10**6)
    reference = networkx.MultiGraph()
    reference.add_nodes_from(names)
    for link in every:
        if link.name not in down:
            reference.add_edge(link.a, link.b, key=link.name, cost=HOP + latency_ns(link))
    for row, target in enumerate(names):
        costs = networkx.single_source_dijkstra_path_length(reference, target, weight="cost")
        ways = {target: 1}
        for switch in sorted(costs, key=lambda name: costs[name])[1:]:
            best = [
                (key, peer)
                for _, peer, key, cost in reference.edges(switch, keys=True, data="cost")
                if costs[peer] + cost == costs[switch]
            ]
            ways[switch] = sum(ways[peer] for _, peer in best)
            column = graph.index[switch]
            edges = [edge for edge in graph.edges_of(column) if found.onward[row, edge]]
            assert {graph.links[graph.link[edge]].name for edge in edges} == {key for key, _ in best}
        for column, switch in enumerate(names):
            if switch not in costs:
                assert found.hops[row, column] == UNREACHED
                assert not any(found.onward[row, edge] for edge in graph.edges_of(column))
            else:
                assert divmod(costs[switch], HOP) == (found.hops[row, column], found.latency_ns[row, column])
                assert found.paths[row, column] == ways[switch]


def three_tiers(pods: int, leaves: int, aggregations: int, cores: int, hosts: int) -> Fabric:
    """A folded Clos network: every core switch reaches one aggregation switch of each pod."""
    builder = FabricBuilder("clos")
    spec = LinkSpec(400 * GBIT, 1000)
    for core in range(cores):
        builder.add_switch(f"k{core}", tier=0)
    count = 0
    for pod in range(pods):
        for index in range(aggregations):
            builder.add_switch(f"a{pod}_{index}", tier=1)
            for core in range(index, cores, aggregations):
                builder.add_link(f"a{pod}_{index}", f"k{core}", spec)
        for leaf in range(leaves):
            builder.add_switch(f"l{pod}_{leaf}", tier=2)
            for index in range(aggregations):
                builder.add_link(f"l{pod}_{leaf}", f"a{pod}_{index}", spec)
            for _ in range(hosts):
                count += 1
                builder.add_host(f"h{count}", f"10.{count >> 16}.{count >> 8 & 255}.{count & 255}/8")
                builder.add_link(f"h{count}", f"l{pod}_{leaf}", spec)
    return builder.build()


def check_invariants(graph: Graph, found: NextHops, targets: np.ndarray) -> None:
    """What makes distances shortest ones: none can be shortened over any link, and each is met over one."""
    source, peer = graph.source, graph.target
    assert (found.hops[np.arange(len(targets)), targets] == 0).all()
    for row in range(len(targets)):
        hops, latency = found.hops[row], found.latency_ns[row]
        assert (hops != UNREACHED).all()
        assert (hops[source] <= hops[peer] + 1).all()
        closer = hops[source] == hops[peer] + 1
        over = latency[peer] + graph.latency_ns
        assert (latency[source][closer] <= over[closer]).all()
        assert (found.onward[row] == (closer & (latency[source] == over))).all()
        reached = np.zeros(len(hops), dtype=np.bool_)
        reached[source[found.onward[row]]] = True
        reached[targets[row]] = True
        assert reached.all()


@pytest.mark.parametrize("kind", ["clos", "random"])
def test_a_thousand_switches_and_ten_thousand_hosts_fit_into_a_gibibyte(kind: str) -> None:
    """Peak memory of all paths to switches with hosts, planes and colours included, and that they are shortest."""
    if kind == "clos":
        fabric = three_tiers(pods=40, leaves=20, aggregations=4, cores=40, hosts=13)
    else:
        fabric = random_regular(switches=1000, degree=16, hosts=10_000)
    assert len(fabric.switches) == 1000
    assert len(fabric.hosts) >= 10_000
    tracemalloc.start()
    paths = compute(fabric)
    assert len(paths.colours) == len(fabric.hosts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < GIB
    targets = np.array([paths.layout.graph.index[name] for name in paths.targets])
    check_invariants(paths.layout.graph, paths.next_hops, targets)
    if kind == "random":
        # Links are the same both ways, so distances between all switches are.
        assert (paths.next_hops.hops == paths.next_hops.hops.T).all()
        assert (paths.next_hops.latency_ns == paths.next_hops.latency_ns.T).all()
        return
    near, far = paths.distance("l0_0", "l0_1"), paths.distance("l0_0", "l39_19")
    assert near is not None
    assert far is not None
    assert (near.links, far.links) == (2, 4)
    assert paths.next_ports("l0_0", "l39_19") == (1, 2, 3, 4)
    # Within a pod one path for each aggregation switch; between pods one for each core switch, more than are counted.
    row = paths.layout.rows["l0_0"]
    assert paths.next_hops.paths[row, paths.layout.graph.index["l0_1"]] == 4
    assert paths.planes == 16


def test_long_chains_are_no_special_case() -> None:
    """A thousand switches in a row: one ring for each switch, found in as many rounds."""
    fabric = network(1000, [])
    graph = graph_of(fabric)
    found = next_hops(graph, np.array([0, 999]))
    assert found.hops[0].tolist() == list(range(1000))
    assert found.hops[1].tolist() == list(range(999, -1, -1))
    assert int(found.onward.sum()) == 2 * 999


def test_fabrics_without_switches_or_links() -> None:
    """There is nothing to compute and nothing fails."""
    builder = FabricBuilder("cable")
    builder.add_host("a", "10.0.0.1/8")
    builder.add_host("b", "10.0.0.2/8")
    builder.add_link("a", "b", LinkSpec(GBIT, 0))
    paths = compute(builder.build())
    assert (paths.targets, paths.planes, paths.groups()) == ((), 1, ())
    builder = FabricBuilder("lonely")
    builder.add_switch("s")
    assert compute(builder.build()).groups() == ()
