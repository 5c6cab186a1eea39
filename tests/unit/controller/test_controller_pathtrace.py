"""Following packets: tags, translation, private addresses, failures, all possible ways, copies, reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.changes import Change
from controller.designs import Design, Plan, plan
from controller.flows import (
    ETH_TYPE_IPV4,
    IP_PROTO_ICMP,
    IP_PROTO_TCP,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Output,
    PopVlan,
    Program,
    PushVlan,
    SetField,
    Table,
    ToController,
    ToGroup,
)
from controller.frame import BROADCAST, Frame
from controller.pathtrace import Leg, Outcome, Tracer
from controller.services import Service
from emulator.errors import ControllerError
from emulator.model.fabric import FabricBuilder, Role
from tests.support.controller_fabrics import SPEC, Hosts, leaf_spine, services_of


def pair(links: int = 2) -> Plan:
    """A client and a storage node behind a switch each, with several links between the switches."""
    builder = FabricBuilder("pair")
    builder.add_switch("s1")
    builder.add_switch("s2")
    for _ in range(links):
        builder.add_link("s1", "s2", SPEC)
    hosts = Hosts(builder)
    hosts.add("g", Role.GPU, "s1")
    hosts.add("st", Role.STORAGE, "s2")
    return plan(builder.build(), Design.SHORTEST_PATH, ())


PAIR = pair()
CLIENT, STORAGE = PAIR.fabric.by_name["g"], PAIR.fabric.by_name["st"]
CLIENT_PORT = STORAGE_PORT = 3
PRIVATE, ENDPOINT, SEGMENT = "192.168.0.5", "192.168.0.100", 42
ICMP = Frame(CLIENT.mac or "", STORAGE.mac or "", ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", ip_proto=IP_PROTO_ICMP)


def rule(dpid: int, table: Table, match: Match, *actions: object, goto: Table | None = None) -> FlowRule:
    return FlowRule(dpid, table, 1, match, actions, goto=goto)  # type: ignore[arg-type]


def translated() -> Program:
    """What a tenant's traffic to an endpoint is: tagged and translated on the first hop, and back on the last."""
    tcp = {"eth_type": ETH_TYPE_IPV4, "ip_proto": IP_PROTO_TCP}
    there = (PushVlan(SEGMENT), SetField("ipv4_src", "10.0.0.1"), SetField("ipv4_dst", "10.0.0.2"))
    there += (SetField("tcp_dst", 4420), SetField("eth_dst", STORAGE.mac or ""), Output(1))
    back = (PopVlan(), SetField("ipv4_src", ENDPOINT), SetField("tcp_src", 3260), SetField("ipv4_dst", PRIVATE))
    return Program(
        (
            rule(1, Table.ADMIT, Match(in_port=CLIENT_PORT, ipv4_dst=ENDPOINT, tcp_dst=3260, **tcp), *there),
            rule(2, Table.ADMIT, Match(in_port=1, vlan=SEGMENT), PopVlan(), Output(STORAGE_PORT)),
            rule(
                2,
                Table.ADMIT,
                Match(in_port=STORAGE_PORT, tcp_ack=True, tcp_src=4420, **tcp),
                *(PushVlan(SEGMENT), SetField("eth_dst", CLIENT.mac or ""), Output(1)),
            ),
            rule(1, Table.ADMIT, Match(in_port=1, vlan=SEGMENT), *back, Output(CLIENT_PORT)),
        )
    )


def test_translated_exchanges_arrive_at_who_owns_the_ethernet_address() -> None:
    """A member of a VPC asks an endpoint of its own range; the service sees fabric addresses; the answer is as asked.

    Verify also the tag on the way, and that without the ACK flag nothing comes back.
    """
    tracer = Tracer(PAIR, translated(), addresses={"g": PRIVATE})
    request = tracer.hosts.request("g", "st", "tcp", 5000, 3260)
    request = replace(request, ipv4_dst=ENDPOINT, eth_dst="02:ff:00:00:00:01")
    journey = tracer.exchange("g", request)
    assert journey.delivered, journey.reason
    [there], [back] = journey.there, journey.back
    assert [step.frame.vlan for step in there.steps] == [0, SEGMENT, 0, 0]
    assert (there.end, there.frame.ipv4_src, there.frame.ipv4_dst, there.frame.tcp_dst) == (
        "st",
        "10.0.0.1",
        "10.0.0.2",
        4420,
    )
    assert (back.end, back.frame.ipv4_src, back.frame.ipv4_dst, back.frame.tcp_src) == ("g", ENDPOINT, PRIVATE, 3260)
    assert back.frame.tcp_ack is True
    forged = replace(tracer.hosts.answer("st", there.frame), tcp_ack=False)
    assert tracer.leg("st", forged).outcome is Outcome.DROPPED
    # The client does not use its fabric address, so a packet that was not translated back is not its.
    undone = Program(tuple(item for item in translated().rules if item.match.in_port != 1 or item.dpid == 2))
    plain = rule(1, Table.ADMIT, Match(in_port=1), PopVlan(), Output(CLIENT_PORT))
    tracer = Tracer(PAIR, undone + Program((plain,)), addresses={"g": PRIVATE})
    assert tracer.exchange("g", request).reason == "g is not addressed and does not forward it"


