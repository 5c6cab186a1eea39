"""What we say survives the way to OpenFlow bytes and back; everything else is recognised as foreign."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import ryu_codec as codec
from controller import ryu_rules
from controller.flows import (
    IN_PORT,
    ArpReply,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Meter,
    Output,
    PushVlan,
    SetField,
    Table,
    ToController,
)
from emulator.errors import ControllerError
from tests.support.controller_flows import groups, meters, rules

# isort: split
from ryu.ofproto import nicira_ext
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

DATAPATH: Any = ProtocolDesc(ofp.OFP_VERSION)
RULE = FlowRule(5, Table.ROUTE, 7, Match(in_port=1), (Output(2),))
MAC = "02:00:00:00:00:01"


def wire(message: Any) -> bytes:
    """The bytes of a message."""
    message.set_xid(1)
    message.serialize()
    return bytes(message.buf)


def flow_stats(message: Any) -> Any:
    """Serialize a flow modification and parse match and instructions out of the bytes."""
    data = wire(message)
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


def group_description(message: Any) -> Any:
    """Serialize a group modification and parse its buckets out of the bytes."""
    data = wire(message)
    offset, buckets = ofp.OFP_GROUP_MOD_SIZE, []
    while offset < len(data):
        buckets.append(parser.OFPBucket.parser(data, offset))
        offset += buckets[-1].len
    return SimpleNamespace(type=message.type, group_id=message.group_id, buckets=buckets)


def meter_configuration(message: Any) -> Any:
    """Serialize a meter modification and parse its bands out of the bytes."""
    data = wire(message)
    band = parser.OFPMeterBandHeader.parser(data, ofp.OFP_METER_MOD_SIZE)
    return SimpleNamespace(flags=message.flags, meter_id=message.meter_id, bands=[band])


@given(rules(dpid=5))
def test_rules_come_back_from_openflow_bytes(rule: FlowRule) -> None:
    """Whatever a rule can say reads back as the same rule, and has a form in Ryu's words."""
    stat = codec.read_flow(5, flow_stats(codec.flow_mod(DATAPATH, rule)))
    assert stat.rule == rule
    assert (stat.packets, stat.bytes, stat.duration_ns) == (2, 10, 3_000_000_004)
    assert set(stat.ryu) >= {"match", "actions", "table_id"}


@given(groups(dpid=5))
def test_groups_come_back_from_openflow_bytes(group: Group) -> None:
    """Whatever a group can say reads back as the same group."""
    assert ryu_rules.read_group(5, group_description(codec.group_mod(DATAPATH, group, "put"))) == group


@given(meters(dpid=5))
def test_meters_come_back_from_openflow_bytes(meter: Meter) -> None:
    """Whatever a meter can say reads back as the same meter, also with the counters that Open vSwitch adds."""
    stats = meter_configuration(codec.meter_mod(DATAPATH, meter, "add"))
    assert ryu_rules.read_meter(5, stats) == meter
    stats.flags |= ofp.OFPMF_STATS
    assert ryu_rules.read_meter(5, stats) == meter


def test_deleting_is_strict_and_clearing_is_not() -> None:
    """One deletes exactly a rule, the other every table, group and meter."""
    assert codec.flow_mod(DATAPATH, RULE).command == ofp.OFPFC_ADD
    deletion = codec.flow_mod(DATAPATH, RULE, delete=True)
    assert (deletion.command, deletion.table_id, deletion.priority) == (ofp.OFPFC_DELETE_STRICT, 6, 7)
    flows, all_groups, all_meters = codec.clear_all(DATAPATH)
    assert (flows.command, flows.table_id) == (ofp.OFPFC_DELETE, ofp.OFPTT_ALL)
    assert (all_groups.command, all_groups.group_id) == (ofp.OFPGC_DELETE, ofp.OFPG_ALL)
    assert (all_meters.command, all_meters.meter_id) == (ofp.OFPMC_DELETE, ofp.OFPM_ALL)
    group, meter = Group(5, 9, GroupKind.SELECT, (Bucket(1, 1),)), Meter(5, 3, 10, 2)
    assert codec.group_mod(DATAPATH, group, "delete").buckets == []
    assert codec.meter_mod(DATAPATH, meter, "delete").bands == []
    for message in (codec.group_mod(DATAPATH, group, "delete"), codec.meter_mod(DATAPATH, meter, "delete")):
        assert wire(message)


