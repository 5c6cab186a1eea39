"""Details of the designs that the properties do not pin down."""

from __future__ import annotations

import pytest

from controller.designs import Design, Plan, plan
from controller.flows import FlowRule, Match, Output, Program, Purpose, SetField, Table, purpose_of
from controller.pathtrace import Outcome, Tracer
from controller.prediction import hosts_on
from controller.services import Service
from controller.steering import port_buckets
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, FabricBuilder, Role
from tests.support.controller_fabrics import LONG, SPEC, Hosts, leaf_spine, services_of


@pytest.mark.parametrize(("count", "rules"), [(1, 1), (2, 2), (3, 16), (4, 4), (5, 32), (8, 8)])
def test_port_buckets_cover_every_port_once_and_evenly(count: int, rules: int) -> None:
    """Each source port fits exactly one bucket; no node gets more than one bucket more than another.

    Linux prefers even ports for connections, so the even ports alone are spread as well.
    """
    nodes = [f"c{index}" for index in range(count)]
    buckets = port_buckets(nodes)
    assert len(buckets) == rules
    shares = {}
    for step in (1, 2):
        hits = [
            [node for value, mask, node in buckets if (port & (mask or 0)) == value] for port in range(0, 65_536, step)
        ]
        assert {len(hit) for hit in hits} == {1}
        shares = {node: sum(hit == [node] for hit in hits) for node in nodes}
        assert max(shares.values()) <= min(shares.values()) * 1.2


def two_zones() -> Fabric:
    builder = FabricBuilder("zones")
    for zone in "ab":
        builder.add_switch(f"s{zone}", zone=zone)
    builder.add_link("sa", "sb", LONG)
    hosts = Hosts(builder)
    for zone in "ab":
        for index in range(4):
            hosts.add(f"g{zone}{index}", Role.GPU, f"s{zone}", zone)
        for index in range(2):
            hosts.add(f"gw{zone}{index}", Role.GATEWAY, f"s{zone}", zone)
            hosts.add(f"c{zone}{index}", Role.COMPUTE, f"s{zone}", zone)
    hosts.add("ra", Role.ROUTER, "sa", "a")
    hosts.add("st", Role.STORAGE, "sb", "b")
    return builder.build()


def test_hops_are_chosen_in_the_clients_zone_and_evenly() -> None:
    """Gateways and compute nodes of the own zone, two clients each; the only router serves both zones."""
    fabric = two_zones()
    gateway = plan(fabric, Design.GATEWAY, ()).via
    conventional = plan(fabric, "conventional", ()).via
    for client in fabric.with_role(Role.GPU):
        assert fabric.by_name[gateway[client.name][0]].zone == client.zone
        assert conventional[client.name][0] == "ra"
        assert fabric.by_name[conventional[client.name][1]].zone == client.zone
    chosen = [via[0] for via in gateway.values()]
    assert {name: chosen.count(name) for name in chosen} == dict.fromkeys(("gwa0", "gwa1", "gwb0", "gwb1"), 2)


def test_choices_do_not_change_when_others_join() -> None:
    """Storage nodes, services and compute nodes do not move clients between gateways."""
    small = plan(leaf_spine(storage=1, computes=1), Design.GATEWAY, ()).via
    fabric = leaf_spine(storage=5, computes=6)
    assert plan(fabric, Design.GATEWAY, services_of(fabric, 4420, 2049)).via == small


def test_a_fabric_without_clients_or_storage_is_routed_plainly() -> None:
    """Nothing is steered where there is no storage traffic."""
    for fabric in (leaf_spine(gpus=0), leaf_spine(storage=0)):
        for design in Design:
            rules = plan(fabric, design, ()).rules
            found = {purpose_of(rule.cookie) for rule in rules}
            assert Purpose.STEER not in found
            assert Purpose.EXEMPT not in found


def test_a_service_on_a_plain_host_makes_it_storage() -> None:
    """Traffic to any node that offers a service is storage traffic."""
    builder = FabricBuilder("plain")
    builder.add_switch("s")
    hosts = Hosts(builder)
    for name, role in (("g", Role.GPU), ("gw", Role.GATEWAY), ("h", Role.HOST), ("k", Role.HOST)):
        hosts.add(name, role, "s")
    fabric = builder.build()
    node = fabric.by_name["h"]
    assert node.ip
    tracer = Tracer(plan(fabric, Design.GATEWAY, (Service("file", "h", str(node.ip.ip), 2049),)))
    assert hosts_on(fabric, tracer.journey("g", "h", "tcp", 2049).there) == ["g", "gw", "h"]
    assert hosts_on(fabric, tracer.journey("g", "k", "tcp", 2049).there) == ["g", "k"]


def test_unreachable_hops_are_refused_with_names() -> None:
    """A gateway that no switch leads to cannot be part of a plan."""
    builder = FabricBuilder("apart")
    for name in ("s0", "s1"):
        builder.add_switch(name)
    hosts = Hosts(builder)
    hosts.add("g", Role.GPU, "s0")
    hosts.add("st", Role.STORAGE, "s0")
    hosts.add("gw", Role.GATEWAY, "s1")
    hosts.add("m", Role.HOST, "s0")
    builder.add_link("m", "s1", SPEC)
    with pytest.raises(ControllerError, match="storage traffic of g: no path over switches to gw"):
        plan(builder.build(), Design.GATEWAY, ())


