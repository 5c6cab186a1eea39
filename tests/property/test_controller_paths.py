"""Paths, groups and their updates on any connected fabric, with any failures."""

from __future__ import annotations

from itertools import combinations

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.flows import Group, GroupKind
from controller.paths import Paths, Spread, compute
from controller.paths.choice import Choice
from controller.paths.graph import fabric_links, latency_ns
from controller.paths.nexthops import next_hops
from controller.paths.order import ranks
from controller.paths.trees import plane_edges
from controller.paths.updates import phases, steps
from emulator.model.fabric import Fabric, FabricBuilder, Node
from emulator.rng import derive
from tests.support.controller_fabrics import LONG, SPEC
from tests.support.controller_failures import Network
from tests.support.controller_strategies import fabrics


@st.composite
def meshes(draw: st.DrawFn, most: int = 9) -> Fabric:
    """Connected switches with links of three kinds; a host at some of them, at least two."""
    builder = FabricBuilder("mesh")
    count = draw(st.integers(2, most))
    for index in range(count):
        builder.add_switch(f"s{index}", tier=draw(st.integers(0, 1)))
    specs = st.sampled_from([SPEC, SPEC, LONG])
    for index in range(1, count):
        builder.add_link(f"s{draw(st.integers(0, index - 1))}", f"s{index}", draw(specs))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1])
    for a, b in draw(st.lists(pairs, max_size=14)):
        builder.add_link(f"s{a}", f"s{b}", draw(specs))
    homes = draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=6, unique=True))
    for number, home in enumerate(homes):
        builder.add_host(f"h{number}", f"10.0.0.{number + 1}/8")
        builder.add_link(f"h{number}", f"s{home}", SPEC)
    return builder.build()


def failures(fabric: Fabric) -> st.SearchStrategy[frozenset[str]]:
    """Any links between switches, few more often than many."""
    names = [link.name for link in fabric_links(fabric)]
    return st.frozensets(st.sampled_from(names), max_size=4) | st.frozensets(st.sampled_from(names))


@st.composite
def choices(draw: st.DrawFn, whole: Paths) -> Choice:
    """What is down, and what is shunned besides."""
    down, shunned = draw(failures(whole.fabric)), draw(failures(whole.fabric))
    plain = whole.without(down) if down else whole
    return Choice(plain, whole.without(down | shunned) if shunned else plain)


@settings(max_examples=60, deadline=None)
@given(meshes(), st.sampled_from(Spread), st.data())
def test_what_failures_leave_alone_is_not_computed_again(fabric: Fabric, spread: Spread, data: st.DataObject) -> None:
    """Distances, next hops, planes and order after failures are those that a computation from nothing gives."""
    whole = compute(fabric, spread)
    broken = whole.without(data.draw(failures(fabric)))
    graph, targets = whole.layout.graph, whole.layout.target_indices
    fresh = next_hops(graph, targets, broken.alive)
    assert (broken.next_hops.hops == fresh.hops).all()
    assert (broken.next_hops.latency_ns == fresh.latency_ns).all()
    assert (broken.next_hops.onward == fresh.onward).all()
    assert (broken.trees == plane_edges(graph, fresh, whole.layout.weights, broken.planes)).all()
    assert (broken.ranks == ranks(graph, fresh)).all()


@settings(max_examples=100, deadline=None)
@given(meshes(), st.sampled_from(Spread), st.data())
def test_no_group_differs_that_is_not_looked_at(fabric: Fabric, spread: Spread, data: st.DataObject) -> None:
    """From any failures to any others: all differences are found, and groups lead over links that the order allows."""
    whole = compute(fabric, spread)
    one, other = (data.draw(choices(whole)) for _ in range(2))
    have = {(group.dpid, group.number): group for group in groups_of(one)}
    want = {(group.dpid, group.number): group for group in groups_of(other)}
    looked_at = {(group.dpid, group.number): group for group in other.groups_that_differ(one)}
    assert looked_at.items() <= want.items()
    assert {key for key, group in want.items() if have[key] != group} <= looked_at.keys()
    rows = np.arange(len(whole.targets))
    graph, used, order = whole.layout.graph, other.used(rows), other.order(rows)
    for group in want.values():
        row, switch = whole.layout.rows[whole.target_of(group.number)], graph.index[fabric_switch(fabric, group.dpid)]
        ports = {bucket.port for bucket in group.buckets}
        assert ports <= {int(graph.port[edge]) for edge in graph.edges_of(switch) if used[row, edge]}
    places = np.argsort(order, axis=1)
    for row, edge in zip(*np.nonzero(used), strict=True):
        assert places[row, graph.target[edge]] < places[row, graph.source[edge]]


