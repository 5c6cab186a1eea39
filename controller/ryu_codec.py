"""Translates between the project's plain data and Ryu's OpenFlow 1.3 messages. Holds no state and sends nothing."""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

from typing import Any

from ryu.lib import ofctl_v1_3
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller import ryu_match, ryu_rules
from controller.events import Port, Reported
from controller.flows import FlowRule, Group, Meter, Purpose, cookie_of
from controller.stats import FlowStat, GroupStat, PortStat

_PORT_COUNTERS = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_dropped",
    "tx_dropped",
    "rx_errors",
    "tx_errors",
    "rx_frame_err",
    "rx_over_err",
    "rx_crc_err",
    "collisions",
    "duration_sec",
    "duration_nsec",
)
_NS = 10**9
_OWNER_AND_PURPOSE = 0xFFFFFFFF_000000FF
_ADD_OR_MODIFY = 0x8000
"""Open vSwitch's OFPGC_ADD_OR_MOD: plain OpenFlow 1.3 wants to know whether a group exists already."""
_GROUP_COMMANDS = {"put": _ADD_OR_MODIFY, "delete": ofp.OFPGC_DELETE}
_METER_COMMANDS = {"add": ofp.OFPMC_ADD, "modify": ofp.OFPMC_MODIFY, "delete": ofp.OFPMC_DELETE}
_ROLES = {"equal": ofp.OFPCR_ROLE_EQUAL, "master": ofp.OFPCR_ROLE_MASTER, "slave": ofp.OFPCR_ROLE_SLAVE}


def flow_mod(datapath: Any, rule: FlowRule, *, delete: bool = False) -> Any:
    """The message that adds a rule, or deletes exactly it."""
    return parser.OFPFlowMod(
        datapath=datapath,
        cookie=rule.cookie,
        table_id=int(rule.table),
        command=ofp.OFPFC_DELETE_STRICT if delete else ofp.OFPFC_ADD,
        priority=rule.priority,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=ryu_match.write_match(rule.match),
        instructions=ryu_rules.write_instructions(rule),
    )


def group_mod(datapath: Any, group: Group, command: str) -> Any:
    """The message that changes a group; *command* is ``put`` (make or replace) or ``delete``."""
    buckets = [] if command == "delete" else ryu_rules.write_buckets(group)
    kind = ryu_rules.group_type(group)
    return parser.OFPGroupMod(datapath, _GROUP_COMMANDS[command], kind, group.number, buckets)


def meter_mod(datapath: Any, meter: Meter, command: str) -> Any:
    """The message that changes a meter; *command* is ``add``, ``modify`` or ``delete``."""
    bands = [] if command == "delete" else [parser.OFPMeterBandDrop(meter.rate_pps, meter.burst_packets)]
    flags = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    return parser.OFPMeterMod(datapath, _METER_COMMANDS[command], flags, meter.number, bands)


def packet_out(datapath: Any, port: int, data: bytes) -> Any:
    """The message that makes a switch send a frame by a port."""
    return parser.OFPPacketOut(datapath, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, [parser.OFPActionOutput(port)], data)


def role_request(datapath: Any, role: str, generation: int) -> Any:
    """The message that asks for a role: ``equal``, ``master`` or ``slave``."""
    return parser.OFPRoleRequest(datapath, _ROLES[role], generation)


def clear_all(datapath: Any) -> list[Any]:
    """The messages that delete every flow entry of every table, every group and every meter."""
    flows = parser.OFPFlowMod(
        datapath=datapath,
        table_id=ofp.OFPTT_ALL,
        command=ofp.OFPFC_DELETE,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=parser.OFPMatch(),
        instructions=[],
    )
    groups = parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, ofp.OFPG_ALL, [])
    meters = parser.OFPMeterMod(datapath, ofp.OFPMC_DELETE, 0, ofp.OFPM_ALL, [])
    return [flows, groups, meters]


def barrier(datapath: Any) -> Any:
    """The message that a switch answers once it has done everything before."""
    return parser.OFPBarrierRequest(datapath)


def delete_exactly(datapath: Any, table: int, priority: int, match: Any) -> Any:
    """The message that deletes one entry, whoever made it; *match* is Ryu's."""
    return parser.OFPFlowMod(
        datapath=datapath,
        table_id=table,
        command=ofp.OFPFC_DELETE_STRICT,
        priority=priority,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=match,
        instructions=[],
    )


def delete_group(datapath: Any, number: int) -> Any:
    """The message that deletes a group, whatever is in it."""
    return parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, number, [])


