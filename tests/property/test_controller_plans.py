"""What must hold for every fabric, design, pair of hosts and protocol: packets arrive, by the nodes of the design."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import reconcile
from controller.designs import Design, Plan, plan
from controller.flows import FlowRule
from controller.flowtable import Switch, overlap
from controller.pathtrace import Journey, Tracer
from controller.prediction import carriers, hosts_on
from controller.routing import Routes
from controller.spread import assign
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, Role
from tests.support.controller_fabrics import services_of
from tests.support.controller_strategies import fabrics

PORTS = (4420, 2049)
PROTOCOLS = [("icmp", 0), ("udp", 0), ("tcp", 4420), ("tcp", 2049), ("tcp", 22)]
STEERED = {("icmp", 0), ("udp", 0), ("tcp", 4420), ("tcp", 2049)}


def planned(fabric: Fabric, design: Design) -> Plan:
    return plan(fabric, design, services_of(fabric, *PORTS))


def roles(made: Plan, journey: Journey) -> tuple[list[Role], list[Role]]:
    """The roles that are visited there and back, ends left out."""
    by_name = made.fabric.by_name
    return (
        [by_name[name].role for name in hosts_on(made.fabric, journey.there)][1:-1],
        [by_name[name].role for name in hosts_on(made.fabric, journey.back)][1:-1],
    )


@settings(max_examples=60)
@given(fabrics(), st.sampled_from(Design), st.integers(1024, 65_535))
def test_every_packet_arrives_by_the_nodes_that_its_design_names(
    fabric: Fabric, design: Design, source_port: int
) -> None:
    """For all pairs and protocols: no loop, no loss, and exactly the design's hops, in order, in both directions."""
    made = planned(fabric, design)
    tracer = Tracer(made)
    for source, target in permutations(fabric.hosts, 2):
        ends = (source.role, target.role)
        for protocol, port in PROTOCOLS:
            journey = tracer.journey(source.name, target.name, protocol, port, source_port)
            assert journey.delivered, (source.name, target.name, protocol, journey.reason)
            there, back = roles(made, journey)
            steered = (protocol, port) in STEERED
            if design is Design.GATEWAY and steered and ends == (Role.GPU, Role.STORAGE):
                assert there == back == [Role.GATEWAY]
            elif design is Design.CONVENTIONAL and steered and ends == (Role.GPU, Role.STORAGE):
                assert there == [Role.ROUTER, Role.COMPUTE]
                assert back == [Role.COMPUTE, Role.ROUTER]
            elif ends == (Role.STORAGE, Role.GPU) and protocol != "tcp" and design is not Design.SHORTEST_PATH:
                # Without ports there is no telling requests from answers, so what storage begins goes the same way.
                expected = [Role.GATEWAY] if design is Design.GATEWAY else [Role.COMPUTE, Role.ROUTER]
                assert there == expected
                assert back == expected[::-1]
            elif protocol == "tcp" and port in PORTS and source.role is Role.ROUTER and design is Design.CONVENTIONAL:
                # A router's own connection cannot be told from its proxy's.
                assert there in ([], [Role.COMPUTE])
                assert target.role is Role.STORAGE or there == []
            else:
                assert there == back == []


@settings(max_examples=60)
@given(fabrics())
def test_gateway_traffic_visits_one_and_the_same_gateway_in_both_directions(fabric: Fabric) -> None:
    """The choice is per client, the same for every service, and even: no gateway of a zone has two clients more."""
    made = planned(fabric, Design.GATEWAY)
    tracer = Tracer(made)
    for client in fabric.with_role(Role.GPU):
        visited = set()
        for target in fabric.with_role(Role.STORAGE):
            for protocol, port in STEERED:
                journey = tracer.journey(client.name, target.name, protocol, port)
                assert hosts_on(fabric, journey.there)[1:-1] == hosts_on(fabric, journey.back)[1:-1]
                visited |= set(hosts_on(fabric, journey.there)[1:-1])
        assert visited == set(made.via[client.name])
        assert len(visited) == 1


@settings(max_examples=40)
@given(fabrics())
def test_storage_crosses_compute_nodes_in_the_conventional_design_only(fabric: Fabric) -> None:
    """Claim G09 as a prediction, from the rules."""
    assert carriers(planned(fabric, Design.GATEWAY), Role.COMPUTE) == frozenset()
    assert carriers(planned(fabric, Design.SHORTEST_PATH), Role.COMPUTE) == frozenset()
    conventional = planned(fabric, Design.CONVENTIONAL)
    assert carriers(conventional, Role.COMPUTE) == {names[1] for names in conventional.via.values()}
    assert carriers(conventional, Role.GATEWAY) == frozenset()


@settings(max_examples=100)
@given(fabrics())
def test_paths_are_shortest_and_symmetric(fabric: Fabric) -> None:
    """The way back is the way there reversed, and no path has more links than breadth-first search needs."""
    routes = Routes(fabric)
    neighbours: dict[str, set[str]] = {node.name: set() for node in fabric.nodes}
    for link in fabric.links:
        neighbours[link.a].add(link.b)
        neighbours[link.b].add(link.a)
    switches = {node.name for node in fabric.switches}
    for a, b in combinations([node.name for node in fabric.hosts], 2):
        path = routes.path(a, b)
        assert path == routes.path(b, a)[::-1]
        reached, links = {a}, 0
        while b not in reached:
            reached |= {peer for name in reached if name == a or name in switches for peer in neighbours[name]}
            links += 1
        assert len(path) == links - 1