def test_members_of_a_vpc_answer_to_whoever_sent() -> None:
    """Their addresses may be somebody else's in the fabric, so the neighbour is the sender, not the fabric's owner."""
    fabric = leaf_spine()
    one, other = fabric.by_name["g0"], fabric.by_name["g1"]
    stolen = str(fabric.by_name["st0"].ip.ip)  # type: ignore[union-attr]
    tracer = Tracer(plan(fabric, Design.SHORTEST_PATH, ()), addresses={"g0": stolen, "g1": "192.168.0.2"})
    journey = tracer.journey("g0", "g1", "udp", 53)
    assert journey.delivered, journey.reason
    assert (journey.there[0].frame.ipv4_src, journey.there[0].frame.udp_dst) == (stolen, 53)
    assert (journey.back[0].frame.eth_dst, journey.back[0].frame.eth_src) == (one.mac, other.mac)


def legs_end(legs: list[Leg]) -> set[tuple[Outcome, str]]:
    return {(leg.outcome, leg.end) for leg in legs}


def test_packets_pass_over_what_is_left_and_say_what_is_not() -> None:
    """A link that fails is left out by the group on both sides; without any the reason names the group or link."""
    tracer = Tracer(PAIR)
    names = [link.name for link in PAIR.fabric.links]
    used = tracer.leg("g", ICMP).steps[1].out_port
    tracer.down = frozenset({names[(used or 0) - 1]})
    leg = tracer.leg("g", ICMP)
    assert (leg.outcome, leg.steps[1].out_port) == (Outcome.DELIVERED, 3 - (used or 0))
    tracer.down = frozenset(names[:2])
    assert "is up" in tracer.leg("g", ICMP).reason
    tracer.down = frozenset(names[2:3])
    assert tracer.leg("g", ICMP).reason == "no link that is up leads on from g"
    tracer.down = frozenset(names[3:])
    assert tracer.leg("g", ICMP).reason == f"s2 drops it (port {STORAGE_PORT} is down)"
    tracer.down = frozenset()
    assert tracer.leg("g", ICMP).outcome is Outcome.DELIVERED
    with pytest.raises(ControllerError, match="no link 'x--y' in the fabric 'pair'"):
        tracer.down = frozenset({"x--y"})


def test_all_ways_of_a_select_group_are_told() -> None:
    """One way for each link that is up, whatever leads to loss among them."""
    program = Program(
        (
            rule(1, Table.ADMIT, Match(), ToGroup(1)),
            rule(2, Table.ADMIT, Match(in_port=1), Output(STORAGE_PORT)),
        ),
        (Group(1, 1, GroupKind.SELECT, (Bucket(1, 1), Bucket(2, 5))),),
    )
    tracer = Tracer(PAIR, program)
    assert legs_end(tracer.ways("g", ICMP)) == {(Outcome.DELIVERED, "st"), (Outcome.DROPPED, "s2")}
    tracer.down = frozenset({PAIR.fabric.links[1].name})
    assert legs_end(tracer.ways("g", ICMP)) == {(Outcome.DELIVERED, "st")}
    tracer.down = frozenset()
    taken = {tracer.leg("g", ICMP, value).steps[1].out_port for value in range(6)}
    assert taken == {1, 2}
    tracer.apply(Change(1, put=Program(groups=(Group(1, 1, GroupKind.SELECT, (Bucket(1, 1),)),))))
    assert legs_end(tracer.ways("g", ICMP)) == {(Outcome.DELIVERED, "st")}


