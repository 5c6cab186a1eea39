"""The in-memory switch: priorities, masks, metadata, rewriting, groups, meters, changes, counters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.changes import Change, difference
from controller.flows import (
    ETH_TYPE_ARP,
    ETH_TYPE_LLDP,
    IN_PORT,
    Action,
    ArpReply,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Meter,
    Output,
    PopVlan,
    Program,
    Purpose,
    PushVlan,
    SetField,
    SetQueue,
    Table,
    ToController,
    ToGroup,
    cookie_of,
    number_of,
    purpose_of,
)
from controller.flowtable import Frame, Sent, Switch, overlap
from emulator.errors import ControllerError
from tests.support.controller_flows import programs

A, B, C = (f"02:00:00:00:00:0{index}" for index in (1, 2, 3))
TCP = Frame(A, B, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", ip_proto=6, tcp_src=40_002, tcp_dst=4420, size_bytes=100)
ARP = Frame(
    A, "ff:ff:ff:ff:ff:ff", ETH_TYPE_ARP, arp_op=1, arp_sha=A, arp_spa="10.0.0.1", arp_tpa="10.0.0.2", size_bytes=42
)
FIRST = Table.ADMIT


def rule(table: Table, priority: int, match: Match, *actions: Action, **what: object) -> FlowRule:
    return FlowRule(1, table, priority, match, actions, **what)  # type: ignore[arg-type]


def output(match: Match, *actions: Action, port: int = 9) -> Switch:
    """A switch with one rule that outputs."""
    return Switch([rule(FIRST, 1, match, *actions, Output(port))])


def test_the_highest_priority_wins_whatever_it_looks_at() -> None:
    """A broad rule of high priority beats an exact one of low priority, and the other way round."""
    exact = Match(in_port=1, eth_dst=B, ip_proto=6, tcp_dst=4420)
    for broad_priority, expected in ((300, 7), (100, 8)):
        switch = Switch(
            [
                rule(FIRST, broad_priority, Match(ip_proto=6), Output(7)),
                rule(FIRST, 200, exact, Output(8)),
                rule(FIRST, 0, Match(), Output(9)),
            ]
        )
        assert switch.process(TCP, 1).output == expected
        assert switch.process(replace(TCP, ip_proto=17), 1).output == 9


def test_tables_are_passed_in_order_with_metadata_and_rewriting() -> None:
    """What an earlier table writes is what a later table matches and what leaves."""
    switch = Switch(
        [
            rule(Table.ADMIT, 1, Match(in_port=1), SetField("eth_dst", C), goto=Table.SPREAD),
            rule(Table.SPREAD, 1, Match(eth_src=A), write_metadata=3, goto=Table.ROUTE),
            rule(Table.ROUTE, 2, Match(eth_dst=C, metadata=3), Output(5)),
            rule(Table.ROUTE, 1, Match(eth_dst=C), Output(6)),
        ]
    )
    verdict = switch.process(TCP, 1)
    assert (verdict.output, verdict.frame.eth_dst, len(verdict.matched)) == (5, C, 3)
    assert switch.process(TCP, 2).output is None


@pytest.mark.parametrize(("port", "expected"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 1), (65_534, 2), (65_535, 2)])
@pytest.mark.parametrize("field", ["tcp_src", "tcp_dst", "udp_src", "udp_dst"])
def test_masked_ports(field: str, port: int, expected: int) -> None:
    """Only the masked bits count, in all four fields."""
    protocol = 6 if field.startswith("tcp") else 17
    switch = Switch(
        [
            rule(FIRST, 1, Match(**{"ip_proto": protocol, field: value, f"{field}_mask": 2}), Output(number))
            for value, number in ((0, 1), (2, 2))
        ]
    )
    frame = Frame(A, B, ip_proto=protocol, **{field: port})  # type: ignore[arg-type]
    assert switch.process(frame, 9).output == expected


def test_fields_of_other_protocols_are_not_looked_for() -> None:
    """A packet that is not TCP has no TCP port, even if a value is lying around; the same for ICMP, UDP and ARP."""
    for match, frame, other in (
        (Match(tcp_dst=4420), TCP, replace(TCP, ip_proto=17)),
        (Match(tcp_dst=4420), TCP, replace(TCP, eth_type=0x86DD)),
        (Match(tcp_ack=False), TCP, replace(TCP, ip_proto=1)),
        (Match(ipv4_src="10.0.0.0/8"), TCP, replace(TCP, eth_type=ETH_TYPE_LLDP)),
        (Match(arp_op=1), ARP, replace(ARP, eth_type=0x0800)),
        (Match(tcp_dst=4420), TCP, replace(TCP, vlan=5, inner_vlans=(6,))),
    ):
        assert output(match).process(frame, 1).output == 9
        assert output(match).process(other, 1).output is None


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(ipv4_src="10.0.0.0/31"), True),
        (Match(ipv4_src="10.0.0.2/31"), False),
        (Match(ipv4_dst="8.0.0.0/5", ipv4_src="10.0.0.1"), True),
        (Match(ipv4_dst="0.0.0.0/1"), True),
        (Match(ipv4_dst="128.0.0.0/1"), False),
        (Match(tcp_ack=False), True),
        (Match(tcp_ack=True), False),
        (Match(vlan=0), True),
        (Match(vlan=7), False),
        (Match(eth_type=0x0800, ip_proto=6), True),
        (Match(icmp_type=8), False),
    ],
    ids=str,
)
def test_prefixes_flags_and_tags(match: Match, fits: bool) -> None:
    """Each kind of field matches what it says and nothing else."""
    assert (output(match).process(TCP, 1).output == 9) is fits


def test_tags_are_pushed_matched_and_popped() -> None:
    """A tag is a field of its own; the Ethernet type behind it is still seen; tags nest."""
    switch = Switch(
        [
            rule(FIRST, 1, Match(vlan=0), PushVlan(7), goto=Table.ROUTE),
            rule(Table.ROUTE, 1, Match(vlan=7, eth_type=0x0800), Output(2), PopVlan(), Output(3), PushVlan(8)),
            rule(FIRST, 2, Match(vlan=9), PushVlan(10), Output(4), PopVlan(), PopVlan(), Output(5)),
        ]
    )
    verdict = switch.process(TCP, 1)
    assert verdict.sent == (Sent(2, replace(TCP, vlan=7)), Sent(3, TCP))
    assert verdict.frame.vlan == 8
    nested = switch.process(replace(TCP, vlan=9), 1).sent
    assert [(sent.frame.vlan, sent.frame.inner_vlans) for sent in nested] == [(10, (9,)), (0, ())]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eth_src", C),
        ("eth_dst", C),
        ("ipv4_src", "9.9.9.9"),
        ("ipv4_dst", "9.9.9.9"),
        ("tcp_src", 1),
        ("tcp_dst", 2),
    ],
)
def test_fields_are_rewritten_where_they_are(name: str, value: int | str) -> None:
    """A packet without the field stays as it is."""
    switch = output(Match(), SetField(name, value))
    assert switch.process(TCP, 1).frame == replace(TCP, **{name: value})  # type: ignore[arg-type]
    changed = switch.process(ARP, 1).frame
    assert changed == (replace(ARP, **{name: value}) if name.startswith("eth") else ARP)  # type: ignore[arg-type]


def test_arp_requests_become_answers() -> None:
    """The answer goes back by the port of arrival, with sender and target exchanged; other packets stay untouched."""
    switch = output(Match(), ArpReply("10.0.0.2", B), port=IN_PORT)
    [sent] = switch.process(ARP, 4).sent
    assert sent.port == 4
    assert sent.frame == replace(
        ARP, eth_src=B, eth_dst=A, arp_op=2, arp_sha=B, arp_spa="10.0.0.2", arp_tha=A, arp_tpa="10.0.0.1"
    )
    assert switch.process(TCP, 4).frame == TCP


def test_a_packet_never_goes_back_to_where_it_came_from() -> None:
    """As in OpenFlow, an output to the port of arrival drops, unless it is called that."""
    switch = output(Match(), port=4)
    assert switch.process(TCP, 4).output is None
    assert "port 4" in switch.process(TCP, 4).reason
    assert switch.process(TCP, 3).output == 4
    assert output(Match(), port=IN_PORT).process(TCP, 4).output == 4
    counters = switch.counters
    assert (counters.dropped.packets, counters.sent[4].bytes, counters.received[4].packets) == (2, 100, 2)


def test_fast_failover_takes_the_first_port_that_is_up() -> None:
    """Down ports are skipped in order; without any the packet is dropped; a missing group drops too."""
    group = Group(1, 5, GroupKind.FAST_FAILOVER, (Bucket(2), Bucket(3), Bucket(4)))
    switch = Switch([rule(FIRST, 1, Match(), ToGroup(5))], [group])
    for down, expected in (((), 2), ((2,), 3), ((3,), 2), ((2, 3), 4), ((2, 3, 4), None)):
        verdict = switch.process(TCP, 1, frozenset(down))
        assert verdict.output == expected
        assert switch.outcomes(TCP, 1, frozenset(down)) == [verdict]
        assert verdict.reason == ("" if expected else "no port of group 5 is up")
    assert switch.process(TCP, 2).output is None  # it would go back to where it came from
    assert switch.counters.buckets[5, 2].packets == 1
    assert Switch([rule(FIRST, 1, Match(), ToGroup(6))], [group]).process(TCP, 1).reason == "there is no group 6"


def test_select_groups_share_by_weight_among_live_ports() -> None:
    """Hashes are divided in proportion to the weights; a bucket of weight 0, or of a down port, gets none."""
    group = Group(1, 5, GroupKind.SELECT, (Bucket(2, 1), Bucket(3, 0), Bucket(4, 3), Bucket(6, 2)))
    switch = Switch([rule(FIRST, 1, Match(), ToGroup(5))], [group])
    taken = [switch.process(TCP, 1, flow_hash=value).output for value in range(60)]
    assert {port: taken.count(port) for port in taken} == {2: 10, 4: 30, 6: 20}
    taken = [switch.process(TCP, 1, frozenset({4}), value).output for value in range(60)]
    assert {port: taken.count(port) for port in taken} == {2: 20, 6: 40}
    assert {verdict.output for verdict in switch.outcomes(TCP, 1)} == {2, 4, 6}
    assert [verdict.output for verdict in switch.outcomes(TCP, 1, frozenset({2, 4}))] == [6]


def test_outcomes_are_all_combinations_of_choices() -> None:
    """Two select groups on one packet's way: the product of their live buckets, and nothing is counted."""
    groups = [Group(1, number, GroupKind.SELECT, (Bucket(number, 1), Bucket(number + 1, 1))) for number in (10, 20)]
    switch = Switch(
        [rule(FIRST, 1, Match(), ToGroup(10), goto=Table.ROUTE), rule(Table.ROUTE, 1, Match(), ToGroup(20))], groups
    )
    ways = {tuple(sent.port for sent in verdict.sent) for verdict in switch.outcomes(TCP, 1)}
    assert ways == {(a, b) for a in (10, 11) for b in (20, 21)}
    assert not switch.counters.received


