"""One OpenFlow switch in memory: what its tables do to a packet. Tests use it, and so does the REST path query.

Knows everything that `controller.flows` can say. Two things only a real switch knows: which bucket of a select group
its hash takes (so `outcomes` says all that are possible), and whether a meter's rate is exceeded just now (so the
caller says which ones are).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from controller.changes import Change
from controller.flows import Bucket, FlowRule, Group, Match, Meter, Program, Table, ToGroup
from controller.frame import Frame
from controller.lookup import Rules, overlap
from controller.passage import Choose, Counter, Counters, Passage, Report, Sent, Verdict
from emulator.errors import ControllerError

__all__ = ["Counter", "Counters", "Frame", "Report", "Sent", "Switch", "Verdict", "overlap"]


class Switch:
    """The tables, groups and meters of one switch.

    Args:
        rules, groups, meters: All of them belong to this switch. A group that is missing drops what rules send to it.

    Attributes:
        groups, meters: By number.
        counters: What has been counted.

    Raises:
        ControllerError: Two rules have the same table, priority and match, or two groups or meters the same number.
    """

    def __init__(
        self, rules: Iterable[FlowRule] = (), groups: Iterable[Group] = (), meters: Iterable[Meter] = ()
    ) -> None:
        self._tables = {table: Rules() for table in Table}
        self.groups: dict[int, Group] = {}
        self.meters: dict[int, Meter] = {}
        self.counters = Counters()
        for group in groups:
            if self.groups.setdefault(group.number, group) is not group:
                raise ControllerError(f"two groups have the same number: {group}")
        for meter in meters:
            if self.meters.setdefault(meter.number, meter) is not meter:
                raise ControllerError(f"two meters have the same number: {meter}")
        seen: set[tuple[Table, int, Match]] = set()
        for rule in rules:
            if rule.key in seen:
                raise ControllerError(f"two rules have the same key: {rule}")
            seen.add(rule.key)
            self._tables[rule.table].add(rule)

    @property
    def program(self) -> Program:
        """All that the switch holds, in no particular order."""
        rules = tuple(rule for table in self._tables.values() for rule in table)
        return Program(rules, tuple(self.groups.values()), tuple(self.meters.values()))

    def apply(self, change: Change) -> None:
        """Change what the switch holds, as strict about order as a real one.

        Raises:
            ControllerError: A rule uses a group or meter that is not there. What came before it is done.
        """
        if change.clear:
            self._tables = {table: Rules() for table in Table}
            self.groups.clear()
            self.meters.clear()
            self.counters = Counters(received=self.counters.received, sent=self.counters.sent)
        self.meters |= {meter.number: meter for meter in change.put.meters}
        self.groups |= {group.number: group for group in change.put.groups}
        for rule in change.put.rules:
            lacks = self._lacks(rule)
            if lacks:
                raise ControllerError(f"there is no {lacks} for the rule {rule}")
            self._remove(rule)
            self._tables[rule.table].add(rule)
        for rule in change.delete.rules:
            self._remove(rule)
        for group in change.delete.groups:
            self.groups.pop(group.number, None)
        for meter in change.delete.meters:
            self.meters.pop(meter.number, None)
        if change.delete.groups or change.delete.meters:
            # Rules go with the groups and meters that they use.
            for rule in [rule for table in self._tables.values() for rule in table if self._lacks(rule)]:
                self._remove(rule)

    def _lacks(self, rule: FlowRule) -> str:
        """The group or meter that a rule uses and that is not there; empty if there is none."""
        for action in rule.actions:
            if isinstance(action, ToGroup) and action.group not in self.groups:
                return f"group {action.group}"
        return f"meter {rule.meter}" if rule.meter is not None and rule.meter not in self.meters else ""

    def _remove(self, rule: FlowRule) -> None:
        self._tables[rule.table].remove(rule)
        self.counters.rules.pop(rule.key, None)

    def process(
        self,
        frame: Frame,
        in_port: int,
        down_ports: Collection[int] = frozenset(),
        flow_hash: int = 0,
        exceeded: Collection[int] = frozenset(),
    ) -> Verdict:
        """Send a packet through the tables and count it.

        Args:
            frame: The packet.
            in_port: Where it came in.
            down_ports: Ports that carry nothing.
            flow_hash: Stands for the switch's hash of the packet in select groups, at least 0.
            exceeded: Meters whose rate is exceeded, so that they drop.
        """
        passage = self._passage(in_port, down_ports, exceeded, lambda live: _by_weight(live, flow_hash))
        verdict = passage.run(frame)
        passage.count(frame, self.counters)
        return verdict

    def outcomes(
        self,
        frame: Frame,
        in_port: int,
        down_ports: Collection[int] = frozenset(),
        exceeded: Collection[int] = frozenset(),
    ) -> list[Verdict]:
        """Every verdict that is possible, whatever the switch's hash; nothing is counted."""
        found: dict[Verdict, None] = {}
        waiting: list[tuple[int, ...]] = [()]
        while waiting:
            prefix = waiting.pop(0)
            taken = list(prefix)
            widths: list[int] = []

            def choose(live: Sequence[Bucket], taken: list[int] = taken, widths: list[int] = widths) -> Bucket:
                if len(widths) == len(taken):
                    taken.append(0)
                widths.append(len(live))
                return live[taken[len(widths) - 1]]

            found[self._passage(in_port, down_ports, exceeded, choose).run(frame)] = None
            # The choices that this run made beyond its prefix were the first ones: the others are still to be tried.
            for position in range(len(prefix), len(widths)):
                waiting += [(*taken[:position], other) for other in range(1, widths[position])]
        return list(found)

    def _passage(self, in_port: int, down_ports: Collection[int], exceeded: Collection[int], choose: Choose) -> Passage:
        return Passage(self._tables, self.groups, in_port, down_ports, exceeded, choose)


def _by_weight(live: Sequence[Bucket], flow_hash: int) -> Bucket:
    shares = list(accumulate(bucket.weight for bucket in live))
    return live[bisect_right(shares, flow_hash % shares[-1])]