def test_too_many_ways_are_refused() -> None:
    """A ring of select groups in which each choice doubles the ways is not followed for ever."""
    links = 12
    made = pair(links)
    spread = tuple(Bucket(port, 1) for port in range(1, links + 1))
    program = Program(
        tuple(rule(dpid, Table.ADMIT, Match(), ToGroup(1)) for dpid in (1, 2)),
        tuple(Group(dpid, 1, GroupKind.SELECT, spread) for dpid in (1, 2)),
    )
    with pytest.raises(ControllerError, match="more than 10000 possible ways"):
        Tracer(made, program).ways("g", ICMP)


def test_copies_reports_and_tagged_arrivals() -> None:
    """A packet that is copied is not followed; what the controller gets is told; hosts do not read tagged frames."""
    copied = Tracer(PAIR, Program((rule(1, Table.ADMIT, Match(), Output(1), ToController(64), Output(2)),)))
    leg = copied.leg("g", ICMP)
    assert (leg.outcome, leg.reason) == (Outcome.COPIED, "s1 sends 2 copies")
    assert [(report.max_bytes, report.rule.dpid) for report in leg.reports] == [(64, 1)]
    tagged = Program(
        (rule(1, Table.ADMIT, Match(), PushVlan(7), Output(1)), rule(2, Table.ADMIT, Match(), Output(STORAGE_PORT)))
    )
    assert Tracer(PAIR, tagged).leg("g", ICMP).reason == "st does not look into tagged frames"


def test_broadcasts_reach_whoever_they_are_sent_to() -> None:
    """If rules let a broadcast through, the host behind gets it: attacks are seen, not hidden by the model."""
    program = Program((rule(1, Table.ADMIT, Match(), Output(1)), rule(2, Table.ADMIT, Match(), Output(STORAGE_PORT))))
    leg = Tracer(PAIR, program).leg("g", replace(ICMP, eth_dst=BROADCAST))
    assert (leg.outcome, leg.end) == (Outcome.DELIVERED, "st")
    assert Tracer(PAIR, program).leg("g", replace(ICMP, eth_dst="02:00:00:00:00:99")).outcome is Outcome.DROPPED


def test_an_exchange_that_ends_elsewhere_says_where() -> None:
    """A hop that answers for the target is not a delivery."""
    fabric = leaf_spine()
    tracer = Tracer(plan(fabric, Design.SHORTEST_PATH, ()))
    request = replace(tracer.hosts.request("g0", "st0", "icmp", 0, 0), eth_dst=fabric.by_name["c0"].mac or "")
    assert tracer.exchange("g0", replace(request, ipv4_dst=None)).there[0].end == "c0"
    journey = tracer.exchange("g0", replace(request, ipv4_dst=None), target="st0")
    assert (journey.delivered, journey.reason) == (False, "it arrives at c0")


def test_a_proxy_that_is_asked_for_an_unknown_port_drops() -> None:
    """A terminating hop opens connections to services only, however the packet came there."""
    fabric = leaf_spine()
    made = plan(fabric, Design.CONVENTIONAL, services_of(fabric, 4420))
    router = fabric.by_name[made.via["g0"][0]]
    tracer = Tracer(made)
    request = replace(tracer.hosts.request("g0", "st0", "tcp", 5000, 22), eth_dst=router.mac or "")
    assert tracer.leg("g0", request).reason == f"{router.name} ends no connections to port 22"


def test_proxies_that_hand_a_connection_on_for_ever_are_found() -> None:
    """Two terminating hops that lead to each other: a loop of connections, not an endless walk."""
    fabric = leaf_spine(routers=1, computes=1)
    service = Service("disk", "st0", str(fabric.by_name["st0"].ip.ip), 4420)  # type: ignore[union-attr]
    made = plan(fabric, Design.CONVENTIONAL, (service,))
    here, back = made.routes.attachments["c0"], fabric.by_name["r0"]
    dpid = fabric.by_name[here.switch].dpid or 0
    loop = FlowRule(
        dpid,
        Table.STEER,
        999,
        Match(in_port=here.port),
        (SetField("eth_dst", back.mac or ""),),
        goto=Table.SPREAD,
    )
    journey = Tracer(made, made.program + Program((loop,))).journey("g0", "st0", "tcp", 4420)
    assert (journey.delivered, journey.reason) == (False, "terminated 8 times")