def test_meters_count_and_drop_when_told_so() -> None:
    """A meter whose rate is exceeded ends the packet's way, the controller's copy included."""
    switch = Switch([rule(FIRST, 1, Match(), ToController(99), Output(2), meter=1)], meters=[Meter(1, 1, 100, 10)])
    verdict = switch.process(TCP, 1)
    assert [(report.max_bytes, report.frame) for report in verdict.reports] == [(99, TCP)]
    limited = switch.process(TCP, 1, exceeded={1})
    assert (limited.output, limited.reports, limited.reason) == (None, (), "meter 1 is exceeded")
    assert switch.counters.meters[1].packets == 2


def test_a_queue_is_chosen_for_later_outputs() -> None:
    """A queue stays chosen through the tables."""
    switch = Switch(
        [
            rule(FIRST, 1, Match(), Output(2), SetQueue(1), goto=Table.ROUTE),
            rule(Table.ROUTE, 1, Match(), Output(3), SetQueue(0), Output(4)),
        ]
    )
    assert [(sent.port, sent.queue) for sent in switch.process(TCP, 1).sent] == [(2, None), (3, 1), (4, 0)]


def test_an_empty_switch_drops_and_counts() -> None:
    """No rule, no output."""
    switch = Switch()
    verdict = switch.process(TCP, 1)
    assert (verdict.matched, verdict.reason) == ((), "no rule of table admit matches")
    assert (switch.counters.dropped.packets, switch.counters.dropped.bytes) == (1, 100)


