"""The control protocol of gateways, version 2: JSON objects, one a line, over a Unix stream socket.

::

    -> {"v": 2, "id": 1, "op": "hello", "versions": [1, 2]}
    <- {"v": 2, "id": 1, "ok": true, "result": {"version": 2, "mode": "forward", "operations": ["hello", ...]}}
    -> {"v": 2, "id": 2, "op": "flows.list", "limit": 9000}
    <- {"v": 2, "id": 2, "ok": false, "error": {"code": "invalid", "message": "limit: ... less than or equal to 1000"}}

Each request is answered once, with its ``id``; answers to ``drain`` and ``stop`` come when nothing is held any more,
all others in order. ``hello`` may come at any time or never; it settles the highest version that both ends speak.
Version 1 (``stats``, ``drain`` and ``stop`` without ids) is still understood, see `gateway.control_requests`.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

VERSION = 2
VERSIONS = (1, 2)
MAX_LINE_BYTES = 1 << 20
MAX_FLOWS = 1000
MAX_ENTRIES = 20_000


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


class Message(BaseModel):
    """What all messages have in common: unknown keys are errors, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Port = Annotated[int, Field(ge=1, le=65535)]
AnyPort = Annotated[int, Field(ge=0, le=65535)]
TenantNumber = Annotated[int, Field(ge=0, le=65535)]
Protocol = Annotated[int, Field(ge=0, le=255)]
Mac = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Vlan = Annotated[int, Field(ge=1, le=4094)]
Vni = Annotated[int, Field(ge=0, le=(1 << 24) - 1)]
PortNumber = Annotated[int, Field(ge=0, le=255)]
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
ServiceName = Literal["other", "block", "file", "object", "compute"]


# What a gateway is told about its surroundings.


class Tenant(Message):
    """A tenant: how its frames are known, and which addresses they may come from (None: any)."""

    number: TenantNumber
    vlans: tuple[Vlan, ...] = ()
    ports: tuple[PortNumber, ...] = ()
    vnis: tuple[Vni, ...] = ()
    addresses: tuple[Network, ...] | None = None


class Rule(Message):
    """A rule; what is None matches anything. Ports are first and last."""

    allow: bool
    tenant: TenantNumber | None = None
    service: ServiceName | None = None
    protocol: Protocol | None = None
    source: Network | None = None
    target: Network | None = None
    source_ports: tuple[AnyPort, AnyPort] = (0, 65535)
    target_ports: tuple[AnyPort, AnyPort] = (0, 65535)


class Endpoint(Message):
    """A service's address and port, and the backend that does its work."""

    protocol: Literal[6, 17]
    address: Address
    port: Port
    backend: Address
    backend_port: Port
    tenant: TenantNumber | None = None


class Tunnel(Message):
    """A VXLAN tunnel to a next hop."""

    vni: Vni
    local: IPv4Address
    remote: IPv4Address
    target_mac: Mac
    source_mac: Mac
    port: Port = 4789


class NextHop(Message):
    """A neighbour behind a port, and the tag (0: none) or tunnel with which frames go to it."""

    port: PortNumber
    target_mac: Mac
    source_mac: Mac
    vlan: Annotated[int, Field(ge=0, le=4094)] = 0
    tunnel: Tunnel | None = None
    max_bytes: Annotated[int, Field(ge=60, le=65557)] = 9018


class Route(Message):
    """A prefix within a tenant, and the number of its next hop: 1 is the first, 0 the gateway itself."""

    tenant: TenantNumber
    network: Network
    next_hop: Annotated[int, Field(ge=0)]


class Policies(Message):
    """All that a gateway is told; it is taken over whole or not at all."""

    tenants: Annotated[tuple[Tenant, ...], Field(max_length=MAX_ENTRIES)] = ()
    rules: Annotated[tuple[Rule, ...], Field(max_length=MAX_ENTRIES)] = ()
    endpoints: Annotated[tuple[Endpoint, ...], Field(max_length=MAX_ENTRIES)] = ()
    next_hops: Annotated[tuple[NextHop, ...], Field(max_length=MAX_ENTRIES)] = ()
    routes: Annotated[tuple[Route, ...], Field(max_length=MAX_ENTRIES)] = ()
    tunnel_ends: Annotated[tuple[IPv4Address, ...], Field(max_length=MAX_ENTRIES)] = ()


class FlowKey(Message):
    """The name of a flow."""

    tenant: TenantNumber
    protocol: Protocol
    source: Address
    target: Address
    source_port: AnyPort = 0
    target_port: AnyPort = 0

    @model_validator(mode="after")
    def _of_one_family(self) -> FlowKey:
        if self.source.version != self.target.version:
            raise ValueError(f"{self.source} and {self.target} are of different families")
        return self


class Flow(Message):
    """A flow that is decided from outside: dropped, or sent to a next hop, perhaps with other addresses and ports."""

    key: FlowKey
    allow: bool
    next_hop: Annotated[int, Field(ge=1)] | None = None
    source: Address | None = None
    target: Address | None = None
    source_port: AnyPort | None = None
    target_port: AnyPort | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Flow:
        if self.allow == (self.next_hop is None):
            raise ValueError("a flow that is allowed needs a next hop, and one that is not has none")
        for address in (self.source, self.target):
            if address is not None and address.version != self.key.source.version:
                raise ValueError(f"{address} is of another family than the flow")
        changed = (self.source, self.target, self.source_port, self.target_port)
        if self.key.protocol not in (6, 17) and any(value is not None for value in changed):
            raise ValueError("only TCP (6) and UDP (17) can be translated")
        return self


class Profile(Message):
    """What processing costs: the fields of `emulator.model.profile.StationModel`."""

    latency_ns: Annotated[int, Field(ge=0, le=3600 * 10**9)]
    packet_rate: Annotated[int, Field(ge=1, le=10**15)] | None
    bit_rate_bps: Annotated[int, Field(ge=1, le=10**15)] | None
    queue_packets: Annotated[int, Field(ge=0, le=10**7)]
    source: Annotated[str, Field(max_length=1000)] = "set over the control socket"


# Requests.


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