def delete_meter(datapath: Any, number: int) -> Any:
    """The message that deletes a meter, whatever is in it."""
    return parser.OFPMeterMod(datapath, ofp.OFPMC_DELETE, 0, number, [])


def flows_request(datapath: Any, purpose: Purpose | None = None) -> Any:
    """Ask for all flow entries, or for ours of one purpose."""
    cookie, mask = (cookie_of(purpose), _OWNER_AND_PURPOSE) if purpose is not None else (0, 0)
    return parser.OFPFlowStatsRequest(
        datapath, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, cookie, mask, parser.OFPMatch()
    )


def groups_request(datapath: Any) -> Any:
    """Ask for all groups."""
    return parser.OFPGroupDescStatsRequest(datapath, 0)


def group_counters_request(datapath: Any) -> Any:
    """Ask for the counters of all groups."""
    return parser.OFPGroupStatsRequest(datapath, 0, ofp.OFPG_ALL)


def meters_request(datapath: Any) -> Any:
    """Ask for all meters."""
    return parser.OFPMeterConfigStatsRequest(datapath, 0, ofp.OFPM_ALL)


def ports_request(datapath: Any) -> Any:
    """Ask for the counters of all ports."""
    return parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)


def read_flow(dpid: int, stats: Any) -> FlowStat:
    """One entry of a flow statistics reply."""
    ryu = {
        "priority": stats.priority,
        "cookie": stats.cookie,
        "idle_timeout": stats.idle_timeout,
        "hard_timeout": stats.hard_timeout,
        "byte_count": stats.byte_count,
        "duration_sec": stats.duration_sec,
        "duration_nsec": stats.duration_nsec,
        "packet_count": stats.packet_count,
        "length": stats.length,
        "flags": stats.flags,
        "actions": _actions_text(stats.instructions),
        "match": ofctl_v1_3.match_to_str(stats.match),
        "table_id": ofctl_v1_3.UTIL.ofp_table_to_user(stats.table_id),
    }
    duration_ns = stats.duration_sec * _NS + stats.duration_nsec
    return FlowStat(ryu_rules.read_rule(dpid, stats), stats.packet_count, stats.byte_count, duration_ns, ryu)


def _actions_text(instructions: list[Any]) -> list[Any]:
    try:
        return list(ofctl_v1_3.actions_to_str(instructions))
    except Exception:  # noqa: BLE001 - Ryu's library raises whatever an action that it has no words for leads it to
        return ["UNKNOWN"]


def read_group_counters(stats: Any) -> GroupStat:
    """One entry of a group statistics reply."""
    buckets = tuple((bucket.packet_count, bucket.byte_count) for bucket in stats.bucket_stats)
    return GroupStat(stats.group_id, stats.packet_count, stats.byte_count, buckets)


def read_reported(message: Any) -> Reported:
    """A packet that a rule handed to the controller."""
    port = message.match.get("in_port", 0)
    return Reported(message.datapath.id, port, message.cookie, message.table_id, bytes(message.data))


def read_port(stats: Any) -> PortStat:
    """One entry of a port statistics reply."""
    ryu = {name: getattr(stats, name) for name in _PORT_COUNTERS}
    ryu["port_no"] = ofctl_v1_3.UTIL.ofp_port_to_user(stats.port_no)
    return PortStat(
        port=stats.port_no,
        duration_ns=stats.duration_sec * _NS + stats.duration_nsec,
        ryu=ryu,
        **{name: ryu[name] for name in _PORT_COUNTERS[:8]},
    )


def read_port_description(description: Any) -> Port:
    """A port as described by its switch."""
    down = description.config & ofp.OFPPC_PORT_DOWN or description.state & ofp.OFPPS_LINK_DOWN
    name = description.name.decode("utf-8", "replace")
    return Port(description.port_no, name, description.hw_addr, not down)


def is_reserved(port: int) -> bool:
    """Whether a port number stands for something else than a port, for example the switch itself."""
    return bool(port > ofp.OFPP_MAX)


def error_text(message: Any) -> str:
    """What a switch complains about, in words."""
    kind = ofp.ofp_error_type_to_str(message.type)
    if message.code is None:  # Open vSwitch says so what OpenFlow 1.3 has no code for
        return f"{kind} {message.exp_type} of experimenter {message.experimenter:#x}"
    return f"{kind} {ofp.ofp_error_code_to_str(message.type, message.code)}"


def is_demotion(message: Any) -> bool:
    """Whether an error says that another controller has become the switch's master meanwhile."""
    return (message.type, getattr(message, "code", None)) in (
        (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE),
        (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE),
    )
