"""The whole REST interface as one function from a request to a response, whatever goes wrong inside."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from controller.rest.auth import Tokens, authenticate, authorize, check_browser
from controller.rest.backend import (
    AbsentGateway,
    Backend,
    Declined,
    GatewayDeclines,
    NotConnected,
    Silent,
    SilentGateway,
    Unacceptable,
)
from controller.rest.events import EventResource
from controller.rest.fabric import FabricResources
from controller.rest.gateway_flows import GatewayFlowResources
from controller.rest.gateways import GatewayResources
from controller.rest.health import HealthResource
from controller.rest.http import MOST_SHOWN, Problem, Request, Response, parse_request, problem_response
from controller.rest.metrics import MetricsResource
from controller.rest.openapi import OpenApiResource
from controller.rest.paths import PathResources
from controller.rest.reachability import ReachabilityResource
from controller.rest.routes import Route, Router
from controller.rest.ryu_changes import RyuChanges
from controller.rest.ryu_stats import RyuStats
from controller.rest.ryu_topology import RyuTopology
from controller.rest.switches import SwitchResources
from controller.rest.tenancy import TenancyResources
from emulator.errors import ControllerError
from emulator.messages.gateway import ErrorCode

LOG = logging.getLogger("controller.rest")
_RESOURCES = (
    *(FabricResources, PathResources, SwitchResources, HealthResource, EventResource),
    *(GatewayResources, GatewayFlowResources),
    *(TenancyResources, ReachabilityResource, MetricsResource, RyuStats, RyuChanges, RyuTopology),
)


class Api:
    """Answers requests; never raises.

    Args:
        backend: The controller.
        tokens: Who may do what; None: everybody everything.
    """

    def __init__(self, backend: Backend, tokens: Tokens | None = None) -> None:
        self._backend = backend
        self._tokens = tokens
        self.router = Router()
        for resources in _RESOURCES:
            self.router.add(*resources(backend).routes())
        self.router.add(*OpenApiResource(self.router, secured=tokens is not None).routes())

    def answer(self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Response:
        """Answer a request.

        Args:
            method: HTTP method in capitals.
            target: Path and query as they stand in the request line.
            headers: By name in lower case.
            body: Undecoded.
        """
        instance = target.split("?", 1)[0][:MOST_SHOWN]
        try:
            return self._answer(method, target, headers or {}, body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            return problem_response(_problem(error, f"{method} {instance}"), instance)

    def _answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        token = authenticate(self._tokens, headers) if self._tokens else None
        if token is None:
            check_browser(headers)
        request = parse_request(method, target, headers, body)
        route, variables = self.router.find(request)
        if token is not None:
            authorize(token, writes=route.writes)
        request.known(*route.query_names)
        if route.writes:
            self._check_active()
        self._check_no_body(route, request)
        return route.handler(request, **variables)

    def _check_active(self) -> None:
        standing = self._backend.standing()
        if not standing.active:
            holder = standing.holder or "not known"
            raise Problem(
                503,
                f"this controller stands by; the active one is {holder}",
                {"Retry-After": "1"},
                active=standing.holder,
            )

    @staticmethod
    def _check_no_body(route: Route, request: Request) -> None:
        if request.body and route.body is None and route.method != "GET":
            raise Problem(400, "this resource takes no body")


def _problem(error: Exception, what: str) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, NotConnected | AbsentGateway):
        return Problem(503, str(error))
    if isinstance(error, Silent | SilentGateway):
        return Problem(504, str(error))
    if isinstance(error, Unacceptable):
        return Problem(501 if error.unsupported else 400, str(error))
    if isinstance(error, Declined):
        return Problem(409, str(error))
    if isinstance(error, GatewayDeclines):
        return Problem(422 if error.code == ErrorCode.INVALID else 409, str(error))
    if isinstance(error, ControllerError):
        LOG.error("%s failed: %s", what, error)
        return Problem(500, str(error)[:MOST_SHOWN])
    LOG.error("%s failed: %s: %s", what, type(error).__name__, error)
    LOG.debug("the error above", exc_info=True)
    return Problem(500, "an internal error, see the controller's log")
