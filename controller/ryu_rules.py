"""Translates rules, groups and meters to Ryu's OpenFlow 1.3 structures and back; what they cannot say reads as None.

Beyond OpenFlow 1.3, Open vSwitch's extensions: masked ports, TCP flags, and moves between fields for ARP replies.
"""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

from collections.abc import Callable, Sequence
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.flows import (
    ETH_TYPE_VLAN,
    IN_PORT,
    Action,
    ArpReply,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Meter,
    Output,
    PopVlan,
    PushVlan,
    SetField,
    SetQueue,
    Table,
    ToController,
    ToGroup,
)
from controller.frame import ARP_REPLY
from controller.ryu_match import read_match

_FULL_METADATA = (1 << 64) - 1
_TABLES = frozenset(Table)
_SETTABLE = frozenset(("eth_src", "eth_dst", "ipv4_src", "ipv4_dst", "tcp_src", "tcp_dst"))
_KINDS = {GroupKind.SELECT: ofp.OFPGT_SELECT, GroupKind.FAST_FAILOVER: ofp.OFPGT_FF}


def write_actions(actions: Sequence[Action]) -> list[Any]:
    """Actions as Ryu has them."""
    written: list[Any] = []
    for action in actions:
        if isinstance(action, SetField):
            written.append(parser.OFPActionSetField(**{action.name: action.value}))
        elif isinstance(action, PushVlan):
            written.append(parser.OFPActionPushVlan(ETH_TYPE_VLAN))
            written.append(parser.OFPActionSetField(vlan_vid=ofp.OFPVID_PRESENT | action.vlan))
        elif isinstance(action, PopVlan):
            written.append(parser.OFPActionPopVlan())
        elif isinstance(action, SetQueue):
            written.append(parser.OFPActionSetQueue(action.queue))
        elif isinstance(action, ArpReply):
            written += _arp_reply(action)
        elif isinstance(action, Output):
            written.append(parser.OFPActionOutput(action.port))
        elif isinstance(action, ToGroup):
            written.append(parser.OFPActionGroup(action.group))
        else:
            written.append(parser.OFPActionOutput(ofp.OFPP_CONTROLLER, action.max_bytes))
    return written


def _move(source: str, target: str, bits: int) -> Any:
    # Ryu knows these fields by two numbers each; Open vSwitch gives back the older ones in this action.
    return parser.NXActionRegMove(src_field=f"{source}_nxm", dst_field=f"{target}_nxm", n_bits=bits)


def _arp_reply(action: ArpReply) -> list[Any]:
    return [
        _move("eth_src", "eth_dst", 48),
        parser.OFPActionSetField(eth_src=action.mac),
        parser.OFPActionSetField(arp_op=ARP_REPLY),
        _move("arp_sha", "arp_tha", 48),
        _move("arp_spa", "arp_tpa", 32),
        parser.OFPActionSetField(arp_sha=action.mac),
        parser.OFPActionSetField(arp_spa=action.ip),
    ]


def read_actions(actions: Sequence[Any]) -> tuple[Action, ...] | None:
    """Actions as ours, or None."""
    read: list[Action] = []
    waiting = list(actions)
    while waiting:
        for reader in _READERS:
            found = reader(waiting)
            if found is not None:
                action, length = found
                read.append(action)
                del waiting[:length]
                break
        else:
            return None
    return tuple(read)


_Found = tuple[Action, int] | None


def _read_arp_reply(actions: list[Any]) -> _Found:
    expected = _arp_reply(ArpReply("192.0.2.1", "02:00:00:00:00:01"))
    given = actions[: len(expected)]
    if [type(action) for action in given] != [type(action) for action in expected]:
        return None
    mac, ip = given[1].value, given[6].value
    if [_plain(action) for action in given] != [_plain(action) for action in _arp_reply(ArpReply(str(ip), str(mac)))]:
        return None
    return ArpReply(str(ip), str(mac)), len(expected)


def _plain(action: Any) -> tuple[Any, ...]:
    if isinstance(action, parser.NXActionRegMove):
        return (action.src_field, action.dst_field, action.n_bits, action.src_ofs, action.dst_ofs)
    return (action.key, action.value)


def _read_push(actions: list[Any]) -> _Found:
    if len(actions) < 2 or not isinstance(actions[0], parser.OFPActionPushVlan):
        return None
    tag = actions[1]
    if actions[0].ethertype != ETH_TYPE_VLAN or not isinstance(tag, parser.OFPActionSetField) or tag.key != "vlan_vid":
        return None
    return PushVlan(tag.value & ~ofp.OFPVID_PRESENT), 2


