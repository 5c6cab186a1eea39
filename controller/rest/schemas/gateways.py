"""Flows of gateways: what is listed, and what is to be decided from outside."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from controller.rest.schemas.common import Answer, Count
from emulator.messages.gateway import MAX_FLOWS, AnyPort, Flow, FlowKey, Protocol, TenantNumber


def _address(text: str) -> str:
    try:
        # A zone (fe80::1%eth0) is of one host, and no part of an address in packets.
        return str(ip_address(text.replace("%", " ")))
    except ValueError:
        raise ValueError("is an IPv4 or IPv6 address") from None


Address = Annotated[
    str,
    AfterValidator(_address),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}),
]


class FlowName(Answer):
    """The name of a flow: one direction of a connection, as frames come in."""

    model_config = ConfigDict(strict=True)

    tenant: Annotated[TenantNumber, Field(description="Of a VPC, its segment.")]
    protocol: Annotated[Protocol, Field(description="Of IP: 6 is TCP, 17 UDP.")]
    source: Address
    target: Address
    source_port: AnyPort = 0
    target_port: AnyPort = 0

    def message(self) -> FlowKey:
        """The same for the control socket. Raises: ValidationError."""
        return FlowKey.model_validate(self.model_dump(), strict=False)


class FlowDecision(Answer):
    """What becomes of a flow: dropped, or sent to a next hop, perhaps with other addresses and ports."""

    model_config = ConfigDict(strict=True)

    key: FlowName
    allow: bool
    next_hop: Annotated[
        int | None, Field(ge=1, description="Number of one of the gateway's next hops; needed if it is allowed.")
    ] = None
    source: Address | None = None
    target: Address | None = None
    source_port: AnyPort | None = None
    target_port: AnyPort | None = None

    @model_validator(mode="after")
    def _fits(self) -> FlowDecision:
        try:
            self.message()
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        return self

    def message(self) -> Flow:
        """The same for the control socket. Raises: ValidationError."""
        return Flow.model_validate(self.model_dump(), strict=False)


class FlowDecisions(Answer):
    """Flows about which is to be decided, all of them or none."""

    model_config = ConfigDict(strict=True)

    flows: Annotated[list[FlowDecision], Field(min_length=1, max_length=MAX_FLOWS)]


class GatewayFlow(Answer):
    """A flow that a gateway knows."""

    key: FlowName
    after: Annotated[FlowName, Field(description="The name under which its frames leave.")]
    reason: Annotated[str, Field(description="What becomes of its frames: `forwarded`, or why they are dropped.")]
    service: str
    rule: Annotated[int, Field(description="Number of the rule that decided; -1: none, it was decided from outside.")]
    next_hop: Annotated[int, Field(description="Where its frames go; below 1: nowhere.")]
    frames: Count
    bytes: Count
    first_ns: Annotated[int, Field(description="When it was entered, on the daemon's clock.")]
    last_ns: Annotated[int, Field(description="When its last frame came.")]


class GatewayFlows(Answer):
    """A page of a gateway's flows."""

    flows: tuple[GatewayFlow, ...]
    next: Annotated[str | None, Field(description="Address of the next page; null: this is the last one.")]


class FlowsKnown(Answer):
    """After flows were installed."""

    flows: Annotated[Count, Field(description="How many flows the gateway knows now.")]


class FlowsDeleted(Answer):
    """After flows were deleted."""

    deleted: Annotated[Count, Field(description="How many were there.")]
