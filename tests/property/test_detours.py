"""Routes around broken links: everything arrives that can, nothing circles, and what was whole stays as it was."""

from __future__ import annotations

from itertools import permutations

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import TopologyError
from emulator.model.detour import Detour
from emulator.model.fabric import Fabric, Role
from topologies import cascade, dragonfly, dual_plane, fat_tree, routing_of, torus3d, tree

FABRICS = {
    "torus": torus3d(3, 3, 2),
    "adaptive": torus3d(4, 3, 1, routing="adaptive"),
    "twisted": torus3d(2, 2, 4, twist=2),
    "flat twisted": torus3d(3, 6, 1, twist=3, routing="adaptive"),
    "tree": tree("2x2x2"),
    "fat": fat_tree(4),
    "planes": dual_plane(3, 2, spines=2),
    "dragonfly": dragonfly(a=2, p=1, h=1),
    "cascade": cascade(supernodes=2, shape="2x2x2", uplinks=2),
}


def connected(fabric: Fabric, broken: set[int]) -> dict[str, set[str]]:
    """Which cards reach which, if only switches, and cards that are wired to cards, forward."""
    whole = networkx.Graph()
    whole.add_nodes_from(node.name for node in fabric.nodes)
    wired = {
        end
        for link in fabric.links
        for end in (link.a, link.b)
        if all(fabric.by_name[one].role is not Role.FORWARDER for one in (link.a, link.b))
    }
    whole.add_edges_from((link.a, link.b) for number, link in enumerate(fabric.links) if number not in broken)
    reach = {}
    for card in fabric.ends:
        through = whole.copy()
        reached: set[str] = set()
        frontier = [card.name]
        while frontier:
            here = frontier.pop()
            if here in reached:
                continue
            reached.add(here)
            if here == card.name or fabric.by_name[here].role is Role.FORWARDER or here in wired:
                frontier.extend(through[here])
        reach[card.name] = reached
    return reach


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(FABRICS)), st.data())
def test_everything_arrives_that_can(name: str, data: st.DataObject) -> None:
    """Any links broken, cards cut off among them: first addresses are reached whenever there is a way at all."""
    fabric = FABRICS[name]
    routing = routing_of(fabric)
    assert routing is not None
    broken = data.draw(st.sets(st.integers(0, len(fabric.links) - 1), max_size=6))
    if data.draw(st.booleans()):
        dead = data.draw(st.sampled_from([node.name for node in fabric.ends]))
        broken |= {number for number, link in enumerate(fabric.links) if dead in (link.a, link.b)}
    detour = Detour(routing, broken)
    reach = connected(fabric, broken)
    for source in fabric.ends:
        for target in fabric.ends:
            if source is target:
                continue
            for address in routing.addresses(target.name)[:1]:
                if target.name not in reach[source.name]:
                    with pytest.raises(TopologyError, match="has no route to"):
                        detour.shares(source.name, target.name, address)
                    continue
                crossed = {passage.link for passage in detour.shares(source.name, target.name, address)}
                assert not crossed & broken
                assert not {passage.link for passage in detour.path(source.name, target.name, address)} & broken
    for node, changed in detour.changes.items():
        for address, ports in changed.items():
            assert ports != routing.ports(node, address)
    for card in detour.cut_off:
        assert fabric.by_name[card].role is Role.FORWARDER or reach[card] == {card}


def test_nothing_broken_changes_nothing() -> None:
    """And a way that is whole is kept."""
    routing = routing_of(FABRICS["torus"])
    assert routing is not None
    assert Detour(routing, ()).changes == {}
    one = Detour(routing, {0})
    link = FABRICS["torus"].links[0]
    assert one.path(link.a, link.b) != routing.path(link.a, link.b)
    untouched = [
        (source.name, target.name)
        for source in FABRICS["torus"].ends
        for target in FABRICS["torus"].ends
        if source is not target and 0 not in {hop.link for hop in routing.path(source.name, target.name)}
    ]
    assert untouched
    assert all(one.path(*pair) == routing.path(*pair) for pair in untouched)


@pytest.mark.parametrize("name", ["torus", "adaptive", "twisted", "flat twisted"])
def test_detours_of_tori_are_shortest_ways(name: str) -> None:
    """With any two links of a torus broken, no packet takes more links than it must."""
    fabric = FABRICS[name]
    routing = routing_of(fabric)
    assert routing is not None
    graph = networkx.MultiGraph()
    graph.add_edges_from((link.a, link.b, number) for number, link in enumerate(fabric.links))
    for other in range(1, len(fabric.links), 3):
        detour = Detour(routing, {0, other})
        left = graph.copy()
        left.remove_edges_from((link.a, link.b, number) for number in (0, other) for link in [fabric.links[number]])
        lengths = dict(networkx.all_pairs_shortest_path_length(left))
        for source, target in permutations([node.name for node in fabric.ends], 2):
            assert len(detour.path(source, target)) == lengths[source][target]