@pytest.mark.parametrize(
    "match",
    [
        Match(tcp_src=1, tcp_src_mask=0),
        Match(tcp_src=1, tcp_src_mask=0xFFFF),
        Match(udp_dst=3, udp_dst_mask=1),
        Match(ipv4_src="10.0.0.1/8"),
        Match(ipv4_src="10.0.0.1/32"),
        Match(ipv4_dst="0.0.0.0/0"),
        Match(ipv4_dst="10.0.0.0/255.0.0.0"),
        Match(ipv4_dst="10.0.0/8"),
    ],
    ids=str,
)
def test_matches_that_would_come_back_differently_are_refused(match: Match) -> None:
    """A switch gives prefixes and masks back in one form; any other would look like a rule that is missing for ever."""
    with pytest.raises(ControllerError, match="a rule matches"):
        codec.flow_mod(DATAPATH, FlowRule(5, Table.ROUTE, 1, match))


def _apply(*actions: Any) -> list[Any]:
    return [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, list(actions))]


def _arp_reply() -> list[Any]:
    return ryu_rules.write_actions([ArpReply("10.0.0.1", MAC)])


def _with(index: int, action: Any) -> list[Any]:
    """The actions of an ARP reply with one exchanged."""
    actions = _arp_reply()
    actions[index] = action
    return _apply(*actions)


@pytest.mark.parametrize(
    "change",
    [
        {"table_id": 8},
        {"table_id": 254},
        {"idle_timeout": 1},
        {"hard_timeout": 1},
        {"flags": ofp.OFPFF_SEND_FLOW_REM},
        {"match": parser.OFPMatch(eth_type=0x0800, ipv4_src=("10.0.0.0", "255.0.0.255"))},
        {"match": parser.OFPMatch(vlan_vid=0x0005)},
        {"match": parser.OFPMatch(vlan_vid=(0x1000, 0x1000))},
        {"match": parser.OFPMatch(eth_dst=(MAC, "ff:00:00:00:00:00"))},
        {"match": parser.OFPMatch(metadata=(1, 1))},
        {"match": parser.OFPMatch(eth_type=0x0800, ip_proto=6, tcp_flags=(2, 2))},
        {"match": parser.OFPMatch(eth_type=0x86DD, ipv6_src="::1")},
        {"instructions": [parser.OFPInstructionGotoTable(9)]},
        {"instructions": [parser.OFPInstructionWriteMetadata(1, 1)]},
        {"instructions": [parser.OFPInstructionActions(ofp.OFPIT_WRITE_ACTIONS, [parser.OFPActionOutput(1)])]},
        {"instructions": [parser.OFPInstructionActions(ofp.OFPIT_CLEAR_ACTIONS, [])]},
        {"instructions": _apply(parser.OFPActionOutput(1)) + _apply(parser.OFPActionOutput(2))},
        {"instructions": [parser.OFPInstructionMeter(1), parser.OFPInstructionMeter(2)]},
        {"instructions": _apply(parser.OFPActionOutput(ofp.OFPP_NORMAL))},
        {"instructions": _apply(parser.OFPActionOutput(ofp.OFPP_FLOOD))},
        {"instructions": _apply(parser.OFPActionOutput(ofp.OFPP_LOCAL))},
        {"instructions": _apply(parser.OFPActionSetField(udp_src=5))},
        {"instructions": _apply(parser.OFPActionSetField(vlan_vid=0x1005))},
        {"instructions": _apply(parser.OFPActionPushVlan(0x8100))},
        {"instructions": _apply(parser.OFPActionPushVlan(0x88A8), parser.OFPActionSetField(vlan_vid=0x1005))},
        {"instructions": _apply(parser.OFPActionDecNwTtl())},
        {"instructions": _apply(*_arp_reply()[1:])},
        {"instructions": _apply(*_arp_reply()[:-1])},
        {"instructions": _with(1, parser.OFPActionSetField(eth_src="02:00:00:00:00:02"))},
        {"instructions": _with(2, parser.OFPActionSetField(arp_op=1))},
        {"instructions": _with(4, parser.NXActionRegMove("arp_spa_nxm", "arp_tpa_nxm", 16))},
        {"instructions": _with(0, parser.NXActionRegMove("eth_dst_nxm", "eth_src_nxm", 48))},
    ],
    ids=str,
)
def test_other_entries_are_foreign(change: dict[str, Any]) -> None:
    """Anything that a rule cannot say in full is not read as a rule that says less."""
    stats = flow_stats(codec.flow_mod(DATAPATH, RULE))
    assert codec.read_flow(5, stats).rule == RULE
    vars(stats).update(change)
    read = codec.read_flow(5, stats)
    assert read.rule is None
    assert read.ryu["priority"] == 7


