"""The resources below ``/v1``: topology, paths, flows, counters, health. docs/rest.md describes them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from controller.core import State
from controller.flows import FlowRule, Group, Program, purpose_of
from controller.pathtrace import DEFAULT_SOURCE_PORT, PROTOCOLS, Leg, Step, Tracer
from controller.rest.backend import Backend
from controller.rest.http import MOST_WAIT_MS, Problem, Request, Response, Router, json_response, parse_integer
from controller.stats import FlowStat, PortStat
from emulator.model.fabric import Role

_COUNTED = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_dropped",
    "tx_dropped",
    "rx_errors",
    "tx_errors",
    "duration_ns",
)


class V1:
    """Answers requests from the core's state and the switches' counters."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._core = backend.core
        self._plan = backend.core.plan
        self._fabric = backend.core.plan.fabric

    def add_to(self, router: Router) -> None:
        """Add all resources."""
        router.add("/v1/topology", self.topology)
        router.add("/v1/paths", self.paths)
        router.add("/v1/flows", self.flows)
        router.add("/v1/counters", self.counters)
        router.add("/v1/health", self.health)

    def topology(self, request: Request) -> Response:
        """Nodes, links and services, with what is up."""
        request.known()
        nodes = []
        for node in self._fabric.nodes:
            entry: dict[str, Any] = {"name": node.name, "role": node.role.value, "zone": node.zone, "tier": node.tier}
            if node.dpid is not None:
                session = self._core.sessions[node.dpid]
                entry |= {"dpid": node.dpid, "connected": session.state is not State.ABSENT}
            else:
                attachment = self._plan.routes.attachments.get(node.name)
                entry |= {
                    "ip": str(node.ip) if node.ip else None,
                    "mac": node.mac,
                    "switch": attachment.switch if attachment else None,
                    "switch_port": attachment.port if attachment else None,
                    "via": list(self._plan.via.get(node.name, ())),
                }
            nodes.append(entry)
        links = [
            {
                "name": link.name,
                "a": link.a,
                "a_port": link.a_port,
                "a_interface": link.a_interface,
                "b": link.b,
                "b_port": link.b_port,
                "b_interface": link.b_interface,
                "rate_bps": link.spec.rate_bps,
                "delay_ns": link.spec.delay_ns,
                "mtu_bytes": link.spec.mtu_bytes,
                "up": self._up(link.a, link.a_port) and self._up(link.b, link.b_port),
            }
            for link in self._fabric.links
        ]
        services = [
            {"name": service.name, "node": service.node, "ip": service.ip, "port": service.port, "protocol": "tcp"}
            for service in self._plan.services
        ]
        data = {"name": self._fabric.name, "design": self._plan.design.value, "planes": self._plan.routes.planes}
        return json_response({**data, "nodes": nodes, "links": links, "services": services})

    def _up(self, name: str, number: int) -> bool:
        dpid = self._fabric.by_name[name].dpid
        if dpid is None:
            return True  # what a host's interface does shows on the switch's side
        port = self._core.sessions[dpid].ports.get(number)
        return port is not None and port.up

    def paths(self, request: Request) -> Response:
        """The way between two hosts and back."""
        request.known("src", "dst", "protocol", "port", "source_port", "source")
        source, target = self._host(request, "src"), self._host(request, "dst")
        if source == target:
            raise Problem(400, f"src and dst are the same host, {source!r}", parameter="dst")
        protocol = request.choice("protocol", "icmp", PROTOCOLS)
        port = request.integer("port", None, 1, 65_535)
        if protocol != "tcp" and port is not None:
            raise Problem(400, f"{protocol} is routed without regard to ports", parameter="port")
        source_port = request.integer("source_port", DEFAULT_SOURCE_PORT, 1, 65_535) or DEFAULT_SOURCE_PORT
        origin = request.choice("source", "plan", ("plan", "installed"))
        tracer = self._planned if origin == "plan" else self._installed()
        journey = tracer.journey(source, target, protocol, port or 0, source_port)
        return json_response(
            {
                "src": source,
                "dst": target,
                "protocol": protocol,
                **({"port": port, "source_port": source_port} if protocol == "tcp" else {}),
                "source": origin,
                "delivered": journey.delivered,
                "reason": journey.reason,
                "there": [self._leg(leg) for leg in journey.there],
                "back": [self._leg(leg) for leg in journey.back],
            }
        )

    def _host(self, request: Request, name: str) -> str:
        text = request.text(name)
        node = self._fabric.by_name.get(text)
        if node is None or node.is_switch:
            raise Problem(400, f"there is no host {text[:80]!r} in the fabric", parameter=name)
        return text

    @cached_property
    def _planned(self) -> Tracer:
        return Tracer(self._plan)

    def _installed(self) -> Tracer:
        rules: list[FlowRule] = []
        groups: list[Group] = []
        for dpid, session in self._core.sessions.items():
            stats = self._backend.flows(dpid)
            if any(stat.rule is None for stat in stats):
                raise Problem(409, f"{session.name} has entries that the path model cannot follow")
            rules += [stat.rule for stat in stats if stat.rule]
            groups += session.program.groups
        return Tracer(self._plan, Program(tuple(rules), tuple(groups)))

    def _leg(self, leg: Leg) -> dict[str, Any]:
        return {"outcome": leg.outcome.value, "reason": leg.reason, "hops": [self._hop(step) for step in leg.steps]}

    def _hop(self, step: Step) -> dict[str, Any]:
        hop: dict[str, Any] = {
            "node": step.node,
            "role": self._fabric.by_name[step.node].role.value,
            "what": step.what,
            "eth_dst": step.frame.eth_dst,
        }
        if step.in_port is not None:
            hop |= {
                "in_port": step.in_port,
                "in_interface": f"{step.node}-eth{step.in_port}",
                "out_port": step.out_port,
                "out_interface": f"{step.node}-eth{step.out_port}" if step.out_port is not None else None,
                "rules": [str(rule) for rule in step.rules],
            }
        return hop

    def flows(self, request: Request) -> Response:
        """Installed flow entries with counters, and whether each was planned."""
        request.known("dpid")
        entries = []
        for dpid in self._dpids(request):
            session = self._core.sessions[dpid]
            planned = {rule.key: rule for rule in session.wanted}
            for stat in self._backend.flows(dpid):
                entries.append({"dpid": dpid, "switch": session.name, **self._flow(stat, planned)})
        return json_response({"flows": entries})

    @staticmethod
    def _flow(stat: FlowStat, planned: dict[Any, FlowRule]) -> dict[str, Any]:
        counters = {"packets": stat.packets, "bytes": stat.bytes, "duration_ns": stat.duration_ns}
        rule = stat.rule
        if rule is None:
            return {"planned": False, "foreign": stat.ryu, **counters}
        wanted = planned.get(rule.key)
        purpose = purpose_of(rule.cookie)
        return {
            "planned": wanted == rule,
            "table": rule.table.name.lower(),
            "priority": rule.priority,
            "match": rule.match.set_fields(),
            "actions": rule.texts,
            "cookie": rule.cookie,
            "purpose": purpose.name.lower() if purpose is not None else None,
            "note": wanted.note if wanted else "",
            **counters,
        }

    def counters(self, request: Request) -> Response:
        """Port counters of the switches, with who is at the other end, and sums by the other end's role."""
        request.known("dpid")
        peers = {}
        for link in self._fabric.links:
            peers[link.a, link.a_port] = (link.b, link.b_interface)
            peers[link.b, link.b_port] = (link.a, link.a_interface)
        entries: list[dict[str, Any]] = []
        roles: dict[str, dict[str, int]] = {}
        for dpid in self._dpids(request):
            session = self._core.sessions[dpid]
            for stat in self._backend.ports(dpid):
                interface = session.expected_ports.get(stat.port)
                if interface is None:
                    continue  # the switch's own port, or one that is not of the fabric
                peer, peer_interface = peers[session.name, stat.port]
                role = self._fabric.by_name[peer].role
                entries.append(
                    {
                        "dpid": dpid,
                        "switch": session.name,
                        "port": stat.port,
                        "interface": interface,
                        "peer": peer,
                        "peer_interface": peer_interface,
                        "peer_role": role.value,
                        **{name: getattr(stat, name) for name in _COUNTED},
                    }
                )
                _add(roles.setdefault(role.value, _zero()), stat)
        roles.pop(Role.SWITCH.value, None)  # every byte between switches would be counted twice
        return json_response({"ports": entries, "roles": roles})

    def _dpids(self, request: Request) -> Iterable[int]:
        text = request.query.get("dpid")
        if text is None:
            return list(self._core.sessions)
        dpid = parse_integer(text)
        if dpid is None or dpid >= 1 << 64:
            raise Problem(
                400, f"dpid is a datapath id in decimal or 0x hexadecimal, not {text[:80]!r}", parameter="dpid"
            )
        if dpid not in self._core.sessions:
            raise Problem(404, f"there is no switch with the datapath id {dpid:#x} in the fabric")
        return [dpid]

    def health(self, request: Request) -> Response:
        """Whether everything is as planned; ``wait_ms`` waits for it."""
        request.known("wait_ms")
        wait_ms = request.integer("wait_ms", 0, 0, MOST_WAIT_MS)
        if wait_ms:
            self._backend.wait_ready(wait_ms / 1000)
        sessions = self._core.sessions.values()
        installed = [session for session in sessions if session.state is State.READY]
        return json_response(
            {
                "ready": self._core.ready,
                "design": self._plan.design.value,
                "switches": {
                    "expected": len(self._core.sessions),
                    "connected": sum(session.state is not State.ABSENT for session in sessions),
                    "installed": len(installed),
                },
                "rules": {
                    "planned": len(self._plan.rules),
                    "installed": sum(len(session.wanted) for session in installed),
                },
                "strangers": sorted(self._core.strangers),
                "problems": [problem for session in sessions for problem in session.problems()],
                "states": {session.name: session.state.value for session in sessions},
            }
        )


def _zero() -> dict[str, int]:
    return dict.fromkeys(("to_packets", "to_bytes", "from_packets", "from_bytes"), 0)


def _add(total: dict[str, int], stat: PortStat) -> None:
    total["to_packets"] += stat.tx_packets
    total["to_bytes"] += stat.tx_bytes
    total["from_packets"] += stat.rx_packets
    total["from_bytes"] += stat.rx_bytes
