"""Bodies of Ryu's resources: JSON, or what Ryu itself reads them with, Python's notation for values.

Ryu ignores members that it does not know, and drops actions and match fields of unknown names. Here they are refused.
"""

from __future__ import annotations

import ast
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from controller.rest.body import PYTHON_QUOTES, check_depth, decode, parse_json
from controller.rest.http import MOST_SHOWN, Problem

_MOST_PYTHON_BYTES = 65_536
_HEX = r"^(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}|[A-Z][A-Z0-9_]{0,39})$"
Number = Annotated[int, Field(ge=0, lt=1 << 64, strict=True)] | Annotated[str, Field(pattern=_HEX)]
"""A number, or a text with a decimal or hexadecimal number or OpenFlow's name of one."""
MATCH_FIELDS = (
    *("in_port", "in_phy_port", "metadata", "dl_dst", "dl_src", "eth_dst", "eth_src", "dl_type", "eth_type"),
    *("dl_vlan", "vlan_vid", "vlan_pcp", "ip_dscp", "ip_ecn", "nw_proto", "ip_proto", "nw_src", "nw_dst"),
    *("ipv4_src", "ipv4_dst", "tp_src", "tp_dst", "tcp_src", "tcp_dst", "udp_src", "udp_dst", "sctp_src", "sctp_dst"),
    *("icmpv4_type", "icmpv4_code", "arp_op", "arp_spa", "arp_tpa", "arp_sha", "arp_tha", "ipv6_src", "ipv6_dst"),
    *("ipv6_flabel", "icmpv6_type", "icmpv6_code", "ipv6_nd_target", "ipv6_nd_sll", "ipv6_nd_tll", "mpls_label"),
    *("mpls_tc", "mpls_bos", "pbb_isid", "tunnel_id", "ipv6_exthdr"),
)
PLAIN_ACTIONS = (
    *("OUTPUT", "COPY_TTL_OUT", "COPY_TTL_IN", "SET_MPLS_TTL", "DEC_MPLS_TTL", "PUSH_VLAN", "POP_VLAN", "PUSH_MPLS"),
    *("POP_MPLS", "SET_QUEUE", "GROUP", "SET_NW_TTL", "DEC_NW_TTL", "SET_FIELD", "PUSH_PBB", "POP_PBB"),
    "EXPERIMENTER",
)
INSTRUCTIONS = ("WRITE_ACTIONS", "CLEAR_ACTIONS", "GOTO_TABLE", "WRITE_METADATA", "METER")
_MATCH = "Header fields by Ryu's names, for example `in_port`, `eth_type`, `ipv4_dst` or the older `nw_dst`."
_ACTIONS = "Objects with a `type` like `OUTPUT`, `SET_FIELD` or `GOTO_TABLE`, and what the type needs."


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FlowFilter(_Body):
    """Which flow entries."""

    table_id: Number | None = None
    flags: Number | None = None
    out_port: Number | None = None
    out_group: Number | None = None
    cookie: Number | None = None
    cookie_mask: Number | None = None
    priority: Number | None = None
    match: Annotated[dict[str, Any], Field(description=_MATCH)] = {}


class FlowBody(FlowFilter):
    """A flow entry, or which entries are to be modified or deleted."""

    dpid: Number
    idle_timeout: Number | None = None
    hard_timeout: Number | None = None
    buffer_id: Number | None = None
    actions: Annotated[tuple[dict[str, Any], ...], Field(description=_ACTIONS, max_length=1024)] = ()


class BucketBody(_Body):
    """One choice of a group."""

    weight: Number | None = None
    watch_port: Number | None = None
    watch_group: Number | None = None
    actions: Annotated[tuple[dict[str, Any], ...], Field(max_length=1024)] = ()


class GroupBody(_Body):
    """A group."""

    dpid: Number
    type: Literal["ALL", "SELECT", "INDIRECT", "FF"] | None = None
    group_id: Number | None = None
    buckets: Annotated[tuple[BucketBody, ...], Field(max_length=1024)] = ()


MeterFlag = Literal["KBPS", "PKTPS", "BURST", "STATS"]


class BandBody(_Body):
    """What happens above a rate."""

    type: Literal["DROP", "DSCP_REMARK", "EXPERIMENTER"]
    rate: Number | None = None
    burst_size: Number | None = None
    prec_level: Number | None = None
    experimenter: Number | None = None


class MeterBody(_Body):
    """A meter."""

    dpid: Number
    flags: MeterFlag | Annotated[tuple[MeterFlag, ...], Field(max_length=8)] = ()
    meter_id: Number | None = None
    bands: Annotated[tuple[BandBody, ...], Field(max_length=64)] = ()


class PortBody(_Body):
    """How a port is to behave."""

    dpid: Number
    port_no: Number
    config: Number | None = None
    mask: Number | None = None
    hw_addr: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")] | None = None
    advertise: Number | None = None


class RoleBody(_Body):
    """The role that this connection is to have in the switch."""

    dpid: Number
    role: Literal["EQUAL", "MASTER", "SLAVE", "NOCHANGE"] | None = None


class ExperimenterBody(_Body):
    """An experimenter message."""

    dpid: Number | None = None
    experimenter: Number | None = None
    exp_type: Number | None = None
    data_type: Literal["ascii", "base64"] | None = None
    data: Annotated[str, Field(max_length=60_000)] = ""


def parse(body: bytes) -> dict[str, Any]:
    """A body's object.

    Raises:
        Problem: It is none, in either notation.
    """
    try:
        data = parse_json(body)
    except Problem as problem:
        data = _python(body, problem)
    if not isinstance(data, dict):
        raise Problem(400, "the body is not an object")
    return data


def _python(body: bytes, problem: Problem) -> Any:
    if problem.status != 400 or len(body) > _MOST_PYTHON_BYTES:
        raise problem
    text = decode(body)
    check_depth(body, PYTHON_QUOTES)
    try:
        data = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise problem from None
    return _plain(data, problem)


def _plain(data: Any, problem: Problem) -> Any:
    """Python's values as those of JSON; others are refused."""
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        return {key: _plain(value, problem) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value, problem) for value in data]
    if data is None or isinstance(data, (str, bool, int)):
        return data
    raise problem


def check_match(match: dict[str, Any], where: tuple[str | int, ...] = ("match",)) -> None:
    """Refuse match fields that Ryu would drop.

    Raises:
        Problem: There is one.
    """
    for key, value in match.items():
        if key not in MATCH_FIELDS:
            raise _wrong(where, f"{key[:MOST_SHOWN]!r} is not a match field of OpenFlow 1.3")
        if isinstance(value, (dict, list)) or value is None:
            raise _wrong((*where, key), "is a number or a text")


def check_actions(actions: Any, where: tuple[str | int, ...], allowed: tuple[str, ...]) -> None:
    """Refuse actions that Ryu would drop.

    Raises:
        Problem: There is one.
    """
    if not isinstance(actions, (list, tuple)):
        raise _wrong(where, "is a list")
    for index, action in enumerate(actions):
        kind = action.get("type") if isinstance(action, dict) else None
        if kind not in allowed:
            shown = repr(kind)[:MOST_SHOWN]
            raise _wrong((*where, index), f"has the type {shown}, which is none of {', '.join(allowed)}")
        if kind == "WRITE_ACTIONS":
            check_actions(action.get("actions"), (*where, index, "actions"), PLAIN_ACTIONS)


def _wrong(where: tuple[str | int, ...], detail: str) -> Problem:
    from controller.rest.validation import pointer, unprocessable

    return unprocessable([{"pointer": pointer(where), "detail": detail}])
