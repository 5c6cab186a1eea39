"""``/v1/paths``: the way of a packet between two hosts, as planned or as installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from controller.flows import FlowRule, Group, Program
from controller.hosts import PROTOCOLS
from controller.pathtrace import DEFAULT_SOURCE_PORT, Journey, Step, Tracer
from controller.pathtrace import Leg as TracedLeg
from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.parameters import Choice, Integer, Text
from controller.rest.routes import Route, Success
from controller.rest.schemas.fabric import Hop, Leg, PathAnswer

_LAST_PORT = 65_535
SRC = Text("src", "Host that asks.", required=True, example="h0")
DST = Text("dst", "Host that answers; or, with `tcp`, an endpoint of the source's VPC.", required=True, example="h1")
PROTOCOL = Choice("protocol", "What is asked.", choices=tuple(PROTOCOLS), default="icmp")
PORT = Integer("port", "Destination port, only with `tcp`. Without it, no service.", lowest=1, highest=_LAST_PORT)
SOURCE_PORT = Integer(
    "source_port",
    "Source port of every TCP connection on the way. Proxies choose their own: other values show the other ways.",
    lowest=1,
    highest=_LAST_PORT,
    default=DEFAULT_SOURCE_PORT,
)
SOURCE = Choice(
    "source",
    "Whether to follow what is planned, or what is read from the switches now.",
    choices=("plan", "installed"),
    default="plan",
)


class PathResources:
    """Follows packets through rules."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._core = backend.core
        self._fabric = backend.core.plan.fabric
        self._planned: tuple[list[object], Tracer] | None = None

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/paths",
                self.paths,
                "The way of a packet between two hosts, and of the answer",
                "fabric",
                {200: Success("The way.", PathAnswer)},
                parameters=(SRC, DST, PROTOCOL, PORT, SOURCE_PORT, SOURCE),
                problems=(409, 503, 504),
            )
        ]

    def paths(self, request: Request) -> Response:
        """The way between two hosts and back."""
        source, target = self._host(request, SRC), DST.read(request)
        if source == target:
            raise Problem(400, f"src and dst are the same host, {source!r}", parameter=DST.name)
        protocol = cast(Literal["icmp", "tcp", "udp"], PROTOCOL.read(request))
        port = PORT.read(request)
        if protocol != "tcp" and port is not None:
            raise Problem(400, f"{protocol} is routed without regard to ports", parameter=PORT.name)
        source_port = SOURCE_PORT.read(request) or DEFAULT_SOURCE_PORT
        origin = cast(Literal["plan", "installed"], SOURCE.read(request))
        journey = self._journey(origin, source, target, protocol, port, source_port)
        optional = {"port": port, "source_port": source_port} if protocol == "tcp" else {}
        return json_response(
            PathAnswer(
                src=source,
                dst=target,
                protocol=protocol,
                **optional,
                source=origin,
                delivered=journey.delivered,
                reason=journey.reason,
                there=tuple(self._leg(leg) for leg in journey.there),
                back=tuple(self._leg(leg) for leg in journey.back),
            )
        )

    def _journey(
        self, origin: str, source: str, target: str, protocol: str, port: int | None, source_port: int
    ) -> Journey:
        node = self._fabric.by_name.get(target)
        found = self._endpoint(source, target) if node is None else None
        if found is None:
            self._check_host(target, DST)
        elif protocol != "tcp" or port not in (None, found[1]):
            raise Problem(400, f"endpoint {target} is TCP port {found[1]}", parameter=PORT.name)
        tracer = self._plan_tracer() if origin == "plan" else self._installed()
        if found is None:
            return tracer.journey(source, target, protocol, port or 0, source_port)
        server, endpoint_port, ip = found
        frame = tracer.hosts.request(source, server, "tcp", source_port, endpoint_port)
        return tracer.exchange(source, replace(frame, ipv4_dst=ip), source_port, target=server)

    def _endpoint(self, source: str, name: str) -> tuple[str, int, str] | None:
        """The server, port and address behind an endpoint of the source's VPC."""
        state = self._backend.store.state if self._backend.store else None
        vpc = state.home(source) if state else None
        gate = state.gates(vpc).get(name) if state and vpc else None
        if state is None or gate is None:
            return None
        return state.services[gate.service].node, gate.port, str(gate.ip)

    def _host(self, request: Request, parameter: Text) -> str:
        return self._check_host(parameter.read(request), parameter)

    def _check_host(self, text: str, parameter: Text) -> str:
        node = self._fabric.by_name.get(text)
        if node is None or node.is_switch:
            raise Problem(400, f"there is no host {text[:80]!r} in the fabric", parameter=parameter.name)
        return text

    def _addresses(self) -> dict[str, str]:
        """Addresses of the members of VPCs."""
        store = self._backend.store
        return {host: str(node.ip) for (_, host), node in store.state.nodes.items()} if store else {}

    def _plan_tracer(self) -> Tracer:
        programs = [session.program for session in self._core.sessions.values()]
        basis: list[object] = [*programs, self._backend.store.state if self._backend.store else None]
        known = self._planned
        # Identity is enough: programs and states are immutable, and kept here as long as they are compared.
        if known is None or any(one is not other for one, other in zip(known[0], basis, strict=True)):
            program = Program(
                tuple(rule for one in programs for rule in one.rules),
                tuple(group for one in programs for group in one.groups),
                tuple(meter for one in programs for meter in one.meters),
            )
            known = self._planned = (basis, Tracer(self._core.plan, program, self._addresses()))
        return known[1]

    def _installed(self) -> Tracer:
        rules: list[FlowRule] = []
        groups: list[Group] = []
        for dpid, session in self._core.sessions.items():
            stats = self._backend.flows(dpid)
            if any(stat.rule is None for stat in stats):
                raise Problem(409, f"{session.name} has entries that the path model cannot follow")
            rules += [stat.rule for stat in stats if stat.rule]
            groups += self._backend.group_contents(dpid)
        meters = tuple(meter for session in self._core.sessions.values() for meter in session.program.meters)
        tracer = Tracer(self._core.plan, Program(tuple(rules), tuple(groups), meters), self._addresses())
        tracer.down = frozenset(
            link.name
            for link in self._fabric.links
            if not (self._up(link.a, link.a_port) and self._up(link.b, link.b_port))
        )
        return tracer

    def _up(self, name: str, number: int) -> bool:
        dpid = self._fabric.by_name[name].dpid
        if dpid is None:
            return True  # what a host's interface does shows on the switch's side
        port = self._core.sessions[dpid].ports.get(number)
        return port is not None and port.up

    def _leg(self, leg: TracedLeg) -> Leg:
        return Leg(outcome=leg.outcome.value, reason=leg.reason, hops=tuple(self._hop(step) for step in leg.steps))

    def _hop(self, step: Step) -> Hop:
        what = cast(Literal["sends", "switches", "forwards", "terminates", "receives", "drops"], step.what)
        role = self._fabric.by_name[step.node].role.value
        if step.in_port is None:
            return Hop(node=step.node, role=role, what=what, eth_dst=step.frame.eth_dst)
        return Hop(
            node=step.node,
            role=role,
            what=what,
            eth_dst=step.frame.eth_dst,
            in_port=step.in_port,
            in_interface=f"{step.node}-eth{step.in_port}",
            out_port=step.out_port,
            out_interface=f"{step.node}-eth{step.out_port}" if step.out_port is not None else None,
            rules=tuple(str(rule) for rule in step.rules),
        )