def test_every_table_ends_in_a_default() -> None:
    """No packet falls off a table: the way through passes on, where it ends packets are dropped and counted."""
    made = plan(leaf_spine(), Design.CONVENTIONAL, ())
    for switch in made.fabric.switches:
        assert switch.dpid
        rules = made.program_of(switch.dpid).rules
        defaults = [rule for rule in rules if rule.priority == 0]
        assert [(rule.table, rule.goto, rule.drops) for rule in defaults] == [
            (Table.ADMIT, Table.STEER, False),
            (Table.ARP, None, True),
            (Table.STEER, Table.SPREAD, False),
            (Table.SPREAD, Table.ROUTE, False),
            (Table.ROUTE, None, True),
        ]
        with_default = {rule.table for rule in defaults}
        assert {rule.table for rule in rules} == with_default
        assert {rule.goto for rule in rules} <= {None, *with_default}


def with_rules(made: Plan, *rules: FlowRule) -> Program:
    """A plan's program with more rules."""
    return made.program + Program(rules)


def test_steering_is_where_the_sender_is_attached_and_names_its_port() -> None:
    """A packet with a forged source cannot be steered by somebody else's rules."""
    made = plan(leaf_spine(), Design.CONVENTIONAL, services_of(leaf_spine(), 4420))
    ports = {
        (made.fabric.by_name[attachment.switch].dpid, attachment.port)
        for attachment in made.routes.attachments.values()
    }
    steering = [rule for rule in made.rules if purpose_of(rule.cookie) is Purpose.STEER]
    assert steering
    assert all((rule.dpid, rule.match.in_port) in ports for rule in steering)


def test_faults_in_rules_are_told_apart() -> None:
    """The path model finds a missing rule, a loop, and a packet for somebody who does not forward."""
    made = plan(leaf_spine(), Design.GATEWAY, ())
    client, storage = "g0", "st1"
    via = made.via[client][0]
    gone = tuple(rule for rule in made.rules if not rule.note.startswith(f"to {via}"))
    lost = Tracer(made, Program(gone, made.groups)).journey(client, storage, "icmp")
    assert (lost.delivered, lost.there[0].outcome) == (False, Outcome.DROPPED)
    assert "drops it" in lost.reason
    idle = plan(leaf_spine(), Design.SHORTEST_PATH, ())
    misled = Tracer(idle, made.program).journey(client, storage, "icmp")
    assert misled.reason == f"{via} is not addressed and does not forward it"


def test_a_steering_loop_ends_with_the_time_to_live() -> None:
    """Two gateways that hand a packet to each other for ever are found, not followed."""
    made = plan(leaf_spine(gateways=2), Design.GATEWAY, ())
    fabric = made.fabric
    extra = []
    for here, there in (("gw0", "gw1"), ("gw1", "gw0")):
        attachment = made.routes.attachments[here]
        dpid = fabric.by_name[attachment.switch].dpid
        assert dpid
        match, mac = Match(in_port=attachment.port), fabric.by_name[there].mac
        actions = (SetField("eth_dst", mac or ""),)
        extra.append(FlowRule(dpid, Table.STEER, 900, match, actions, goto=Table.SPREAD))
    leg = Tracer(made, with_rules(made, *extra)).journey("g0", "st0", "udp").there[0]
    assert (leg.outcome, leg.reason[:27]) == (Outcome.LOOPED, "the packet's time to live e")


def test_a_forwarding_loop_between_switches_is_found() -> None:
    """Three switches that send a packet round are one line, not an endless walk."""
    builder = FabricBuilder("ring")
    for name in ("s0", "s1", "s2"):
        builder.add_switch(name)
    for a, b in (("s0", "s1"), ("s1", "s2"), ("s2", "s0")):
        builder.add_link(a, b, SPEC)
    hosts = Hosts(builder)
    hosts.add("h", Role.HOST, "s0")
    hosts.add("k", Role.HOST, "s1")
    made = plan(builder.build(), Design.SHORTEST_PATH, ())
    clockwise = {1: 1, 2: 2, 3: 2}
    rules = tuple(FlowRule(dpid, Table.ADMIT, 1, Match(), (Output(port),)) for dpid, port in clockwise.items())
    leg = Tracer(made, Program(rules)).journey("h", "k", "icmp").there[0]
    assert (leg.outcome, leg.reason) == (Outcome.LOOPED, "s1 sees the packet twice")


@pytest.mark.parametrize(
    ("source", "target", "protocol", "words"),
    [
        ("g9", "st0", "icmp", "no host 'g9'"),
        ("g0", "s0", "icmp", "no host 's0'"),
        ("g0", "st0", "sctp", "unknown protocol 'sctp'"),
    ],
)
def test_questions_about_nothing(source: str, target: str, protocol: str, words: str) -> None:
    """Unknown names and protocols are named."""
    with pytest.raises(ControllerError, match=words):
        Tracer(plan(leaf_spine(), Design.GATEWAY, ())).journey(source, target, protocol)
