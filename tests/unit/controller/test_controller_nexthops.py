"""Equal next hops of all switches at once: against networkx where it can, against invariants where it cannot."""

from __future__ import annotations

import tracemalloc

import networkx
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.nexthops import NextHops, fabric_links, latency_ns
from controller.routing import Routes, Spread
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec

HOP = 10**12
"""More than any latency: a path with fewer links is better, whatever it takes."""
GBIT = 10**9


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
    """Distances, numbers of paths and first links, parallel links and failures included."""
    fabric = network(switches, links)
    every = fabric_links(fabric)
    down = {every[index].name for index in cut if index < len(every)}
    names = [node.name for node in fabric.switches]
    found = NextHops(fabric, names, down)
    graph = networkx.MultiGraph()
    graph.add_nodes_from(names)
    for link in every:
        if link.name not in down:
            graph.add_edge(link.a, link.b, key=link.name, cost=HOP + latency_ns(link))
    for target in names:
        costs = networkx.single_source_dijkstra_path_length(graph, target, weight="cost")
        for switch in names:
            assert found.reaches(switch, target) == (switch in costs)
            if switch not in costs or switch == target:
                continue
            assert found.distance(switch, target) == costs[switch] // HOP
            best = {
                key
                for _, peer, key, cost in graph.edges(switch, keys=True, data="cost")
                if costs.get(peer, 10**18) + cost == costs[switch]
            }
            assert {edge.link for edge in found.best(switch, target)} == best
            assert best <= {edge.link for edge in found.nearer(switch, target)}


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


def test_a_thousand_switches_and_ten_thousand_hosts_fit_into_a_gibibyte() -> None:
    """Peak memory, and the numbers of paths that a Clos network has by construction."""
    fabric = three_tiers(pods=40, leaves=20, aggregations=4, cores=40, hosts=13)
    assert (len(fabric.switches), len(fabric.hosts)) == (1000, 10_400)
    tracemalloc.start()
    routes = Routes(fabric, Spread.FLOWS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 30
    found = routes.next_hops
    assert (found.distance("l0_0", "l0_1"), found.distance("l0_0", "l39_19")) == (2, 4)
    # Within a pod one path for each aggregation switch, between pods one for each core switch.
    assert found.paths[found.index["l0_0"], found.column["l0_1"]] == 4
    assert found.paths[found.index["l0_0"], found.column["l39_19"]] == 40
    assert [edge.port for edge in found.best("l0_0", "l39_19")] == [1, 2, 3, 4]
