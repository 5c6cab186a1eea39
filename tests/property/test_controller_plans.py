"""What must hold for every fabric, design, pair of hosts and protocol: packets arrive, by the nodes of the design."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.changes import Change, difference
from controller.designs import Design, Plan, plan
from controller.flows import ETH_TYPE_ARP, ETH_TYPE_LLDP, FlowRule, Purpose, purpose_of
from controller.flowtable import Switch, overlap
from controller.frame import ARP_REPLY, ARP_REQUEST, BROADCAST, Frame
from controller.paths import Paths, Spread
from controller.pathtrace import Journey, Outcome, Tracer
from controller.pipeline import trunk_ports
from controller.prediction import carriers, hosts_on
from controller.spread import assign
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, Node, Role
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


@settings(max_examples=40)
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
    routes = Paths(fabric)
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
def test_reconciling_any_table_gives_the_planned_one(fabric: Fabric, old: Design, new: Design, random: Random) -> None:
    """From any part of any other design's program, the changes lead to exactly the plan; applied again, to nothing."""
    before, wanted = planned(fabric, old), planned(fabric, new)
    for switch in fabric.switches:
        assert switch.dpid is not None
        have, want = before.program_of(switch.dpid), wanted.program_of(switch.dpid)
        rules = list(have.rules)
        random.shuffle(rules)
        held = Switch(rules[: len(rules) // 2], have.groups)
        held.apply(difference(switch.dpid, held.program, want))
        assert set(held.program.rules) == set(want.rules)
        assert set(held.program.groups) == set(want.groups)
        assert not difference(switch.dpid, held.program, want)


@given(fabrics(), st.sampled_from(Design))
def test_packets_and_bytes_are_conserved(fabric: Fabric, design: Design) -> None:
    """Whatever enters a switch of the model leaves it or is counted as dropped."""
    tracer = Tracer(planned(fabric, design))
    hosts = fabric.hosts
    for source, target in zip(hosts, hosts[1:] + hosts[:1], strict=True):
        if source is not target:
            tracer.journey(source.name, target.name, "udp")
    for switch in tracer.switches.values():
        counters = switch.counters
        assert _total(counters.received) == _total(counters.sent) + Counter(
            packets=counters.dropped.packets, bytes=counters.dropped.bytes
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
        switch_program = made.program_of(switch.dpid)
        empty = Switch()
        empty.apply(Change(switch.dpid, put=switch_program))
        assert empty.program.rules
        Switch(switch_program.rules, switch_program.groups)


def request(sender: Node, address: str, target: str = BROADCAST) -> Frame:
    """An ARP request as a host sends it."""
    assert sender.mac
    return Frame(
        sender.mac,
        target,
        ETH_TYPE_ARP,
        arp_op=ARP_REQUEST,
        arp_sha=sender.mac,
        arp_spa=str(sender.ip.ip) if sender.ip else None,
        arp_tpa=address,
    )


@settings(max_examples=40)
@given(fabrics(), st.sampled_from(Design))
def test_the_first_switch_answers_arp_for_everybody(fabric: Fabric, design: Design) -> None:
    """Whoever asks for whomever learns the right Ethernet address from one switch; nobody else hears of it.

    Nobody is told that its own address is taken, that an unknown one exists, or gets an answer passed on.
    """
    tracer = Tracer(planned(fabric, design))
    for asker, target in permutations(fabric.hosts, 2):
        assert target.ip
        for addressed in (BROADCAST, target.mac or ""):
            leg = tracer.leg(asker.name, request(asker, str(target.ip.ip), addressed))
            assert [step.what for step in leg.steps] == ["sends", "switches", "receives"]
            assert leg.end == asker.name
            assert (leg.frame.arp_op, leg.frame.arp_spa, leg.frame.arp_sha) == (2, str(target.ip.ip), target.mac)
            assert (leg.frame.arp_tpa, leg.frame.arp_tha) == (request(asker, "").arp_spa, asker.mac)
    for host in fabric.hosts:
        assert host.ip
        for address in (str(host.ip.ip), "192.0.2.1"):
            leg = tracer.leg(host.name, request(host, address))
            assert (leg.outcome, len(leg.steps)) == (Outcome.DROPPED, 2)
        unasked = replace(request(host, "10.0.0.1", fabric.hosts[0].mac or ""), arp_op=ARP_REPLY)
        assert len(tracer.leg(host.name, unasked).steps) == 2


@settings(max_examples=40)
@given(fabrics(), st.sampled_from(Design))
def test_lldp_reaches_the_controller_from_switches_only(fabric: Fabric, design: Design) -> None:
    """On each port that leads to a switch LLDP is reported and goes no further; on any other it is dropped."""
    made = planned(fabric, design)
    frame = Frame("02:00:00:00:00:77", "01:80:c2:00:00:0e", ETH_TYPE_LLDP)
    for switch in fabric.switches:
        assert switch.dpid is not None
        program = made.program_of(switch.dpid)
        model = Switch(program.rules, program.groups)
        trunks = set(trunk_ports(fabric, switch.name))
        for port in range(1, len(fabric.links_of(switch.name)) + 2):
            verdict = model.process(frame, port)
            purposes = [purpose_of(rule.cookie) for rule in verdict.matched]
            assert purposes == [Purpose.DISCOVER if port in trunks else Purpose.VIOLATE]
            assert (verdict.output, len(verdict.reports)) == (None, int(port in trunks))


@settings(max_examples=20)
@given(fabrics(), st.sampled_from(Design))
def test_spreading_flows_delivers_whatever_the_switches_hash(fabric: Fabric, design: Design) -> None:
    """With select groups every possible way is a shortest one and ends where the planned one ends."""
    made = plan(fabric, design, services_of(fabric, *PORTS), Spread.FLOWS)
    tracer, single = Tracer(made), Tracer(planned(fabric, design))
    for source, target in permutations(fabric.hosts, 2):
        frame = tracer.hosts.request(source.name, target.name, "udp", 1, 2)
        expected = single.leg(source.name, frame)
        for leg in tracer.ways(source.name, frame):
            assert (leg.outcome, leg.end) == (Outcome.DELIVERED, target.name), leg.reason
            assert len(leg.steps) == len(expected.steps)
        for flow_hash in (0, 7, 1 << 31):
            assert tracer.leg(source.name, frame, flow_hash) in tracer.ways(source.name, frame)


@settings(max_examples=12)
@given(fabrics(), st.sampled_from(Design), st.data())
def test_storage_and_compute_take_their_queues_where_links_have_two(
    fabric: Fabric, design: Design, data: st.DataObject
) -> None:
    """On a switch with such a link TCP of services leaves by queue 0 and all else by queue 1; elsewhere by none.

    Paths are those of the same fabric without queues.
    """
    chosen = data.draw(st.sets(st.sampled_from(range(len(fabric.links)))))
    links = tuple(
        replace(link, spec=replace(link.spec, storage_share=0.5)) if index in chosen else link
        for index, link in enumerate(fabric.links)
    )
    made = planned(Fabric("queues", fabric.nodes, links), design)
    with_queues = {end for index in chosen for end in (links[index].a, links[index].b)}
    tracer, plain = Tracer(made), Tracer(planned(fabric, design))
    for source, target in permutations(fabric.hosts, 2):
        for protocol, port in PROTOCOLS:
            journey = tracer.journey(source.name, target.name, protocol, port)
            expected = plain.journey(source.name, target.name, protocol, port)
            storage = protocol == "tcp" and port in PORTS and target.role is Role.STORAGE
            for leg, same in zip(journey.there + journey.back, expected.there + expected.back, strict=True):
                assert [step.node for step in leg.steps] == [step.node for step in same.steps]
                for step in leg.steps:
                    if fabric.by_name[step.node].is_switch:
                        queue = None if step.node not in with_queues else 0 if storage else 1
                        assert step.queue == queue, step