def _read_single(actions: list[Any]) -> _Found:
    action = actions[0]
    if isinstance(action, parser.OFPActionSetField) and action.key in _SETTABLE:
        return SetField(action.key, action.value), 1
    if isinstance(action, parser.OFPActionPopVlan):
        return PopVlan(), 1
    if isinstance(action, parser.OFPActionSetQueue):
        return SetQueue(action.queue_id), 1
    if isinstance(action, parser.OFPActionGroup):
        return ToGroup(action.group_id), 1
    if isinstance(action, parser.OFPActionOutput):
        if action.port == ofp.OFPP_CONTROLLER:
            return ToController(action.max_len), 1
        if action.port <= ofp.OFPP_MAX or action.port == IN_PORT:
            return Output(action.port), 1
    return None


_READERS: tuple[Callable[[list[Any]], _Found], ...] = (_read_arp_reply, _read_push, _read_single)


def write_instructions(rule: FlowRule) -> list[Any]:
    """What a rule does, as Ryu has it."""
    instructions: list[Any] = []
    if rule.meter is not None:
        instructions.append(parser.OFPInstructionMeter(rule.meter))
    if rule.actions:
        instructions.append(parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, write_actions(rule.actions)))
    if rule.write_metadata is not None:
        instructions.append(parser.OFPInstructionWriteMetadata(rule.write_metadata, _FULL_METADATA))
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(int(rule.goto)))
    return instructions


def read_rule(dpid: int, stats: Any) -> FlowRule | None:
    """An entry of a flow statistics reply as a rule of ours, or None if such a rule cannot say what it does."""
    match = read_match(stats.match)
    if match is None or stats.table_id not in _TABLES or stats.idle_timeout or stats.hard_timeout or stats.flags:
        return None
    fields: dict[str, Any] = {}
    for instruction in stats.instructions:
        found = _read_instruction(instruction)
        if found is None or found.keys() & fields.keys():
            return None
        fields |= found
    return FlowRule(dpid, Table(stats.table_id), stats.priority, match, cookie=stats.cookie, **fields)


def _read_instruction(instruction: Any) -> dict[str, Any] | None:
    if isinstance(instruction, parser.OFPInstructionGotoTable):
        return {"goto": Table(instruction.table_id)} if instruction.table_id in _TABLES else None
    if isinstance(instruction, parser.OFPInstructionMeter):
        return {"meter": instruction.meter_id}
    if isinstance(instruction, parser.OFPInstructionWriteMetadata):
        full = instruction.metadata_mask == _FULL_METADATA
        return {"write_metadata": instruction.metadata} if full else None
    if isinstance(instruction, parser.OFPInstructionActions) and instruction.type == ofp.OFPIT_APPLY_ACTIONS:
        actions = read_actions(instruction.actions)
        return None if actions is None else {"actions": actions}
    return None


def write_buckets(group: Group) -> list[Any]:
    """A group's buckets as Ryu has them."""
    return [
        parser.OFPBucket(
            weight=bucket.weight,
            watch_port=bucket.port,
            watch_group=ofp.OFPG_ANY,
            actions=[parser.OFPActionOutput(bucket.port)],
        )
        for bucket in group.buckets
    ]


def group_type(group: Group) -> int:
    """OpenFlow's number of a group's kind."""
    return int(_KINDS[group.kind])


def read_group(dpid: int, stats: Any) -> Group | None:
    """An entry of a group description reply as a group of ours, or None."""
    kinds = {number: kind for kind, number in _KINDS.items()}
    buckets: list[Bucket] = []
    for bucket in stats.buckets:
        actions = read_actions(bucket.actions)
        if actions is None or len(actions) != 1 or not isinstance(actions[0], Output):
            return None
        if bucket.watch_port != actions[0].port or bucket.watch_group != ofp.OFPG_ANY:
            return None
        buckets.append(Bucket(bucket.watch_port, bucket.weight))
    if stats.type not in kinds:
        return None
    return Group(dpid, stats.group_id, kinds[stats.type], tuple(buckets))


def read_meter(dpid: int, stats: Any) -> Meter | None:
    """An entry of a meter configuration reply as a meter of ours, or None."""
    if stats.flags & ~ofp.OFPMF_STATS != ofp.OFPMF_PKTPS | ofp.OFPMF_BURST or len(stats.bands) != 1:
        return None
    band = stats.bands[0]
    if band.type != ofp.OFPMBT_DROP:
        return None
    return Meter(dpid, stats.meter_id, band.rate, band.burst_size)