@settings(max_examples=60)
@given(fabrics(), st.sampled_from(Design))
def test_rules_send_packets_along_the_routes(fabric: Fabric, design: Design) -> None:
    """Between any two nodes that packets visit in turn, they pass exactly the switches of the route, both ways."""
    made = planned(fabric, design)
    tracer = Tracer(made)
    for source, target in permutations(fabric.hosts, 2):
        journey = tracer.journey(source.name, target.name, "icmp")
        for leg in journey.there + journey.back:
            section: list[str] = []
            last = source.name
            for step in leg.steps:
                if fabric.by_name[step.node].is_switch:
                    section.append(step.node)
                elif section:
                    assert section == made.routes.path(last, step.node)
                    section = []
                last = last if fabric.by_name[step.node].is_switch else step.node


@settings(max_examples=60)
@given(fabrics(), st.sampled_from(Design))
def test_no_packet_matches_two_rules_of_the_same_priority(fabric: Fabric, design: Design) -> None:
    """OpenFlow leaves open which of two overlapping rules of equal priority wins, so there are none."""
    by_table: dict[tuple[int, int, int], list[FlowRule]] = {}
    for rule in planned(fabric, design).rules:
        by_table.setdefault((rule.dpid, rule.table, rule.priority), []).append(rule)
    for rules in by_table.values():
        for a, b in combinations(rules, 2):
            assert not overlap(a, b), f"{a} overlaps {b}"


@given(fabrics(), st.sampled_from(Design))
def test_a_plan_is_a_pure_function(fabric: Fabric, design: Design) -> None:
    """The same fabric gives the same rules in the same order."""
    assert planned(fabric, design).rules == planned(fabric, design).rules


@given(fabrics(), st.sampled_from(Design), st.sampled_from(Design), st.randoms(use_true_random=False))
def test_reconciling_any_table_gives_the_planned_one(fabric: Fabric, old: Design, new: Design, random: object) -> None:
    """From any subset of any other design's rules, the changes lead to exactly the plan; applied again, to nothing."""
    wanted, installed = planned(fabric, new), list(planned(fabric, old).rules)
    random.shuffle(installed)  # type: ignore[attr-defined]
    for switch in fabric.switches:
        assert switch.dpid is not None
        table = {rule.key: rule for rule in installed[: len(installed) // 2] if rule.dpid == switch.dpid}
        change = reconcile(switch.dpid, table.values(), wanted.rules_of(switch.dpid))
        table |= {rule.key: rule for rule in change.add}
        for rule in change.delete:
            del table[rule.key]
        assert set(table.values()) == set(wanted.rules_of(switch.dpid))
        again = reconcile(switch.dpid, table.values(), wanted.rules_of(switch.dpid))
        assert (again.clear, again.add, again.delete) == (False, (), ())


@given(fabrics(), st.sampled_from(Design))
def test_packets_and_bytes_are_conserved(fabric: Fabric, design: Design) -> None:
    """Whatever enters a switch of the model leaves it or is counted as dropped."""
    tracer = Tracer(planned(fabric, design))
    hosts = fabric.hosts
    for source, target in zip(hosts, hosts[1:] + hosts[:1], strict=True):
        if source is not target:
            tracer.journey(source.name, target.name, "udp")
    for switch in tracer.switches.values():
        assert _total(switch.received) == _total(switch.sent) + Counter(
            packets=switch.dropped.packets, bytes=switch.dropped.bytes
        )


def _total(counters: object) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters.values():  # type: ignore[attr-defined]
        total.update(packets=counter.packets, bytes=counter.bytes)
    return total


@given(st.lists(st.text(min_size=1), unique=True, max_size=40), st.lists(st.text(), unique=True, min_size=1))
def test_choices_are_even(names: list[str], candidates: list[str]) -> None:
    """No candidate has more than its share rounded up, and asking again gives the same."""
    chosen = assign(names, candidates, "test")
    assert set(chosen) == set(names)
    load = Counter(chosen.values())
    assert max(load.values(), default=0) <= -(-len(names) // len(candidates))
    assert assign(names, candidates, "test") == chosen


@given(fabrics(), st.sampled_from([Role.GATEWAY, Role.ROUTER, Role.COMPUTE]))
def test_a_missing_role_is_named(fabric: Fabric, role: Role) -> None:
    """A design without the nodes it needs is refused with the role's name, whatever else the fabric has."""
    gone = {node.name for node in fabric.with_role(role)}
    rest = Fabric(
        "rest",
        tuple(node for node in fabric.nodes if node.name not in gone),
        tuple(link for link in fabric.links if link.a not in gone and link.b not in gone),
    )
    design = Design.GATEWAY if role is Role.GATEWAY else Design.CONVENTIONAL
    with pytest.raises(ControllerError, match=repr(role.value)):
        planned(rest, design)


@given(fabrics(), st.sampled_from(Design))
def test_every_rule_set_is_loadable(fabric: Fabric, design: Design) -> None:
    """Keys are unique within each switch: nothing that the plan says replaces something else that it says."""
    made = planned(fabric, design)
    for switch in fabric.switches:
        assert switch.dpid is not None
        Switch(made.rules_of(switch.dpid))
