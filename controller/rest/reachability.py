"""``/v1/reachability``: what may talk to what, and why."""

from __future__ import annotations

from typing import Literal, cast

from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.parameters import Choice, Integer, Text
from controller.rest.routes import Route, Success
from controller.rest.schemas.fabric import ReachabilityAnswer, Translation
from controller.rest.tenancy import NO_STORE
from controller.tenancy.reachability import Answer, explain
from controller.tenancy.refusals import Refused

SRC = Text("src", "A host, or `vpc/host`.", required=True, example="g0")
DST = Text(
    "dst",
    "As seen from the source: a node or endpoint of its VPC by name or address; or `vpc/name`.",
    required=True,
    example="block",
)
PROTOCOL = Choice("protocol", "What is asked.", choices=("tcp", "udp", "icmp"), default="tcp")
PORT = Integer(
    "port", "Destination port; not with `icmp`, and not needed with an endpoint's name.", lowest=1, highest=65_535
)


class ReachabilityResource:
    """Answers from the declared resources alone."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/reachability",
                self.reachability,
                "Whether a host may open a connection, and why",
                "tenants",
                {200: Success("The answer, with its reason.", ReachabilityAnswer)},
                parameters=(SRC, DST, PROTOCOL, PORT),
                problems=(409,),
            )
        ]

    def reachability(self, request: Request) -> Response:
        """Whether a host may open a connection."""
        source, target = SRC.read(request), DST.read(request)
        protocol = cast(Literal["tcp", "udp", "icmp"], PROTOCOL.read(request))
        port = PORT.read(request)
        if self._backend.store is None:
            raise Problem(409, NO_STORE)
        try:
            answer = explain(self._backend.store.state, self._backend.ground, source, target, protocol, port)
        except Refused as error:
            raise Problem(400, error.detail, parameter=error.field or "src") from None
        optional = {"port": port} if port is not None else {}
        return json_response(
            ReachabilityAnswer(
                src=source,
                dst=target,
                protocol=protocol,
                **optional,
                allowed=answer.allowed,
                reason=answer.reason,
                policy=answer.policy,
                vpc=answer.vpc,
                translation=_translation(answer),
            )
        )


def _translation(answer: Answer) -> Translation | None:
    found = answer.translation
    if found is None:
        return None
    return Translation(
        endpoint=found.endpoint,
        service=found.service,
        node=found.node,
        ip=str(found.ip),
        port=found.port,
        node_port=found.node_port,
    )