def test_rules_count() -> None:
    """Every rule that matched counts the packet."""
    first = rule(FIRST, 1, Match(), goto=Table.ROUTE)
    last = rule(Table.ROUTE, 1, Match(), Output(2))
    switch = Switch([first, last])
    for _ in range(3):
        switch.process(TCP, 1)
    assert [(counter.packets, counter.bytes) for counter in map(switch.counters.rules.get, (first.key, last.key))] == [
        (3, 300),
        (3, 300),
    ]


def test_what_has_the_same_key_is_refused() -> None:
    """A switch would silently keep the second one only."""
    with pytest.raises(ControllerError, match="same key"):
        Switch([rule(FIRST, 1, Match(in_port=1), Output(2)), rule(FIRST, 1, Match(in_port=1), Output(3))])
    group = Group(1, 5, GroupKind.SELECT, ())
    with pytest.raises(ControllerError, match="same number"):
        Switch(groups=[group, replace(group, kind=GroupKind.FAST_FAILOVER)])
    with pytest.raises(ControllerError, match="same number"):
        Switch(meters=[Meter(1, 1, 1, 1), Meter(1, 1, 2, 2)])


def test_changes_are_as_strict_as_a_switch() -> None:
    """Rules need their groups and meters, and go with them."""
    user = rule(FIRST, 1, Match(), ToGroup(5), meter=1)
    group, meter = Group(1, 5, GroupKind.FAST_FAILOVER, (Bucket(2),)), Meter(1, 1, 10, 1)
    switch = Switch()
    with pytest.raises(ControllerError, match="no group 5 for the rule"):
        switch.apply(Change(1, put=Program((user,))))
    with pytest.raises(ControllerError, match="no meter 1 for the rule"):
        switch.apply(Change(1, put=Program((user,), (group,))))
    switch.apply(Change(1, put=Program((user,), (), (meter,))))
    assert switch.process(TCP, 1).output == 2
    switch.apply(Change(1, put=Program(groups=(replace(group, buckets=(Bucket(3),)),))))
    assert switch.process(TCP, 1).output == 3
    switch.apply(Change(1, delete=Program(groups=(group,))))
    assert switch.program == Program(meters=(meter,))
    switch.apply(Change(1, put=Program((user,), (group,))))
    switch.apply(Change(1, delete=Program(meters=(meter,))))
    assert switch.program == Program(groups=(group,))
    switch.apply(Change(1, clear=True))
    assert switch.program == Program()


