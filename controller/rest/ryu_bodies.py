"""Bodies of Ryu's resources: JSON, or what Ryu itself reads them with, Python's notation for values.

Ryu ignores members that it does not know, and drops actions and match fields of unknown names. Here they are refused.
"""

from __future__ import annotations

import ast
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from controller.rest.body import PYTHON_QUOTES, check_depth, decode, parse_json
from controller.rest.http import MOST_SHOWN, Problem
from controller.rest.validation import pointer, unprocessable

_MOST_PYTHON_BYTES = 65_536
_NUMERAL = r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}"
_NUMBER = re.compile(_NUMERAL, re.ASCII)
_NAMED = re.compile(rf"{_NUMERAL}|[A-Z][A-Z0-9_]{{0,39}}", re.ASCII)
_SMALL = {"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1}


def _number(value: object) -> int | str:
    return _checked(value, _NUMBER, "is a number, or a text with a decimal or hexadecimal one")


def _named(value: object) -> int | str:
    return _checked(value, _NAMED, "is a number, a text with a decimal or hexadecimal one, or OpenFlow's name of one")


def _checked(value: object, pattern: re.Pattern[str], expected: str) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    raise ValueError(expected)


def _texts(pattern: re.Pattern[str]) -> dict[str, Any]:
    return {"anyOf": [_SMALL, {"type": "string", "pattern": f"^({pattern.pattern})$"}]}


def _some_action(kinds: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": {"type": {"type": "string", "enum": list(kinds)}}, "required": ["type"]}


Plain = Annotated[int | str, PlainValidator(_number), WithJsonSchema(_texts(_NUMBER))]
"""A number, or a text with one."""
Number = Annotated[int | str, PlainValidator(_named), WithJsonSchema(_texts(_NAMED))]
"""A number, or a text with one or with OpenFlow's name of one, for example ``CONTROLLER``."""
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
WRITE_ACTIONS = "WRITE_ACTIONS"
INSTRUCTIONS = (WRITE_ACTIONS, "CLEAR_ACTIONS", "GOTO_TABLE", "WRITE_METADATA", "METER")
_MATCH = "Header fields by Ryu's names, for example `in_port`, `eth_type`, `ipv4_dst` or the older `nw_dst`."
_ACTIONS = "Objects with a `type` like `OUTPUT`, `SET_FIELD` or `GOTO_TABLE`, and what the type needs."


Action = Annotated[dict[str, Any], WithJsonSchema(_some_action(PLAIN_ACTIONS))]
_WRITE = {
    "type": "object",
    "properties": {
        "type": {"const": WRITE_ACTIONS},
        "actions": {"type": "array", "items": _some_action(PLAIN_ACTIONS)},
    },
    "required": ["type", "actions"],
}
Instruction = Annotated[
    dict[str, Any], WithJsonSchema({"anyOf": [_some_action(PLAIN_ACTIONS + INSTRUCTIONS[1:]), _WRITE]})
]
Match = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": _MATCH,
            "properties": {name: {"anyOf": [_SMALL, {"type": "string"}]} for name in MATCH_FIELDS},
            "additionalProperties": False,
        }
    ),
]


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
    match: Match = Field(default_factory=dict)


class FlowBody(FlowFilter):
    """A flow entry, or which entries are to be modified or deleted."""

    dpid: Plain
    idle_timeout: Number | None = None
    hard_timeout: Number | None = None
    buffer_id: Number | None = None
    actions: Annotated[tuple[Instruction, ...], Field(description=_ACTIONS, max_length=1024)] = ()


class BucketBody(_Body):
    """One choice of a group."""

    weight: Number | None = None
    watch_port: Number | None = None
    watch_group: Number | None = None
    actions: Annotated[tuple[Action, ...], Field(max_length=1024)] = ()


class GroupBody(_Body):
    """A group."""

    dpid: Plain
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

    dpid: Plain
    flags: MeterFlag | Annotated[tuple[MeterFlag, ...], Field(max_length=8)] = ()
    meter_id: Number | None = None
    bands: Annotated[tuple[BandBody, ...], Field(max_length=64)] = ()


class PortBody(_Body):
    """How a port is to behave."""

    dpid: Plain
    port_no: Number
    config: Number | None = None
    mask: Number | None = None
    hw_addr: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")] | None = None
    advertise: Number | None = None


class RoleBody(_Body):
    """The role that this connection is to have in the switch."""

    dpid: Plain
    role: Literal["EQUAL", "MASTER", "SLAVE", "NOCHANGE"] | None = None


class ExperimenterBody(_Body):
    """An experimenter message."""

    dpid: Plain | None = None
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
        if not isinstance(value, str) and (type(value) is not int or not 0 <= value < 1 << 64):
            raise _wrong((*where, key), "is a number of at most 64 bits, or a text")


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
        if kind == WRITE_ACTIONS:
            check_actions(action.get("actions"), (*where, index, "actions"), PLAIN_ACTIONS)


def _wrong(where: tuple[str | int, ...], detail: str) -> Problem:
    return unprocessable([{"pointer": pointer(where), "detail": detail}])
