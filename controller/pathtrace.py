"""Follows packets through planned or installed rules and through the software of the nodes they visit.

A *leg* is one packet from the node that sends it to the node that keeps it; nodes that forward packets are passed
within a leg. A *journey* is what one exchange between two hosts takes: legs there, legs back. Where a hop ends TCP
connections, its new connection is a new leg.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from controller.designs import Hop, Plan
from controller.flows import ETH_TYPE_IPV4, IP_PROTO_ICMP, IP_PROTO_TCP, IP_PROTO_UDP, FlowRule
from controller.flowtable import Frame, Switch
from emulator.errors import ControllerError
from emulator.model.fabric import Node

PROTOCOLS: Mapping[str, int] = {"icmp": IP_PROTO_ICMP, "tcp": IP_PROTO_TCP, "udp": IP_PROTO_UDP}
DEFAULT_SOURCE_PORT = 40_000
_MOST_LEGS = 8


class Outcome(str, Enum):
    """How a leg ended."""

    DELIVERED = "delivered"
    DROPPED = "dropped"
    LOOPED = "looped"


@dataclass(frozen=True)
class Step:
    """One node on a packet's way.

    Attributes:
        node: Its name.
        what: ``sends``, ``switches``, ``forwards``, ``terminates``, ``receives``, ``drops``.
        frame: The packet as it left the node, or ended there.
        in_port, out_port: Switch ports, only of switches.
        rules: The rules that matched, only of switches.
    """

    node: str
    what: str
    frame: Frame
    in_port: int | None = None
    out_port: int | None = None
    rules: tuple[FlowRule, ...] = ()


@dataclass(frozen=True)
class Leg:
    """One packet's way.

    Attributes:
        steps: The nodes in order.
        outcome: How it ended.
        reason: One clause, if it was not delivered.
        frame: The packet as it was at the end.
    """

    steps: tuple[Step, ...]
    outcome: Outcome
    reason: str
    frame: Frame

    @property
    def end(self) -> str:
        """Name of the last node."""
        return self.steps[-1].node


@dataclass(frozen=True)
class Journey:
    """An exchange between two hosts.

    Attributes:
        there: Legs of the request, in order.
        back: Legs of the answer, in order; empty if the request was not delivered.
    """

    there: tuple[Leg, ...]
    back: tuple[Leg, ...]

    @property
    def delivered(self) -> bool:
        """Whether the request and its answer both arrived."""
        return bool(self.back) and all(leg.outcome is Outcome.DELIVERED for leg in self.there + self.back)

    @property
    def reason(self) -> str:
        """Why it was not delivered."""
        return next((leg.reason for leg in self.there + self.back if leg.reason), "")


class Tracer:
    """A fabric in memory.

    Args:
        plan: Where the fabric and the behaviour of its nodes come from.
        rules: Rules to follow instead of the planned ones.
    """

    def __init__(self, plan: Plan, rules: Iterable[FlowRule] | None = None) -> None:
        self._plan = plan
        self._fabric = plan.fabric
        by_switch: dict[int, list[FlowRule]] = {node.dpid: [] for node in self._fabric.switches if node.dpid}
        for rule in plan.rules if rules is None else rules:
            by_switch[rule.dpid].append(rule)
        self.switches = {dpid: Switch(rules) for dpid, rules in by_switch.items()}
        self._peers: dict[tuple[str, int], tuple[str, int]] = {}
        for link in self._fabric.links:
            self._peers[link.a, link.a_port] = (link.b, link.b_port)
            self._peers[link.b, link.b_port] = (link.a, link.a_port)
        self._macs = {node.mac: node for node in self._fabric.hosts}
        self._addresses = {str(node.ip.ip): node for node in self._fabric.hosts if node.ip}
        self._services = {(service.ip, service.port) for service in plan.services}

    def journey(
        self, source: str, target: str, protocol: str, port: int = 0, source_port: int = DEFAULT_SOURCE_PORT
    ) -> Journey:
        """Follow a request and its answer.

        Args:
            source: Host that asks.
            target: Host that answers.
            protocol: ``icmp``, ``tcp`` or ``udp``.
            port: Destination port (TCP).
            source_port: Source port of every TCP connection on the way. Proxies choose their own, so this picks one
                of the ways that are possible.

        Raises:
            ControllerError: Unknown host or protocol.
        """
        for name in (source, target):
            node = self._fabric.by_name.get(name)
            if node is None or node.is_switch:
                raise ControllerError(f"there is no host {name!r} in the fabric {self._fabric.name!r}")
        if protocol not in PROTOCOLS:
            raise ControllerError(f"unknown protocol {protocol!r}: {', '.join(PROTOCOLS)}")
        request = self._frame(source, target, PROTOCOLS[protocol], source_port, port)
        there = self._connections(source, request, source_port)
        if there[-1].outcome is not Outcome.DELIVERED or there[-1].end != target:
            return Journey(tuple(there), ())
        back = []
        for leg in reversed(there):
            answer = self._answer(leg)
            back.append(self.leg(leg.end, answer))
            if back[-1].outcome is not Outcome.DELIVERED:
                break
        return Journey(tuple(there), tuple(back))

    def _frame(self, source: str, target: str, protocol: int, source_port: int, port: int) -> Frame:
        here, there = self._fabric.by_name[source], self._fabric.by_name[target]
        tcp = protocol == IP_PROTO_TCP
        return Frame(
            eth_src=here.mac or "",
            eth_dst=there.mac or "",
            eth_type=ETH_TYPE_IPV4,
            ipv4_src=_ip(here),
            ipv4_dst=_ip(there),
            ip_proto=protocol,
            tcp_src=source_port if tcp else None,
            tcp_dst=port if tcp else None,
        )

    def _answer(self, leg: Leg) -> Frame:
        """The packet that the end of a leg sends back: addresses reversed, Ethernet by the static neighbour table."""
        frame = leg.frame
        asker = self._addresses[frame.ipv4_src or ""]
        return replace(
            frame,
            eth_src=self._fabric.by_name[leg.end].mac or "",
            eth_dst=asker.mac or "",
            ipv4_src=frame.ipv4_dst,
            ipv4_dst=frame.ipv4_src,
            tcp_src=frame.tcp_dst,
            tcp_dst=frame.tcp_src,
            ttl=64,
        )

    def _connections(self, source: str, request: Frame, source_port: int) -> list[Leg]:
        legs = [self.leg(source, request)]
        while legs[-1].outcome is Outcome.DELIVERED and legs[-1].steps[-1].what == "terminates":
            if len(legs) == _MOST_LEGS:
                legs[-1] = replace(legs[-1], outcome=Outcome.LOOPED, reason=f"terminated {_MOST_LEGS} times")
                break
            proxy = self._fabric.by_name[legs[-1].end]
            target = self._addresses[legs[-1].frame.ipv4_dst or ""]
            port = legs[-1].frame.tcp_dst or 0
            legs.append(self.leg(proxy.name, self._frame(proxy.name, target.name, IP_PROTO_TCP, source_port, port)))
        return legs

    def leg(self, sender: str, frame: Frame) -> Leg:
        """Follow one packet from the host that sends it until a host keeps it or it is lost."""
        steps = [Step(sender, "sends", frame)]
        node, port = self._leave(sender)
        seen: set[tuple[str, int, Frame]] = set()

        def ended(outcome: Outcome, reason: str = "") -> Leg:
            return Leg(tuple(steps), outcome, reason, frame)

        while node is not None:
            here = self._fabric.by_name[node]
            if here.is_switch:
                if (node, port, frame) in seen:
                    return ended(Outcome.LOOPED, f"{node} sees the packet twice")
                seen.add((node, port, frame))
                verdict = self.switches[here.dpid or 0].process(frame, port)
                frame = verdict.frame
                what = "drops" if verdict.output is None else "switches"
                steps.append(Step(node, what, frame, port, verdict.output, verdict.matched))
                if verdict.output is None:
                    last = verdict.matched[-1] if verdict.matched else None
                    return ended(Outcome.DROPPED, f"{node} drops it ({last or 'no rule matches'})")
                node, port = self._peers.get((node, verdict.output), (None, 0))
                continue
            what = self._host(here, frame)
            if what != "forwards":
                steps.append(Step(node, what, frame))
                if what != "drops":
                    return ended(Outcome.DELIVERED)
                return ended(Outcome.DROPPED, f"{node} is not addressed and does not forward it")
            if frame.ttl <= 1:
                steps.append(Step(node, "drops", frame))
                return ended(Outcome.LOOPED, f"the packet's time to live ends at {node}")
            target = self._addresses[frame.ipv4_dst or ""]
            frame = replace(frame, eth_src=here.mac or "", eth_dst=target.mac or "", ttl=frame.ttl - 1)
            steps.append(Step(node, what, frame))
            node, port = self._leave(here.name)
        return ended(Outcome.DROPPED, f"nothing is attached behind {steps[-1].node}")

    def _leave(self, host: str) -> tuple[str | None, int]:
        attachment = self._plan.routes.attachments.get(host)
        return (attachment.switch, attachment.port) if attachment else (None, 0)

    def _host(self, node: Node, frame: Frame) -> str:
        if frame.eth_dst != node.mac:
            return "drops"
        if frame.ipv4_dst in (None, _ip(node)):
            return "receives"
        hop = self._plan.hops.get(node.name)
        service = (frame.ipv4_dst, frame.tcp_dst) in self._services
        if hop is None or frame.ipv4_dst not in self._addresses:
            return "drops"
        if Hop.TERMINATE in hop and frame.ip_proto == IP_PROTO_TCP:
            return "terminates" if service else "drops"
        return "forwards"


def _ip(node: Node) -> str:
    return str(node.ip.ip) if node.ip else ""
