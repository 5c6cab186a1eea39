"""Rules survive the way to OpenFlow bytes and back; everything else is recognised as foreign."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import ryu_codec as codec
from controller.flows import FlowRule, Match, Table

# isort: split
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

DATAPATH: Any = ProtocolDesc(ofp.OFP_VERSION)

_MACS = st.integers(0, (1 << 48) - 1).map(lambda value: ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big")))
_IPS = st.ip_addresses(v=4).map(str)
_U16 = st.integers(0, 65_535)


def _masked(draw_match: tuple[Match, int | None]) -> Match:
    match, mask = draw_match
    if mask is None:
        return match
    return Match(**{**match.set_fields(), "tcp_src": mask & 0x1234, "tcp_src_mask": mask})  # type: ignore[arg-type]


_MATCHES = st.tuples(
    st.builds(
        Match,
        in_port=st.none() | st.integers(1, 0xFFFFFF00),
        metadata=st.none() | st.integers(1, (1 << 64) - 1),
        eth_src=st.none() | _MACS,
        eth_dst=st.none() | _MACS,
        eth_type=st.just(0x0800),
        ip_proto=st.just(6),
        ipv4_src=st.none() | _IPS,
        ipv4_dst=st.none() | _IPS,
        tcp_src=st.none() | _U16,
        tcp_dst=st.none() | _U16,
    ),
    st.none() | st.integers(1, 65_534),
).map(_masked)
_RULES = st.builds(
    FlowRule,
    dpid=st.just(5),
    table=st.sampled_from(Table),
    priority=_U16,
    match=_MATCHES,
    set_eth_dst=st.none() | _MACS,
    output=st.none() | st.integers(1, 0xFFFFFF00),
    write_metadata=st.none() | st.integers(0, (1 << 64) - 1),
    goto=st.none() | st.sampled_from(Table),
    cookie=st.integers(0, (1 << 64) - 1),
)


def through_the_wire(message: Any) -> Any:
    """Serialize a flow modification and parse match and instructions out of the bytes."""
    message.set_xid(1)
    message.serialize()
    data = bytes(message.buf)
    match = parser.OFPMatch.parser(data, ofp.OFP_HEADER_SIZE + 40)
    offset = ofp.OFP_HEADER_SIZE + 40 + (match.length + 7) // 8 * 8
    instructions = []
    while offset < len(data):
        instructions.append(parser.OFPInstruction.parser(data, offset))
        offset += instructions[-1].len
    return SimpleNamespace(
        match=match,
        instructions=instructions,
        table_id=message.table_id,
        priority=message.priority,
        cookie=message.cookie,
        idle_timeout=0,
        hard_timeout=0,
        byte_count=10,
        packet_count=2,
        duration_sec=3,
        duration_nsec=4,
        length=len(data),
        flags=0,
    )


@given(_RULES)
def test_rules_come_back_from_openflow_bytes(rule: FlowRule) -> None:
    """Whatever the planner could say reads back as the same rule."""
    stat = codec.read_flow(5, through_the_wire(codec.flow_mod(DATAPATH, rule)))
    assert stat.rule == rule
    assert (stat.packets, stat.bytes, stat.duration_ns) == (2, 10, 3_000_000_004)


def test_deleting_is_strict_and_clearing_is_not() -> None:
    """One deletes exactly a rule, the other every table."""
    rule = FlowRule(5, Table.ROUTE, 7, Match(in_port=1), output=2)
    assert codec.flow_mod(DATAPATH, rule).command == ofp.OFPFC_ADD
    deletion = codec.flow_mod(DATAPATH, rule, delete=True)
    assert (deletion.command, deletion.table_id, deletion.priority) == (ofp.OFPFC_DELETE_STRICT, 2, 7)
    clearing = codec.clear_all(DATAPATH)
    assert (clearing.command, clearing.table_id) == (ofp.OFPFC_DELETE, ofp.OFPTT_ALL)


def _apply(*actions: Any) -> list[Any]:
    return [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, list(actions))]


@pytest.mark.parametrize(
    "change",
    [
        {"table_id": 3},
        {"idle_timeout": 1},
        {"hard_timeout": 1},
        {"match": parser.OFPMatch(eth_type=0x86DD)},
        {"match": parser.OFPMatch(eth_type=0x0800, ipv4_src=("10.0.0.0", "255.0.0.0"))},
        {"match": parser.OFPMatch(vlan_vid=0x1005)},
        {"instructions": [parser.OFPInstructionGotoTable(9)]},
        {"instructions": [parser.OFPInstructionWriteMetadata(1, 1)]},
        {"instructions": [parser.OFPInstructionMeter(1)]},
        {"instructions": [parser.OFPInstructionActions(ofp.OFPIT_WRITE_ACTIONS, [parser.OFPActionOutput(1)])]},
        {"instructions": _apply(parser.OFPActionOutput(1), parser.OFPActionOutput(2))},
        {"instructions": _apply(parser.OFPActionOutput(1), parser.OFPActionSetField(eth_dst="02:00:00:00:00:01"))},
        {"instructions": _apply(parser.OFPActionSetField(eth_src="02:00:00:00:00:01"))},
        {"instructions": _apply(parser.OFPActionPopVlan())},
        {"instructions": _apply(*(parser.OFPActionSetField(eth_dst=f"02:00:00:00:00:0{n}") for n in (1, 2)))},
        {"instructions": _apply(parser.OFPActionOutput(1)) + _apply(parser.OFPActionOutput(2))},
    ],
    ids=str,
)
def test_other_entries_are_foreign(change: dict[str, Any]) -> None:
    """Anything that a rule cannot say in full is not read as a rule that says less."""
    stats = through_the_wire(codec.flow_mod(DATAPATH, FlowRule(5, Table.ROUTE, 7, Match(in_port=1), output=2)))
    plain = codec.read_flow(5, stats)
    assert plain.rule is not None
    vars(stats).update(change)
    read = codec.read_flow(5, stats)
    if change.get("match") is not None and "eth_type" in change["match"] and change["match"]["eth_type"] == 0x86DD:
        assert read.rule is not None  # another Ethernet type alone is expressible
    else:
        assert read.rule is None
    assert read.ryu["priority"] == 7
