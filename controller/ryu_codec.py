"""Translates between the project's plain data and Ryu's OpenFlow 1.3 messages. Holds no state and sends nothing."""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

from typing import Any

from ryu.lib import ofctl_v1_3
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.events import Port
from controller.flows import FlowRule, Match, Table
from controller.stats import FlowStat, PortStat

_PLAIN_FIELDS = frozenset(
    ("in_port", "metadata", "eth_src", "eth_dst", "eth_type", "ip_proto", "ipv4_src", "ipv4_dst", "tcp_src", "tcp_dst")
)
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
_TABLES = frozenset(Table)
_FULL_METADATA = (1 << 64) - 1
_NS = 10**9


def flow_mod(datapath: Any, rule: FlowRule, *, delete: bool = False) -> Any:
    """The message that adds a rule, or deletes exactly it."""
    actions = []
    if rule.set_eth_dst is not None:
        actions.append(parser.OFPActionSetField(eth_dst=rule.set_eth_dst))
    if rule.output is not None:
        actions.append(parser.OFPActionOutput(rule.output))
    instructions = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    if rule.write_metadata is not None:
        instructions.append(parser.OFPInstructionWriteMetadata(rule.write_metadata, _FULL_METADATA))
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(int(rule.goto)))
    return parser.OFPFlowMod(
        datapath=datapath,
        cookie=rule.cookie,
        table_id=int(rule.table),
        command=ofp.OFPFC_DELETE_STRICT if delete else ofp.OFPFC_ADD,
        priority=rule.priority,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=_match(rule.match),
        instructions=instructions,
    )


def clear_all(datapath: Any) -> Any:
    """The message that deletes every flow entry of every table."""
    return parser.OFPFlowMod(
        datapath=datapath,
        table_id=ofp.OFPTT_ALL,
        command=ofp.OFPFC_DELETE,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=parser.OFPMatch(),
        instructions=[],
    )


def barrier(datapath: Any) -> Any:
    """The message that a switch answers once it has done everything before."""
    return parser.OFPBarrierRequest(datapath)


def flows_request(datapath: Any) -> Any:
    """Ask for all flow entries."""
    return parser.OFPFlowStatsRequest(datapath, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, parser.OFPMatch())


def ports_request(datapath: Any) -> Any:
    """Ask for the counters of all ports."""
    return parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)


def description_request(datapath: Any) -> Any:
    """Ask for the switch's description."""
    return parser.OFPDescStatsRequest(datapath, 0)


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
        "actions": ofctl_v1_3.actions_to_str(stats.instructions),
        "match": ofctl_v1_3.match_to_str(stats.match),
        "table_id": ofctl_v1_3.UTIL.ofp_table_to_user(stats.table_id),
    }
    duration_ns = stats.duration_sec * _NS + stats.duration_nsec
    return FlowStat(_rule(dpid, stats), stats.packet_count, stats.byte_count, duration_ns, ryu)


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


def read_description(stats: Any) -> dict[str, Any]:
    """A description reply in the shape of Ryu's ``/stats/desc``."""
    described: dict[str, Any] = stats.to_jsondict()[type(stats).__name__]
    return described


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
    code = ofp.ofp_error_code_to_str(message.type, message.code) if hasattr(message, "code") else "experimenter"
    return f"{kind} {code}"


def _match(match: Match) -> Any:
    fields: dict[str, Any] = match.set_fields()
    mask = fields.pop("tcp_src_mask", None)
    if mask is not None:
        fields["tcp_src"] = (fields["tcp_src"], mask)
    return parser.OFPMatch(**fields)


def _rule(dpid: int, stats: Any) -> FlowRule | None:
    """The entry as a rule of ours, or None if it does anything that such a rule cannot say."""
    match = _read_match(stats.match)
    if match is None or stats.table_id not in _TABLES or stats.idle_timeout or stats.hard_timeout:
        return None
    fields: dict[str, Any] = {}
    for instruction in stats.instructions:
        found = _read_instruction(instruction)
        if found is None or found.keys() & fields.keys():
            return None
        fields |= found
    return FlowRule(dpid, Table(stats.table_id), stats.priority, match, cookie=stats.cookie, **fields)


def _read_match(match: Any) -> Match | None:
    fields: dict[str, Any] = {}
    for name, value in match.items():
        if name == "tcp_src" and isinstance(value, tuple):
            fields["tcp_src"], fields["tcp_src_mask"] = value
        elif name not in _PLAIN_FIELDS or isinstance(value, tuple):
            return None
        else:
            fields[name] = value
    return Match(**fields)


def _read_instruction(instruction: Any) -> dict[str, Any] | None:
    if isinstance(instruction, parser.OFPInstructionGotoTable):
        return {"goto": Table(instruction.table_id)} if instruction.table_id in _TABLES else None
    if isinstance(instruction, parser.OFPInstructionWriteMetadata):
        full = instruction.metadata_mask == _FULL_METADATA
        return {"write_metadata": instruction.metadata} if full else None
    if isinstance(instruction, parser.OFPInstructionActions) and instruction.type == ofp.OFPIT_APPLY_ACTIONS:
        return _read_actions(instruction.actions)
    return None


def _read_actions(actions: Any) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    for action in actions:
        if "output" in fields:
            return None  # nothing may follow an output, not even another one
        if isinstance(action, parser.OFPActionOutput):
            fields["output"] = action.port
        elif isinstance(action, parser.OFPActionSetField) and action.key == "eth_dst" and not fields:
            fields["set_eth_dst"] = action.value
        else:
            return None
    return fields