@given(programs(), programs())
def test_differences_lead_from_any_program_to_any_other(have: Program, want: Program) -> None:
    """Applying the difference gives exactly what is wanted; the difference to that is nothing."""
    switch = Switch(have.rules, have.groups, have.meters)
    switch.apply(difference(1, have, want))
    held = switch.program
    assert set(held.rules) == set(want.rules)
    assert set(held.groups) == set(want.groups)
    assert set(held.meters) == set(want.meters)
    assert not difference(1, held, want)


@given(programs(), programs(), st.sampled_from([2, 1 << 63]))
def test_programs_are_divided_by_switch(mine: Program, other: Program, dpid: int) -> None:
    """Nothing is lost, nothing is mixed up."""
    theirs = Program(
        *(tuple(replace(item, dpid=dpid) for item in items) for items in (other.rules, other.groups, other.meters))
    )
    parts = (mine + theirs).by_switch()
    assert parts == {number: part for number, part in ((1, mine), (dpid, theirs)) if part != Program()}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Match(), Match(in_port=1), True),
        (Match(in_port=1), Match(in_port=2), False),
        (Match(in_port=1), Match(eth_src=A), True),
        (Match(tcp_src=2, tcp_src_mask=6), Match(tcp_src=4, tcp_src_mask=6), False),
        (Match(tcp_src=2, tcp_src_mask=2), Match(tcp_src=4, tcp_src_mask=4), True),
        (Match(tcp_src=3), Match(tcp_src=2, tcp_src_mask=2), True),
        (Match(tcp_src=4), Match(tcp_src=2, tcp_src_mask=2), False),
        (Match(tcp_src=4), Match(), True),
        (Match(udp_dst=3, udp_dst_mask=3), Match(udp_dst=1), False),
        (Match(ipv4_src="10.0.0.0/8"), Match(ipv4_src="10.1.0.0/16"), True),
        (Match(ipv4_src="10.0.0.0/8"), Match(ipv4_src="11.0.0.1"), False),
        (Match(ipv4_src="10.0.0.0/8"), Match(ipv4_dst="11.0.0.1"), True),
        (Match(tcp_ack=True), Match(tcp_ack=False), False),
        (Match(vlan=0), Match(vlan=1), False),
    ],
)
def test_overlap(a: Match, b: Match, expected: bool) -> None:
    """Two matches overlap if and only if some packet fits both."""
    assert overlap(rule(FIRST, 1, a), rule(FIRST, 1, b)) is expected
    assert overlap(rule(FIRST, 1, b), rule(FIRST, 1, a)) is expected
    assert overlap(rule(FIRST, 1, a), rule(FIRST, 2, b)) is False
    assert overlap(rule(FIRST, 1, a), rule(Table.ROUTE, 1, b)) is False


def test_cookies_tell_owner_purpose_and_number() -> None:
    """Every purpose and number comes back from its cookie; others' cookies have none."""
    assert [purpose_of(cookie_of(purpose)) for purpose in Purpose] == list(Purpose)
    numbered = cookie_of(Purpose.DENY, (1 << 24) - 1)
    assert (purpose_of(numbered), number_of(numbered)) == (Purpose.DENY, (1 << 24) - 1)
    assert [purpose_of(cookie) for cookie in (0, 4, 1 << 63, cookie_of(Purpose.DEFAULT) + 99)] == [None] * 4


def test_rules_read_well() -> None:
    """The text of a rule names table, match and actions, masks included."""
    match = Match(in_port=6, eth_type=0x0800, tcp_src=2, tcp_src_mask=6)
    shown = str(rule(Table.STEER, 300, match, SetField("eth_dst", A), meter=3, goto=Table.SPREAD))
    assert shown == (
        "dpid=1 table=steer priority=300 in_port=6,eth_type=0x0800,tcp_src=0x2/0x6 -> "
        f"meter:3 set_eth_dst:{A} goto:spread"
    )
    assert str(rule(Table.ROUTE, 0, Match())).endswith("any -> drop")
