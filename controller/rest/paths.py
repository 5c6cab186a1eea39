"""``/v1/paths``: the way of a packet between two hosts, as planned or as installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

from controller.flows import IP_PROTO_ICMP, IP_PROTO_TCP, NO_VLAN, FlowRule, Group, Program
from controller.hosts import PROTOCOLS
from controller.pathtrace import DEFAULT_SOURCE_PORT, Step, Tracer
from controller.pathtrace import Leg as TracedLeg
from controller.rest.backend import Backend
from controller.rest.destinations import find_destination, find_source
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.parameters import Choice, Integer, Text
from controller.rest.routes import Route, Success
from controller.rest.schemas.fabric import Hop, Leg, PathAnswer

_LAST_PORT = 65_535
SRC = Text("src", "Host that asks, or `vpc/host`.", required=True, example="h0")
DST = Text(
    "dst",
    "Host that answers, by name or address as the source sees it; or, with `tcp`, an endpoint of the source's VPC.",
    required=True,
    example="h1",
)
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
        state = self._backend.store.state if self._backend.store else None
        source = find_source(self._fabric, state, SRC.read(request))
        protocol = cast(Literal["icmp", "tcp", "udp"], PROTOCOL.read(request))
        port = PORT.read(request)
        if protocol != "tcp" and port is not None:
            raise Problem(400, f"{protocol} is routed without regard to ports", parameter=PORT.name)
        target = find_destination(self._fabric, state, source, DST.read(request), protocol, port)
        if source.host == target.host:
            raise Problem(400, f"src and dst are the same host, {source.host!r}", parameter=DST.name)
        source_port = SOURCE_PORT.read(request) or DEFAULT_SOURCE_PORT
        origin = cast(Literal["plan", "installed"], SOURCE.read(request))
        tracer = self._plan_tracer() if origin == "plan" else self._installed()
        optional: dict[str, Any] = {"vpc": source.vpc, "segment": source.segment} if source.vpc else {}
        found = target.translation
        if found is None:
            journey = tracer.journey(source.host, target.host, protocol, port or 0, source_port)
        else:
            port, optional["translation"] = found.port, found
            frame = replace(
                tracer.hosts.request(source.host, target.host, protocol, source_port, port), ipv4_dst=found.ip
            )
            journey = tracer.exchange(source.host, frame, source_port, target=target.host)
        if protocol == "tcp":
            optional |= {"port": port, "source_port": source_port}
        return json_response(
            PathAnswer(
                src=source.host,
                dst=DST.read(request),
                protocol=protocol,
                **optional,
                source=origin,
                delivered=journey.delivered,
                reason=journey.reason,
                there=tuple(self._leg(leg) for leg in journey.there),
                back=tuple(self._leg(leg) for leg in journey.back),
            )
        )

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
        frame = step.frame
        members: dict[str, Any] = {
            "node": step.node,
            "role": self._fabric.by_name[step.node].role.value,
            "what": step.what,
            "eth_dst": frame.eth_dst,
            "ipv4_src": frame.ipv4_src,
            "ipv4_dst": frame.ipv4_dst,
        }
        if frame.vlan != NO_VLAN:
            members["segment"] = frame.vlan
        if frame.ip_proto != IP_PROTO_ICMP:
            members["src_port"] = frame.tcp_src if frame.ip_proto == IP_PROTO_TCP else frame.udp_src
            members["dst_port"] = frame.tcp_dst if frame.ip_proto == IP_PROTO_TCP else frame.udp_dst
        if step.in_port is not None:
            out = {"out_port": step.out_port, "out_interface": f"{step.node}-eth{step.out_port}"}
            members |= {"in_port": step.in_port, "in_interface": f"{step.node}-eth{step.in_port}"}
            members |= out if step.out_port is not None else dict.fromkeys(out)
            members["rules"] = tuple(str(rule) for rule in step.rules)
        return Hop(**members)