def groups_of(choice: Choice) -> list[Group]:
    """All groups of a choice."""
    pairs = zip(choice.careful.groups(), choice.plain.groups(), strict=True)
    return [careful if careful.buckets else plain for careful, plain in pairs]


def fabric_switch(fabric: Fabric, dpid: int) -> str:
    return next(node.name for node in fabric.switches if node.dpid == dpid)


def planes_of(paths: Paths) -> range:
    return range(paths.planes)


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_planes_choose_the_paths_that_they_always_chose(fabric: Fabric) -> None:
    """On each plane: of all paths with fewest links the one with least latency, then turn, then hash of its links."""
    paths = compute(fabric)
    graph = networkx.MultiGraph()
    graph.add_nodes_from(node.name for node in fabric.switches)
    for link in fabric_links(fabric):
        graph.add_edge(link.a, link.b, key=link.name, link=link)
    same: dict[tuple[str, int], list[Node]] = {}
    for node in fabric.switches:
        same.setdefault((node.zone, node.tier), []).append(node)

    def turn(name: str, plane: int) -> int:
        node = fabric.by_name[name]
        peers = same[node.zone, node.tier]
        return (peers.index(node) + plane) % len(peers)

    for start, target in combinations(paths.targets, 2):
        distance = networkx.shortest_path_length(graph, start, target)
        ways = [
            [graph.edges[edge]["link"] for edge in way]
            for way in networkx.all_simple_edge_paths(graph, start, target, cutoff=distance)
            if len(way) == distance
        ]
        for plane in range(paths.planes):
            best = min(
                ways,
                key=lambda way: (
                    sum(latency_ns(link) for link in way),
                    sum(turn(link.a, plane) + turn(link.b, plane) for link in way),
                    sum(derive(0, "plane", link.name, plane) for link in way),
                ),
            )
            for first, begin, end in ((best[0], start, target), (best[-1], target, start)):
                ports = paths.plane_ports(begin, end)
                assert ports is not None
                assert ports[plane] == (first.a_port if first.a == begin else first.b_port)


@settings(max_examples=100, deadline=None)
@given(meshes(), st.sampled_from(Spread), st.data())
def test_groups_lead_to_their_targets_and_never_loop(fabric: Fabric, spread: Spread, data: st.DataObject) -> None:
    """With any links known to be down and any others dead: no loop; with none dead, everything reachable is reached."""
    down = data.draw(failures(fabric))
    paths = compute(fabric, spread, down)
    network = Network(paths, paths.groups())
    alive = networkx.Graph()
    alive.add_nodes_from(node.name for node in fabric.switches)
    alive.add_edges_from((link.a, link.b) for link in fabric_links(fabric) if link.name not in down)
    for target in paths.targets:
        connected = networkx.node_connected_component(alive, target)
        for plane in planes_of(paths):
            network.check_no_loop(target, plane)
            network.check_no_loop(target, plane, data.draw(failures(fabric)))
            for node in fabric.switches:
                if node.name != target and node.name in connected:
                    assert not network.dead_ends(node.name, target, plane)
                elif node.name != target:
                    assert network.onward(node.name, target, plane, ()) == set()
                    assert paths.distance(node.name, target) is None


