"""The in-memory switch: priorities, masks, metadata, rewriting, counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.flows import FlowRule, Match, Purpose, Table, cookie_of, purpose_of
from controller.flowtable import Frame, Switch, overlap
from emulator.errors import ControllerError

A, B, C = (f"02:00:00:00:00:0{index}" for index in (1, 2, 3))
TCP = Frame(A, B, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", ip_proto=6, tcp_src=40_002, tcp_dst=4420, size_bytes=100)


def rule(table: Table, priority: int, match: Match, **what: object) -> FlowRule:
    return FlowRule(1, table, priority, match, **what)  # type: ignore[arg-type]


def test_the_highest_priority_wins_whatever_it_looks_at() -> None:
    """A broad rule of high priority beats an exact one of low priority, and the other way round."""
    exact = Match(in_port=1, eth_dst=B, ip_proto=6, tcp_dst=4420)
    for broad_priority, expected in ((300, 7), (100, 8)):
        switch = Switch(
            [
                rule(Table.STEER, broad_priority, Match(ip_proto=6), output=7),
                rule(Table.STEER, 200, exact, output=8),
                rule(Table.STEER, 0, Match(), output=9),
            ]
        )
        assert switch.process(TCP, 1).output == expected
        assert switch.process(replace(TCP, ip_proto=17), 1).output == 9


def test_tables_are_passed_in_order_with_metadata_and_rewriting() -> None:
    """What an earlier table writes is what a later table matches and what leaves."""
    switch = Switch(
        [
            rule(Table.STEER, 1, Match(in_port=1), set_eth_dst=C, goto=Table.SPREAD),
            rule(Table.SPREAD, 1, Match(eth_src=A), write_metadata=3, goto=Table.ROUTE),
            rule(Table.ROUTE, 2, Match(eth_dst=C, metadata=3), output=5),
            rule(Table.ROUTE, 1, Match(eth_dst=C), output=6),
        ]
    )
    verdict = switch.process(TCP, 1)
    assert (verdict.output, verdict.frame.eth_dst, len(verdict.matched)) == (5, C, 3)
    assert switch.process(TCP, 2).output is None


@pytest.mark.parametrize(("port", "output"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 1), (65_534, 2), (65_535, 2)])
def test_masked_ports(port: int, output: int) -> None:
    """Only the masked bits count."""
    switch = Switch(
        [
            rule(Table.STEER, 1, Match(ip_proto=6, tcp_src=value, tcp_src_mask=2), output=number)
            for value, number in ((0, 1), (2, 2))
        ]
    )
    assert switch.process(replace(TCP, tcp_src=port), 9).output == output


def test_tcp_ports_are_not_looked_for_in_other_packets() -> None:
    """A packet that is not TCP has no TCP port, even if a value is lying around."""
    switch = Switch([rule(Table.STEER, 1, Match(tcp_dst=4420), output=1)])
    assert switch.process(TCP, 9).output == 1
    assert switch.process(replace(TCP, ip_proto=17), 9).output is None


def test_a_packet_never_goes_back_to_where_it_came_from() -> None:
    """As in OpenFlow, an output to the port of arrival drops."""
    switch = Switch([rule(Table.STEER, 1, Match(), output=4)])
    assert switch.process(TCP, 4).output is None
    assert switch.process(TCP, 3).output == 4
    assert (switch.dropped.packets, switch.sent[4].bytes, switch.received[4].packets) == (1, 100, 1)


def test_an_empty_switch_drops_and_counts() -> None:
    """No rule, no output."""
    switch = Switch([])
    assert switch.process(TCP, 1).matched == ()
    assert (switch.dropped.packets, switch.dropped.bytes) == (1, 100)


def test_rules_count() -> None:
    """Every rule that matched counts the packet."""
    first = rule(Table.STEER, 1, Match(), goto=Table.ROUTE)
    last = rule(Table.ROUTE, 1, Match(), output=2)
    switch = Switch([first, last])
    for _ in range(3):
        switch.process(TCP, 1)
    assert [(switch.matched[item.key].packets, switch.matched[item.key].bytes) for item in (first, last)] == [
        (3, 300),
        (3, 300),
    ]


def test_rules_of_the_same_key_are_refused() -> None:
    """A switch would silently keep the second one only."""
    with pytest.raises(ControllerError, match="same key"):
        Switch([rule(Table.STEER, 1, Match(in_port=1), output=2), rule(Table.STEER, 1, Match(in_port=1), output=3)])


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
    ],
)
def test_overlap(a: Match, b: Match, expected: bool) -> None:
    """Two matches overlap if and only if some packet fits both."""
    assert overlap(rule(Table.STEER, 1, a), rule(Table.STEER, 1, b)) is expected
    assert overlap(rule(Table.STEER, 1, b), rule(Table.STEER, 1, a)) is expected
    assert overlap(rule(Table.STEER, 1, a), rule(Table.STEER, 2, b)) is False
    assert overlap(rule(Table.STEER, 1, a), rule(Table.ROUTE, 1, b)) is False


def test_cookies_tell_owner_and_purpose() -> None:
    """Every purpose comes back from its cookie; others' cookies have none."""
    assert [purpose_of(cookie_of(purpose)) for purpose in Purpose] == list(Purpose)
    assert [purpose_of(cookie) for cookie in (0, 4, 1 << 63, cookie_of(Purpose.STEER) + 99)] == [None] * 4


def test_rules_read_well() -> None:
    """The text of a rule names table, match and actions, masks included."""
    shown = str(
        rule(
            Table.STEER,
            300,
            Match(in_port=6, eth_type=0x0800, tcp_src=2, tcp_src_mask=6),
            set_eth_dst=A,
            goto=Table.SPREAD,
        )
    )
    assert shown == (
        "dpid=1 table=steer priority=300 in_port=6,eth_type=0x0800,tcp_src=0x2/0x6 -> set_eth_dst:" + A + " goto:spread"
    )
    assert str(rule(Table.ROUTE, 0, Match())).endswith("any -> drop")
