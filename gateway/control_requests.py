"""What is asked over a control socket and what is answered, without the socket: lines in, lines out.

Version 1 has three operations and no ids::

    -> {"v": 1, "op": "stats"}
    <- {"v": 1, "ok": true, "op": "stats", "stats": {...}}
    -> {"v": 1, "op": "fly"}
    <- {"v": 1, "ok": false, "error": "'op' is 'fly': it is one of drain, stats, stop"}

Version 2 is `emulator.messages.gateway`. A daemon offers what its kind can do, see `gateway.offers`. The module of
messages is imported with the first request of version 2, since most daemons never get one and what checks schemas takes
longer to load than the daemon itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from emulator.errors import EmulatorError
from gateway.offers import Controlled, Profiled, Reloadable, Steered, Upgradable, operations

if TYPE_CHECKING:
    from emulator.messages import gateway as messages

__all__ = [
    "MAX_LINE_BYTES",
    "TAKEN",
    "VERSION",
    "VERSIONS",
    "Controlled",
    "Op",
    "Question",
    "Reply",
    "RequestError",
    "answer_later",
    "encode",
    "handle",
    "operations",
    "parse_request",
    "refusal",
    "says_taken",
]

VERSION = 1
VERSIONS = (1, 2)
MAX_LINE_BYTES = 1 << 20
TAKEN = "upgrade.taken"
"""What a successor says after ``upgrade`` when it has taken everything over; the old daemon then ends."""


class Op(str, Enum):
    """What a client can ask for in version 1."""

    DRAIN = "drain"
    STATS = "stats"
    STOP = "stop"


class RequestError(ValueError):
    """A message that is not a request; its text is the answer."""


@dataclass(frozen=True)
class Question:
    """A request that is answered when nothing is held any more.

    Attributes:
        version: Of the protocol.
        number: Its id in version 2.
        op: ``drain`` or ``stop``.
    """

    version: int
    number: int | None
    op: str


@dataclass
class Reply:
    """What a line led to.

    Attributes:
        data: What is to be sent; empty: nothing yet.
        later: What is to be answered when nothing is held any more.
        descriptors: What is to be sent along.
        hands_over: The daemon's successor has everything once this is sent.
    """

    data: bytes = b""
    later: Question | None = None
    descriptors: tuple[int, ...] = ()
    hands_over: bool = False


def parse_request(line: bytes) -> Op:
    """Read one line of version 1.

    Raises:
        RequestError: It is not a request.
    """
    return _parse_first(_read_object(line))


def _read_object(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestError("not a JSON object on one line") from None
    if not isinstance(message, dict):
        raise RequestError("not a JSON object")
    version = message.get("v")
    if type(version) is not int or version not in VERSIONS:
        raise RequestError(f"'v' is {_shown(version)}: this daemon speaks versions 1 and 2")
    return message


def _parse_first(message: dict[str, Any]) -> Op:
    if message["v"] != VERSION:
        raise RequestError(f"'v' is {message['v']}, not 1")
    if unknown := sorted(set(message) - {"v", "op"}):
        raise RequestError(f"unknown key {_shown(unknown[0])}")
    op = message.get("op")
    try:
        return Op(op)
    except ValueError:
        raise RequestError(f"'op' is {_shown(op)}: it is one of {', '.join(Op)}") from None


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def encode(message: dict[str, Any]) -> bytes:
    """A message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def refusal(version: int, text: str) -> bytes:
    """The answer to what is no request at all, for a client that speaks *version*."""
    if version == VERSION:
        return encode({"v": 1, "ok": False, "error": text})
    return encode({"v": 2, "id": None, "ok": False, "error": {"code": "malformed", "message": text}})


def answer_later(question: Question, stats: dict[str, Any]) -> bytes:
    """The answer to a question that waited."""
    if question.version == VERSION:
        return encode({"v": 1, "ok": True, "op": question.op, "stats": stats})
    return _result(question.number, {"stats": stats})


def _result(number: int | None, result: dict[str, Any]) -> bytes:
    return encode({"v": 2, "id": number, "ok": True, "result": result})


def says_taken(line: bytes) -> bool:
    """Whether a line is what a successor says when it has taken over."""
    try:
        message = _read_object(line)
    except RequestError:
        return False
    return message.get("op") == TAKEN


