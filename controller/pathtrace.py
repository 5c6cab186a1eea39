"""Follows packets through planned or installed rules and through the software of the nodes they visit.

A *leg* is one packet from the node that sends it to the node that keeps it; nodes that forward packets are passed
within a leg. A *journey* is what one exchange between two hosts takes: legs there, legs back. Where a hop ends TCP
connections, its new connection is a new leg.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from controller.changes import Change
from controller.designs import Plan
from controller.flows import FlowRule, Program
from controller.flowtable import Switch
from controller.frame import Frame
from controller.hosts import PROTOCOLS, Hosts
from controller.passage import Report, Verdict
from emulator.errors import ControllerError

__all__ = ["DEFAULT_SOURCE_PORT", "PROTOCOLS", "Journey", "Leg", "Outcome", "Step", "Tracer"]

DEFAULT_SOURCE_PORT = 40_000
_MOST_LEGS = 8
_MOST_WAYS = 10_000


class Outcome(str, Enum):
    """How a leg ended."""

    DELIVERED = "delivered"
    DROPPED = "dropped"
    LOOPED = "looped"
    COPIED = "copied"
    """A switch sent it by several ports; it is not followed further."""


@dataclass(frozen=True)
class Step:
    """One node on a packet's way.

    Attributes:
        node: Its name.
        what: ``sends``, ``switches``, ``forwards``, ``terminates``, ``receives``, ``drops``.
        frame: The packet as it left the node, or ended there.
        in_port, out_port: Switch ports, only of switches.
        rules: The rules that matched, only of switches.
        reports: What the controller got, only of switches.
        queue: Queue of the port by which it left, or None.
    """

    node: str
    what: str
    frame: Frame
    in_port: int | None = None
    out_port: int | None = None
    rules: tuple[FlowRule, ...] = ()
    reports: tuple[Report, ...] = ()
    queue: int | None = None


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

    @property
    def reports(self) -> tuple[Report, ...]:
        """What the controller got on the way."""
        return tuple(report for step in self.steps for report in step.reports)


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
        if not self.back and self.there[-1].outcome is Outcome.DELIVERED:
            return f"it arrives at {self.there[-1].end}"
        return next((leg.reason for leg in self.there + self.back if leg.reason), "")


_Decide = Callable[[Switch, Frame, int, frozenset[int]], list[Verdict]]
_Way = tuple[tuple[Step, ...], tuple[str | None, int], frozenset[tuple[str, int, Frame]]]
"""Nodes passed, node and port to come next, and what switches have seen."""


class Tracer:
    """A fabric in memory.

    Args:
        plan: Where the fabric and the behaviour of its nodes come from.
        program: What to follow instead of what is planned.
        addresses: Addresses of hosts that do not use their fabric address, by name: members of a VPC.

    Attributes:
        switches: By datapath id.
        hosts: What hosts do.
    """

    def __init__(self, plan: Plan, program: Program | None = None, addresses: Mapping[str, str] | None = None) -> None:
        self._plan = plan
        self._fabric = plan.fabric
        parts = (plan.program if program is None else program).by_switch()
        self.switches = {
            node.dpid: _load(parts.get(node.dpid, Program())) for node in self._fabric.switches if node.dpid
        }
        services = {(service.ip, service.port) for service in plan.services}
        self.hosts = Hosts(plan.fabric, plan.hops, services, addresses or {})
        self._peers: dict[tuple[str, int], tuple[str, int]] = {}
        for link in self._fabric.links:
            self._peers[link.a, link.a_port] = (link.b, link.b_port)
            self._peers[link.b, link.b_port] = (link.a, link.a_port)
        self._down: frozenset[str] = frozenset()
        self._down_ends: frozenset[tuple[str, int]] = frozenset()

    @property
    def down(self) -> frozenset[str]:
        """Names of the links that carry nothing, and whose ports the switches see down. May be set at any time."""
        return self._down

    @down.setter
    def down(self, names: frozenset[str]) -> None:
        unknown = names - {link.name for link in self._fabric.links}
        if unknown:
            raise ControllerError(f"there is no link {sorted(unknown)[0]!r} in the fabric {self._fabric.name!r}")
        self._down = names
        self._down_ends = frozenset(
            end
            for link in self._fabric.links
            if link.name in names
            for end in ((link.a, link.a_port), (link.b, link.b_port))
        )

    def apply(self, change: Change) -> None:
        """Change what one switch holds. Raises: ControllerError: as `Switch.apply`."""
        self.switches[change.dpid].apply(change)

    def journey(
        self,
        source: str,
        target: str,
        protocol: str,
        port: int = 0,
        source_port: int = DEFAULT_SOURCE_PORT,
        flow_hash: int = 0,
    ) -> Journey:
        """Follow a request and its answer between two hosts that use each other's own address.

        Args:
            source: Host that asks.
            target: Host that answers.
            protocol: ``icmp``, ``tcp`` or ``udp``.
            port: Destination port (TCP and UDP).
            source_port: Source port of every connection on the way. Proxies choose their own, so this picks one of the
                ways that are possible.
            flow_hash: Stands for the switches' hash in select groups.

        Raises:
            ControllerError: Unknown host or protocol.
        """
        request = self.hosts.request(source, target, protocol, source_port, port)
        return self.exchange(source, request, source_port, flow_hash, target)

    def exchange(
        self,
        source: str,
        request: Frame,
        source_port: int = DEFAULT_SOURCE_PORT,
        flow_hash: int = 0,
        target: str | None = None,
    ) -> Journey:
        """Follow a request of any form, and the answer of whoever gets it (or of nobody but *target*)."""
        there = [self.leg(source, request, flow_hash)]
        while there[-1].outcome is Outcome.DELIVERED and there[-1].steps[-1].what == "terminates":
            if len(there) == _MOST_LEGS:
                there[-1] = replace(there[-1], outcome=Outcome.LOOPED, reason=f"terminated {_MOST_LEGS} times")
                break
            proxy = there[-1].end
            there.append(self.leg(proxy, self.hosts.onward(proxy, there[-1].frame, source_port), flow_hash))
        if there[-1].outcome is not Outcome.DELIVERED or target not in (None, there[-1].end):
            return Journey(tuple(there), ())
        back: list[Leg] = []
        for leg in reversed(there):
            back.append(self.leg(leg.end, self.hosts.answer(leg.end, leg.frame), flow_hash))
            if back[-1].outcome is not Outcome.DELIVERED:
                break
        return Journey(tuple(there), tuple(back))

    def leg(self, sender: str, frame: Frame, flow_hash: int = 0) -> Leg:
        """Follow one packet from the host that sends it until a host keeps it or it is lost, and count it."""
        return self._walk(sender, frame, lambda switch, *seen: [switch.process(*seen, flow_hash)])[0]

    def ways(self, sender: str, frame: Frame) -> list[Leg]:
        """All legs that are possible, whatever the switches' hashes; nothing is counted.

        Raises:
            ControllerError: There are more than 10 000.
        """
        return self._walk(sender, frame, lambda switch, *seen: switch.outcomes(*seen))

    def _walk(self, sender: str, frame: Frame, decide: _Decide) -> list[Leg]:
        legs: list[Leg] = []
        first = Step(self.hosts.host(sender).name, "sends", frame)
        waiting: list[_Way] = [((first,), self._leave(sender), frozenset())]
        while waiting:
            steps, (node, port), seen = waiting.pop()
            frame = steps[-1].frame
            if node is None:
                reason = f"no link that is up leads on from {steps[-1].node}"
                legs.append(Leg(steps, Outcome.DROPPED, reason, frame))
                continue
            here = self._fabric.by_name[node]
            if not here.is_switch:
                what, reason = self.hosts.treats(here, frame)
                if what == "forwards":
                    passed = self.hosts.forwarded(here, frame)
                    waiting.append(((*steps, Step(node, what, passed)), self._leave(node), seen))
                    continue
                outcome = Outcome.DELIVERED
                if what == "drops":
                    outcome = Outcome.LOOPED if "time to live" in reason else Outcome.DROPPED
                legs.append(Leg((*steps, Step(node, what, frame)), outcome, reason, frame))
                continue
            if (node, port, frame) in seen:
                legs.append(Leg(steps, Outcome.LOOPED, f"{node} sees the packet twice", frame))
                continue
            seen |= {(node, port, frame)}
            down_ports = frozenset(number for name, number in self._down_ends if name == node)
            for verdict in decide(self.switches[here.dpid or 0], frame, port, down_ports):
                leg, way = self._switched(steps, node, port, verdict)
                if leg:
                    legs.append(leg)
                else:
                    waiting.append((way, self._peers.get((node, verdict.sent[0].port), (None, 0)), seen))
            if len(legs) + len(waiting) > _MOST_WAYS:
                raise ControllerError(f"a packet of {sender} has more than {_MOST_WAYS} possible ways")
        return legs

    @staticmethod
    def _switched(
        steps: tuple[Step, ...], node: str, port: int, verdict: Verdict
    ) -> tuple[Leg | None, tuple[Step, ...]]:
        """The way so far, and the leg if it ends here."""
        frame = verdict.sent[0].frame if verdict.sent else verdict.frame
        what = "switches" if verdict.sent else "drops"
        queue = verdict.sent[0].queue if verdict.sent else None
        way = (*steps, Step(node, what, frame, port, verdict.output, verdict.matched, verdict.reports, queue))
        if not verdict.sent:
            return Leg(way, Outcome.DROPPED, f"{node} drops it ({verdict.reason})", frame), way
        if len(verdict.sent) > 1:
            return Leg(way, Outcome.COPIED, f"{node} sends {len(verdict.sent)} copies", frame), way
        return None, way

    def _leave(self, host: str) -> tuple[str | None, int]:
        attachment = self._plan.routes.attachments.get(host)
        if attachment is None or (attachment.switch, attachment.port) in self._down_ends:
            return None, 0
        return attachment.switch, attachment.port


def _load(program: Program) -> Switch:
    return Switch(program.rules, program.groups, program.meters)
