"""The control protocol of gateways, version 2: JSON objects, one a line, over a Unix stream socket.

::

    -> {"v": 2, "id": 1, "op": "hello", "versions": [1, 2]}
    <- {"v": 2, "id": 1, "ok": true, "result": {"version": 2, "mode": "forward", "operations": ["hello", ...]}}
    -> {"v": 2, "id": 2, "op": "flows.list", "limit": 9000}
    <- {"v": 2, "id": 2, "ok": false, "error": {"code": "invalid", "message": "limit: ... less than or equal to 1000"}}

Each request is answered once, with its ``id``; answers to ``drain`` and ``stop`` come when nothing is held any more,
all others in order. ``hello`` may come at any time or never; it settles the highest version that both ends speak.
What is said in requests, policies and flows among others, is in `emulator.messages.gateway_state`.
Version 1 (``stats``, ``drain`` and ``stop`` without ids) is still understood, see `gateway.control_requests`.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from emulator.messages.gateway_state import (
    MAX_ENTRIES,
    AnyPort,
    Endpoint,
    Flow,
    FlowKey,
    Message,
    NextHop,
    Policies,
    Profile,
    Protocol,
    Route,
    Rule,
    ServiceName,
    Tenant,
    TenantNumber,
    Tunnel,
)

__all__ = [
    "MAX_ENTRIES",
    "MAX_FLOWS",
    "MAX_LINE_BYTES",
    "VERSION",
    "VERSIONS",
    "AnyPort",
    "DeleteFlows",
    "Drain",
    "Endpoint",
    "ErrorCode",
    "Flow",
    "FlowKey",
    "GetPolicies",
    "GetProfile",
    "GetStatistics",
    "Hello",
    "InstallFlows",
    "ListFlows",
    "Message",
    "NextHop",
    "Policies",
    "Profile",
    "Protocol",
    "Refused",
    "Reload",
    "Request",
    "Route",
    "Rule",
    "ServiceName",
    "SetPolicies",
    "SetProfile",
    "Stop",
    "Tenant",
    "TenantNumber",
    "Tunnel",
    "Upgrade",
    "one_line",
    "parse_policies",
    "parse_request",
]

VERSION = 2
VERSIONS = (1, 2)
MAX_LINE_BYTES = 1 << 20
MAX_FLOWS = 1000


class ErrorCode(str, Enum):
    """Why a request was refused."""

    MALFORMED = "malformed"
    """Not a JSON object on one line, or too long a line."""
    VERSION = "version"
    """A version that is not spoken here."""
    UNKNOWN_OPERATION = "unknown_operation"
    INVALID = "invalid"
    """A field is missing, unknown, or has a value that it cannot have."""
    UNSUPPORTED = "unsupported"
    """This kind of daemon does not do that."""
    CONFLICT = "conflict"
    """It was changed meanwhile by somebody else."""
    FAILED = "failed"
    """It was tried and went wrong."""


class _Request(Message):
    v: Literal[2]
    id: Annotated[int, Field(ge=0, lt=1 << 53)]


class Hello(_Request):
    """Settles a version; answered with it and with what the daemon is and can do."""

    op: Literal["hello"]
    versions: Annotated[tuple[int, ...], Field(min_length=1, max_length=16)]
    client: Annotated[str, Field(max_length=100)] = ""


class GetStatistics(_Request):
    """All figures."""

    op: Literal["stats"]


class Drain(_Request):
    """Take in no more and let out what is held; answered with the figures when nothing is held any more."""

    op: Literal["drain"]


class Stop(_Request):
    """The same, then end."""

    op: Literal["stop"]


class Reload(_Request):
    """Read the files that the daemon was started with again."""

    op: Literal["reload"]


class GetProfile(_Request):
    """What processing costs now."""

    op: Literal["profile.get"]


class SetProfile(_Request):
    """Let it cost something else from now on; what is under way leaves as was decided."""

    op: Literal["profile.set"]
    profile: Profile


class GetPolicies(_Request):
    """What the gateway was told last, and its revision; without the policies if the revision still is *known*."""

    op: Literal["policies.get"]
    known: Annotated[int, Field(ge=0)] | None = None


class SetPolicies(_Request):
    """Tell it anew; refused as a conflict if *if_revision* is not the revision that it has."""

    op: Literal["policies.set"]
    policies: Policies
    if_revision: Annotated[int, Field(ge=0)] | None = None


class ListFlows(_Request):
    """A page of flows, from the one behind *after*; the answer's ``next`` is the next page's, null at the end."""

    op: Literal["flows.list"]
    after: Annotated[int, Field(ge=-1)] = -1
    limit: Annotated[int, Field(ge=1, le=MAX_FLOWS)] = 100
    tenant: TenantNumber | None = None


class InstallFlows(_Request):
    """Decide about flows from outside, all of them or none."""

    op: Literal["flows.install"]
    flows: Annotated[tuple[Flow, ...], Field(min_length=1, max_length=MAX_FLOWS)]


class DeleteFlows(_Request):
    """Forget flows: those named, or all if *keys* is null. What comes next is decided anew."""

    op: Literal["flows.delete"]
    keys: Annotated[tuple[FlowKey, ...], Field(max_length=MAX_FLOWS)] | None


class Upgrade(_Request):
    """Hand everything over to the asking process, which takes this daemon's place.

    The answer comes with descriptors. The daemon stands still until the asking process says ``upgrade.taken`` over the
    same connection, and then ends; if the connection ends first it goes on.
    """

    op: Literal["upgrade"]


Request = Annotated[
    Hello
    | GetStatistics
    | Drain
    | Stop
    | Reload
    | GetProfile
    | SetProfile
    | GetPolicies
    | SetPolicies
    | ListFlows
    | InstallFlows
    | DeleteFlows
    | Upgrade,
    Field(discriminator="op"),
]
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Request)


class Refused(ValueError):
    """A request that is not carried out.

    Attributes:
        code: Why.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def parse_request(line: bytes) -> Request:
    """Check one line that says that it is of version 2.

    Raises:
        Refused: In one line, what is wrong and where.
    """
    try:
        return _REQUESTS.validate_json(line)
    except ValidationError as error:
        # The first part of a place is the operation, by which the kind of request was chosen.
        raise _refusal(error, 1) from None


def parse_policies(document: Any) -> Policies:
    """Check a document that was read from JSON.

    Raises:
        Refused: In one line, what is wrong and where.
    """
    try:
        return Policies.model_validate(document, strict=False)
    except ValidationError as error:
        raise _refusal(error, 0) from None


def _refusal(error: ValidationError, skip: int) -> Refused:
    first, count = error.errors(include_url=False, include_context=False)[0], error.error_count()
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return Refused(ErrorCode.UNKNOWN_OPERATION, one_line(first["msg"]))
    code = ErrorCode.MALFORMED if first["type"] == "json_invalid" else ErrorCode.INVALID
    where = ".".join(str(part) for part in first["loc"][skip:])
    more = f" (and {count - 1} more)" if count > 1 else ""
    return Refused(code, one_line(f"{where}: {first['msg']}" if where else first["msg"]) + more)


def one_line(text: str, most: int = 300) -> str:
    """A text as a short line of ASCII."""
    shown = " ".join(text.split()).encode("ascii", "backslashreplace").decode()
    return shown if len(shown) <= most else shown[: most - 3] + "..."