def handle(line: bytes, daemon: Controlled, spoken: int) -> tuple[Reply, int]:
    """Carry out what a line asks for.

    Args:
        line: What was received, without its end.
        daemon: Who carries it out.
        spoken: The version that this client spoke last: refusals of what has no version are of this one.

    Returns:
        What is to be sent, and the version that the client speaks.
    """
    try:
        message = _read_object(line)
        if message["v"] == VERSION:
            return _handle_first(_parse_first(message), daemon), VERSION
    except RequestError as error:
        return Reply(refusal(spoken, str(error))), spoken
    return _handle_second(line, message, daemon), 2


def _handle_first(op: Op, daemon: Controlled) -> Reply:
    if op is Op.STATS:
        return Reply(encode({"v": 1, "ok": True, "op": "stats", "stats": daemon.stats()}))
    return _begin(Question(1, None, op.value), daemon)


def _begin(question: Question, daemon: Controlled) -> Reply:
    if question.op == Op.STOP:
        daemon.stop()
    else:
        daemon.drain()
    return Reply(later=question)


def _handle_second(line: bytes, message: dict[str, Any], daemon: Controlled) -> Reply:
    from emulator.messages import gateway as messages

    number = message.get("id")
    number = number if type(number) is int and 0 <= number < 1 << 53 else None
    try:
        request = messages.parse_request(line)
        if isinstance(request, messages.Drain | messages.Stop):
            return _begin(Question(2, number, request.op), daemon)
        if isinstance(request, messages.Upgrade):
            result, descriptors = _offers(daemon, Upgradable, request.op).hand_over()
            return Reply(_result(number, result), descriptors=tuple(descriptors), hands_over=True)
        return Reply(_result(number, _carry_out(request, daemon)))
    except messages.Refused as error:
        code, text = error.code.value, str(error)
    except EmulatorError as error:
        code, text = messages.ErrorCode.FAILED.value, messages.one_line(str(error))
    return Reply(encode({"v": 2, "id": number, "ok": False, "error": {"code": code, "message": text}}))


def _offers(daemon: Controlled, kind: type[Any], op: str) -> Any:
    from emulator.messages import gateway as messages

    if not isinstance(daemon, kind):
        raise messages.Refused(messages.ErrorCode.UNSUPPORTED, f"a {daemon.mode} daemon does not do {op}")
    return daemon


def _hello(request: messages.Hello, daemon: Controlled) -> dict[str, Any]:
    from emulator.messages import gateway as messages

    common = set(request.versions) & set(VERSIONS)
    if not common:
        ours = " and ".join(str(version) for version in VERSIONS)
        theirs = ", ".join(str(version) for version in request.versions)
        raise messages.Refused(messages.ErrorCode.VERSION, f"this daemon speaks versions {ours}, not {theirs}")
    return {
        "version": max(common),
        "versions": list(VERSIONS),
        "mode": daemon.mode,
        "operations": operations(daemon),
    }


def _carry_out(request: messages.Request, daemon: Controlled) -> dict[str, Any]:
    from emulator.messages import gateway as messages

    op = request.op
    match request:
        case messages.Hello():
            return _hello(request, daemon)
        case messages.GetStatistics():
            return {"stats": daemon.stats()}
        case messages.Reload():
            result: dict[str, Any] = _offers(daemon, Reloadable, op).reload()
            return result
        case messages.GetProfile():
            return {"profile": _offers(daemon, Profiled, op).profile()}
        case messages.SetProfile():
            _offers(daemon, Profiled, op).set_profile(request.profile)
            return {"profile": _offers(daemon, Profiled, op).profile()}
    steered: Steered = _offers(daemon, Steered, op)
    match request:
        case messages.GetPolicies():
            return steered.policies(request.known)
        case messages.SetPolicies():
            return {"revision": steered.set_policies(request.policies, request.if_revision)}
        case messages.ListFlows():
            return steered.list_flows(request.after, request.limit, request.tenant)
        case messages.InstallFlows():
            return {"flows": steered.install_flows(request.flows)}
        case messages.DeleteFlows():
            return {"deleted": steered.delete_flows(request.keys)}
    raise TypeError(f"{op} is not handled")