@pytest.mark.parametrize(
    ("actions", "meant"),
    [
        ([parser.OFPActionOutput(1), parser.OFPActionOutput(2)], (Output(1), Output(2))),
        ([parser.OFPActionOutput(ofp.OFPP_IN_PORT)], (Output(IN_PORT),)),
        ([parser.OFPActionOutput(ofp.OFPP_CONTROLLER, 77)], (ToController(77),)),
        (
            [parser.OFPActionPushVlan(0x8100), parser.OFPActionSetField(vlan_vid=0x1005)],
            (PushVlan(5),),
        ),
        ([parser.OFPActionSetField(eth_src=MAC)] * 2, (SetField("eth_src", MAC),) * 2),
    ],
)
def test_actions_of_others_that_we_could_have_said(actions: list[Any], meant: tuple[Any, ...]) -> None:
    """Several outputs, later rewrites and the like are read for what they do."""
    stats = flow_stats(codec.flow_mod(DATAPATH, RULE))
    stats.instructions = _apply(*actions)
    rule = codec.read_flow(5, stats).rule
    assert rule is not None
    assert rule.actions == meant


@pytest.mark.parametrize(
    "change",
    [
        {"type": ofp.OFPGT_ALL},
        {"type": ofp.OFPGT_INDIRECT},
        {"watch_port": 3},
        {"watch_group": 1},
        {"actions": []},
        {"actions": [parser.OFPActionPopVlan(), parser.OFPActionOutput(2)]},
        {"actions": [parser.OFPActionGroup(2)]},
        {"actions": [parser.OFPActionOutput(ofp.OFPP_CONTROLLER)]},
    ],
    ids=str,
)
def test_other_groups_are_foreign(change: dict[str, Any]) -> None:
    """A group that does more, or less, than choose a port that is up is not ours."""
    group = Group(5, 9, GroupKind.FAST_FAILOVER, (Bucket(2), Bucket(4)))
    stats = group_description(codec.group_mod(DATAPATH, group, "put"))
    vars(stats if "type" in change else stats.buckets[0]).update(change)
    assert ryu_rules.read_group(5, stats) is None


@pytest.mark.parametrize(
    "change",
    [
        {"flags": ofp.OFPMF_KBPS | ofp.OFPMF_BURST},
        {"flags": ofp.OFPMF_PKTPS},
        {"bands": []},
        {"bands": [parser.OFPMeterBandDscpRemark(10, 1, 1)]},
        {"bands": [parser.OFPMeterBandDrop(10, 1), parser.OFPMeterBandDrop(20, 1)]},
    ],
    ids=str,
)
def test_other_meters_are_foreign(change: dict[str, Any]) -> None:
    """A meter in other units, or with other bands, is not ours."""
    stats = meter_configuration(codec.meter_mod(DATAPATH, Meter(5, 3, 10, 2), "add"))
    vars(stats).update(change)
    assert ryu_rules.read_meter(5, stats) is None


@given(st.integers(1, ofp.OFPP_MAX), st.binary(max_size=200))
def test_packets_go_out_by_the_named_port(port: int, data: bytes) -> None:
    """A packet-out carries the packet itself and one output."""
    message = codec.packet_out(DATAPATH, port, data)
    assert wire(message).endswith(data)
    assert (message.buffer_id, [action.port for action in message.actions]) == (ofp.OFP_NO_BUFFER, [port])


@given(st.binary(max_size=200), st.integers(1, ofp.OFPP_MAX), st.integers(0, (1 << 64) - 1), st.integers(0, 7))
def test_reported_packets_are_read_with_their_rule(data: bytes, port: int, cookie: int, table: int) -> None:
    """A packet-in says where the packet came in, which rule reported it, and carries its first bytes."""
    message = SimpleNamespace(
        datapath=SimpleNamespace(id=5),
        match=parser.OFPMatch(in_port=port),
        cookie=cookie,
        table_id=table,
        data=data,
    )
    reported = codec.read_reported(message)
    assert (reported.dpid, reported.port, reported.cookie, reported.table, reported.data) == (
        5,
        port,
        cookie,
        table,
        data,
    )


@pytest.mark.parametrize(
    ("role", "number"),
    [("equal", ofp.OFPCR_ROLE_EQUAL), ("master", ofp.OFPCR_ROLE_MASTER), ("slave", ofp.OFPCR_ROLE_SLAVE)],
)
def test_roles_are_asked_for_with_their_generation(role: str, number: int) -> None:
    """The number of the role and the generation are in the bytes."""
    data = wire(codec.role_request(DATAPATH, role, 0x1122334455667788))
    assert int.from_bytes(data[8:12], "big") == number
    assert data[16:24] == bytes.fromhex("1122334455667788")


def test_tcp_flags_are_read_in_both_of_their_numbers() -> None:
    """Open vSwitch numbers this extension in two ways, depending on who asks."""
    assert nicira_ext  # registers the other number
    for name in ("tcp_flags", "tcp_flags_nxm"):
        stats = flow_stats(codec.flow_mod(DATAPATH, RULE))
        stats.match = parser.OFPMatch(eth_type=0x0800, ip_proto=6, **{name: (0x10, 0x10)})
        rule = codec.read_flow(5, stats).rule
        assert rule is not None
        assert rule.match == Match(eth_type=0x0800, ip_proto=6, tcp_ack=True)
