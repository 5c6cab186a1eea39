"""``/v1/gateways``: the daemons that carry tenants' storage traffic, what they were told and what they count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from controller.gateways.fleet import GatewayStatus
from controller.rest.backend import Backend
from controller.rest.http import MOST_SHOWN, Problem, Request, Response, json_response
from controller.rest.routes import Route, Success
from controller.rest.schemas.state import GatewayDetails, GatewayEntry, GatewaysAnswer
from emulator.messages.gateway import Policies

_POLICIES = {
    "type": "object",
    "properties": {name: {"type": "array"} for name in Policies.model_fields},
    "required": list(Policies.model_fields),
    "additionalProperties": False,
}


class GatewayResources:
    """Answers from the sessions' state, and by asking daemons."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/gateways",
                self.gateways,
                "The gateways that are told what tenants may do",
                "gateways",
                {200: Success("How they are.", GatewaysAnswer)},
            ),
            Route(
                "GET",
                "/v1/gateways/{name}",
                self.gateway,
                "A gateway, and what it counts now",
                "gateways",
                {200: Success("How it is.", GatewayDetails)},
                problems=(404, 504),
            ),
            Route(
                "GET",
                "/v1/gateways/{name}/policies",
                self.policies,
                "What a gateway is to be told",
                "gateways",
                {200: Success("As it is said over the control socket. Next hops are counted from 1.", _POLICIES)},
                problems=(404,),
            ),
        ]

    def gateways(self, request: Request) -> Response:
        """All gateways."""
        del request
        entries = tuple(GatewayEntry(**asdict(status)) for status in self._backend.gateways())
        return json_response(GatewaysAnswer(gateways=entries))

    def gateway(self, request: Request, name: str) -> Response:
        """One gateway with its own figures."""
        del request
        status = status_of(self._backend, name)
        return json_response(GatewayDetails(**asdict(status), statistics=self._backend.gateway_statistics(name)))

    def policies(self, request: Request, name: str) -> Response:
        """What one gateway is to be told."""
        del request
        status_of(self._backend, name)
        return json_response(self._backend.gateway_policies(name).model_dump(mode="json"))


def status_of(backend: Backend, name: str) -> GatewayStatus:
    """How a gateway is.

    Raises:
        Problem: There is none of that name.
    """
    for status in backend.gateways():
        if status.name == name:
            return status
    raise Problem(404, f"this controller does not tell a gateway {name[:MOST_SHOWN]!r} what to do")


def frames_by_reason(figures: Mapping[str, Any] | None) -> dict[str, int]:
    """Frames by their fate, as far as a daemon's figures tell."""
    pipeline = (figures or {}).get("pipeline")
    reasons = pipeline.get("reasons") if isinstance(pipeline, dict) else None
    found: dict[str, int] = {}
    for reason, counts in (reasons if isinstance(reasons, dict) else {}).items():
        frames = counts.get("frames") if isinstance(counts, dict) else None
        if isinstance(frames, int):
            found[reason] = frames
    return found