@settings(max_examples=100, deadline=None)
@given(meshes(), st.data())
def test_alternates_satisfy_rfc_5286(fabric: Fabric, data: st.DataObject) -> None:
    """Inequality 1 for every port of a failover group: the neighbour's shortest way does not come back.

    Costs are pairs of links and latency, added and compared as such. Ports without a better one come first.
    """
    paths = compute(fabric, Spread.HOSTS, data.draw(failures(fabric)))
    cost: dict[str, dict[str, tuple[int, int]]] = {}
    graph = networkx.Graph()
    for link in fabric_links(fabric):
        if link.name not in paths.down:
            known = graph.get_edge_data(link.a, link.b, {"cost": 10**18})["cost"]
            graph.add_edge(link.a, link.b, cost=min(known, 10**12 + latency_ns(link)))
    cost = dict(networkx.all_pairs_dijkstra_path_length(graph, weight="cost"))
    names = {node.dpid: node.name for node in fabric.switches}
    for group in paths.groups():
        assert group.kind is GroupKind.FAST_FAILOVER
        here, target = names[group.dpid], paths.target_of(group.number)
        assert len({bucket.port for bucket in group.buckets}) == len(group.buckets)
        equal = paths.next_ports(here, target)
        assert {bucket.port for bucket in group.buckets[: len(equal)]} == set(equal)
        for bucket in group.buckets:
            peer = paths.peers[here, bucket.port]
            assert cost[peer][target] < cost[peer][here] + cost[here][target]


@settings(max_examples=150, deadline=None)
@given(meshes(), st.sampled_from(Spread), st.data(), st.randoms(use_true_random=False))
def test_no_update_loops_or_drops_at_any_moment(
    fabric: Fabric, spread: Spread, data: st.DataObject, random: object
) -> None:
    """Failures and recoveries at once, groups changed one by one in any order inside a phase, further links dead.

    What reaches its target before and afterwards is dropped at no moment either, if no link is dead.
    """
    whole = compute(fabric, spread)
    before, after = (whole.without(data.draw(failures(fabric))) for _ in range(2))
    dead = data.draw(failures(fabric))
    network = Network(whole, before.groups())

    def check() -> None:
        for target in whole.targets:
            for plane in planes_of(whole):
                network.check_no_loop(target, plane)
                network.check_no_loop(target, plane, dead)
                for node in fabric.switches:
                    both = before.distance(node.name, target) and after.distance(node.name, target)
                    if both and node.name != target:
                        assert network.dead_ends(node.name, target, plane) == set()

    for phase in phases(before, after):
        changes = list(phase)
        random.shuffle(changes)  # type: ignore[attr-defined]
        for group in changes:
            network.change(group)
            check()
    assert network.groups == {(group.dpid, group.number): group for group in after.groups()}


@settings(max_examples=60, deadline=None)
@given(meshes(), st.data(), st.randoms(use_true_random=False))
def test_updates_may_be_broken_off_and_replaced(fabric: Fabric, data: st.DataObject, random: object) -> None:
    """From whatever an unfinished update left, the next one is as free of loops."""
    whole = compute(fabric)
    network = Network(whole, whole.groups())
    for _ in range(data.draw(st.integers(1, 4))):
        after = whole.without(data.draw(failures(fabric)))
        changes: list[Group] = []
        missing = [group for group in after.groups() if network.groups[group.dpid, group.number] != group]
        for phase in steps(Choice(after), missing):
            part = list(phase)
            random.shuffle(part)  # type: ignore[attr-defined]
            changes += part
        for group in changes[: data.draw(st.integers(0, len(changes)))]:
            network.change(group)
            for target in whole.targets:
                for plane in planes_of(whole):
                    network.check_no_loop(target, plane)


@settings(max_examples=60, deadline=None)
@given(meshes(), st.sampled_from(Spread), st.data())
def test_failures_change_no_numbers(fabric: Fabric, spread: Spread, data: st.DataObject) -> None:
    """Groups of the same switches and numbers exist whatever fails, and every rule's group is among them."""
    whole = compute(fabric, spread)
    broken = whole.without(data.draw(failures(fabric)))
    keys = [(group.dpid, group.number) for group in whole.groups()]
    assert keys == sorted(set(keys)) == [(group.dpid, group.number) for group in broken.groups()]
    for node in fabric.switches:
        for target in whole.targets:
            if target != node.name:
                for plane in planes_of(whole):
                    number = broken.group_of(node.name, target, plane)
                    assert number == whole.group_of(node.name, target, plane)
                    assert (node.dpid, number) in keys
                    assert whole.target_of(number) == target
                    assert broken.towards(node.name, target, plane) == whole.towards(node.name, target, plane)
    assert (broken.planes, dict(broken.colours)) == (whole.planes, dict(whole.colours))
    assert whole.without(()).groups() == whole.groups()
