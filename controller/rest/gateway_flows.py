"""``/v1/gateways/{name}/flows``: what a gateway decided about flows, and deciding about some from outside."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from controller.rest.backend import Backend
from controller.rest.gateways import status_of
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.paging import AFTER, LIMIT, cursor, linked, next_url, read_cursor, read_limit
from controller.rest.parameters import Integer, Text
from controller.rest.routes import Route, Success
from controller.rest.schemas.gateways import FlowDecisions, FlowName, FlowsDeleted, FlowsKnown, GatewayFlows
from controller.rest.validation import read_json, validated
from emulator.messages.gateway import FlowKey

Result = TypeVar("Result", bound=BaseModel)
_PATH = "/v1/gateways/{name}/flows"
_TENANT = Integer("tenant", "Only flows of this tenant: of a VPC, its segment.", highest=65_535)
_FIRST = -1
_KEY: tuple[Integer | Text, ...] = (
    Integer("tenant", "Of the flow to forget; without any of these, all flows are forgotten.", highest=65_535),
    Integer("protocol", "Of IP: 6 is TCP, 17 UDP.", highest=255),
    Text("source", "Its source address."),
    Text("target", "Its target address."),
    Integer("source_port", "Its source port; 0 if it is not there.", highest=65_535),
    Integer("target_port", "Its target port; 0 if it is not there.", highest=65_535),
)
_NEEDED = ("tenant", "protocol", "source", "target")
_LIVES = "It holds until the gateway's policies change, or until room is needed."


class GatewayFlowResources:
    """Asks daemons, each time."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        tag = "gateways"
        return [
            Route("GET", _PATH, self.list, "A page of a gateway's flows", tag,
                  {200: Success("The page.", GatewayFlows, headers={"Link": "The next page, if there is one."})},
                  parameters=(LIMIT, AFTER, _TENANT), problems=(404, 409, 422, 502, 503, 504)),
            Route("POST", _PATH, self.install, "Decide about flows from outside, all of them or none", tag,
                  {200: Success("They are decided.", FlowsKnown)}, body=FlowDecisions, writes=True,
                  problems=(404, 409, 413, 415, 422, 502, 503, 504), description=_LIVES),
            Route("DELETE", _PATH, self.delete, "Forget a flow, or all", tag,
                  {200: Success("What comes next is decided anew.", FlowsDeleted)}, parameters=_KEY, writes=True,
                  problems=(404, 409, 422, 502, 503, 504)),
        ]  # fmt: skip

    def list(self, request: Request, name: str) -> Response:
        """A page of flows."""
        status_of(self._backend, name)
        after, limit, tenant = _after(request), read_limit(request), _TENANT.read(request)
        result = self._backend.gateway_ask(name, lambda session: session.list_flows(after, limit, tenant))
        last = result.get("next")
        url = None if last is None else next_url(request, cursor(str(last)))
        page = _understood(GatewayFlows, name, {**result, "next": url})
        return linked(json_response(page), url)

    def install(self, request: Request, name: str) -> Response:
        """Decide about flows."""
        status_of(self._backend, name)
        flows = [flow.message() for flow in validated(FlowDecisions, read_json(request)).flows]
        result = self._backend.gateway_ask(name, lambda session: session.install(flows))
        return json_response(_understood(FlowsKnown, name, result))

    def delete(self, request: Request, name: str) -> Response:
        """Forget one flow or all."""
        status_of(self._backend, name)
        key = _key(request)
        keys = None if key is None else [key]
        answer = _understood(FlowsDeleted, name, self._backend.gateway_ask(name, lambda session: session.delete(keys)))
        if key is not None and not answer.deleted:
            raise Problem(404, f"gateway {name} knows no such flow")
        return json_response(answer)


def _understood(model: type[Result], name: str, result: dict[str, Any]) -> Result:
    try:
        return model.model_validate(result)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise Problem(502, f"gateway {name} answered something that cannot be understood, at {where}") from None


def _after(request: Request) -> int:
    text = read_cursor(request)
    if text is None:
        return _FIRST
    if not text.isascii() or not text.isdigit() or len(text) > len(str(1 << 53)):
        raise Problem(400, "after is the cursor of an earlier page, not anything else", parameter=AFTER.name)
    return int(text)


def _key(request: Request) -> FlowKey | None:
    """The flow that is named, or None: there is no name."""
    if not request.query:
        return None
    for name in _NEEDED:
        if name not in request.query:
            raise Problem(400, f"the parameter {name} is missing: a flow is named whole, or not at all", parameter=name)
    named = {parameter.name: parameter.read(request) for parameter in _KEY if parameter.name in request.query}
    try:
        return FlowName.model_validate(named).message()
    except ValidationError as error:
        problem = error.errors()[0]
        where = str(problem["loc"][0]) if problem["loc"] else "target"
        raise Problem(400, f"{where}: {problem['msg'].removeprefix('Value error, ')}", parameter=where) from None
