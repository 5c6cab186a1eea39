"""What hosts send through in-memory switches, and what the switches count of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controller.events import Counted, PortCount
from controller.flows import FlowRule, Group, Match, Output, Purpose, Table, ToGroup, purpose_of
from controller.paths.ways import Pair

if TYPE_CHECKING:
    from tests.support.controller_machine import Machine

_MOST_SWITCHES = 50


class Traffic:
    """Steady demands that follow what switches hold.

    Args:
        machine: The switches.

    Attributes:
        demands: Rates in bit/s by pair.
    """

    def __init__(self, machine: Machine) -> None:
        self.demands: dict[Pair, float] = {}
        self._machine = machine
        self._until_ns = 0
        self._sent: Counter[tuple[int, int]] = Counter()
        self._received: Counter[tuple[int, int]] = Counter()
        self._held: Counter[tuple[int, Pair]] = Counter()

    def counted(self, dpid: int, token: int) -> Counted:
        """What a switch says of the time so far."""
        self._flow()
        ports = sorted({port for end, port in (*self._sent, *self._received) if end == dpid})
        counts = tuple(PortCount(port, self._sent[dpid, port], self._received[dpid, port]) for port in ports)
        rules = [(rule, pair) for pair in self.demands if (rule := self.holding(dpid, pair)) is not None]
        return Counted(dpid, token, counts, tuple((rule, self._held[dpid, pair]) for rule, pair in rules))

    def holding(self, dpid: int, pair: Pair) -> FlowRule | None:
        """The rule by which a switch holds or counts a pair."""
        by_name = self._machine.plan.fabric.by_name
        match = Match(eth_src=by_name[pair[0]].mac, eth_dst=by_name[pair[1]].mac)
        for rule in self._machine.switches[dpid].program.rules:
            if rule.table is Table.ROUTE and purpose_of(rule.cookie) is Purpose.PIN and rule.match == match:
                return rule
        return None

    def held_ports(self, dpid: int, pair: Pair) -> set[int] | None:
        """Ports by which a rule of the pair's own sends its packets; None: there is none."""
        rule = self.holding(dpid, pair)
        if rule is None:
            return None
        (action,) = rule.actions
        if isinstance(action, Output):
            return {action.port}
        assert isinstance(action, ToGroup)
        return {bucket.port for bucket in self._group(dpid, action.group).buckets}

    def way(self, pair: Pair) -> list[tuple[int, int]]:
        """Switches and ports that a pair's packets take; it ends where they are lost."""
        routes = self._machine.plan.routes
        dpids = {node.name: node.dpid or 0 for node in routes.fabric.switches}
        end = routes.attachments[pair[1]]
        dpid = dpids[routes.attachments[pair[0]].switch]
        found: list[tuple[int, int]] = []
        while dpid != dpids[end.switch] and len(found) < _MOST_SWITCHES:
            down = self._machine.down_ports(dpid)
            ports = [port for port in self._next_ports(dpid, pair, end.switch) if port not in down]
            if not ports:
                return found
            found.append((dpid, ports[0]))
            dpid = self._machine.cables[dpid, ports[0]][0]
        return [*found, (dpid, end.port)]

    def _next_ports(self, dpid: int, pair: Pair, end: str) -> list[int]:
        routes = self._machine.plan.routes
        rule = self.holding(dpid, pair)
        name = next(node.name for node in routes.fabric.switches if node.dpid == dpid)
        action = rule.actions[0] if rule else routes.towards(name, end, routes.plane(*pair))
        if isinstance(action, Output):
            return [action.port]
        return (
            [bucket.port for bucket in self._group(dpid, action.group).buckets] if isinstance(action, ToGroup) else []
        )

    def _group(self, dpid: int, number: int) -> Group:
        return self._machine.switches[dpid].groups[number]

    def _flow(self) -> None:
        """Count what was sent since the last time."""
        passed_ns, self._until_ns = self._machine.now_ns - self._until_ns, self._machine.now_ns
        routes = self._machine.plan.routes
        dpids = {node.name: node.dpid or 0 for node in routes.fabric.switches}
        for pair, rate in self.demands.items():
            count = round(rate * passed_ns / 8e9)
            start = routes.attachments[pair[0]]
            here = (dpids[start.switch], start.port)
            for dpid, port in self.way(pair):
                self._received[here] += count
                self._sent[dpid, port] += count
                if self.holding(dpid, pair) is not None:
                    self._held[dpid, pair] += count
                here = self._machine.cables.get((dpid, port), here)
