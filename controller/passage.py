"""One packet's way through the tables of a switch, and what was seen on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from controller.flows import (
    IN_PORT,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Output,
    SetQueue,
    Table,
    ToController,
    ToGroup,
)
from controller.frame import Frame
from controller.lookup import Rules

Choose = Callable[[Sequence[Bucket]], Bucket]
"""Picks one of the live buckets of a select group."""


@dataclass(frozen=True)
class Sent:
    """A packet that left a switch.

    Attributes:
        port: Port by which it left.
        frame: The packet as it left.
        queue: Queue of that port that was chosen, or None.
    """

    port: int
    frame: Frame
    queue: int | None = None


@dataclass(frozen=True)
class Report:
    """A copy for the controller.

    Attributes:
        rule: The rule that sent it.
        frame: The packet as it was then.
        max_bytes: How much of it.
    """

    rule: FlowRule
    frame: Frame
    max_bytes: int


@dataclass(frozen=True)
class Verdict:
    """What a switch did to a packet.

    Attributes:
        frame: The packet as it was at the end of the tables.
        sent: What left, in order; empty: dropped.
        reports: What the controller got.
        matched: The rules that it met, in order.
        reason: Why nothing left, one clause; empty if something did.
    """

    frame: Frame
    sent: tuple[Sent, ...]
    reports: tuple[Report, ...]
    matched: tuple[FlowRule, ...]
    reason: str = ""

    @property
    def output(self) -> int | None:
        """The port by which it left (the first, should there be several), or None: dropped."""
        return self.sent[0].port if self.sent else None


@dataclass
class Counter:
    """Packets and bytes."""

    packets: int = 0
    bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Count one packet."""
        self.packets += 1
        self.bytes += size_bytes


@dataclass
class Counters:
    """What a switch has counted.

    Attributes:
        rules: By the rules' keys.
        groups: By number.
        buckets: By number of the group and position of the bucket.
        meters: By number, packets that came to the meter.
        received, sent: By port.
        dropped: Packets of which nothing left.
    """

    rules: dict[tuple[Table, int, Match], Counter] = field(default_factory=lambda: defaultdict(Counter))
    groups: dict[int, Counter] = field(default_factory=lambda: defaultdict(Counter))
    buckets: dict[tuple[int, int], Counter] = field(default_factory=lambda: defaultdict(Counter))
    meters: dict[int, Counter] = field(default_factory=lambda: defaultdict(Counter))
    received: dict[int, Counter] = field(default_factory=lambda: defaultdict(Counter))
    sent: dict[int, Counter] = field(default_factory=lambda: defaultdict(Counter))
    dropped: Counter = field(default_factory=Counter)


class Passage:
    """One packet's way through the tables of one switch; the arguments are those of `flowtable.Switch.process`."""

    def __init__(
        self,
        tables: Mapping[Table, Rules],
        groups: Mapping[int, Group],
        in_port: int,
        down_ports: Collection[int],
        exceeded: Collection[int],
        choose: Choose,
    ) -> None:
        self._tables = tables
        self._known_groups = groups
        self._in_port = in_port
        self._down_ports = down_ports
        self._exceeded = exceeded
        self._choose = choose
        self._queue: int | None = None
        self._matched: list[FlowRule] = []
        self._sent: list[Sent] = []
        self._reports: list[Report] = []
        self._buckets: list[tuple[int, int]] = []
        self._groups: list[int] = []
        self._reason = "no rule matches"

    def run(self, frame: Frame) -> Verdict:
        """Pass all tables."""
        table: Table | None = Table.ADMIT
        metadata = 0
        while table is not None:
            rule = self._tables[table].find(frame, self._in_port, metadata)
            if rule is None:
                self._reason = f"no rule of table {table.name.lower()} matches"
                break
            self._matched.append(rule)
            self._reason = str(rule)
            if rule.meter in self._exceeded:
                self._reason = f"meter {rule.meter} is exceeded"
                break
            for action in rule.actions:
                if isinstance(action, Output):
                    self._output(action.port, frame)
                elif isinstance(action, ToGroup):
                    self._to_group(action.group, frame)
                elif isinstance(action, ToController):
                    self._reports.append(Report(rule, frame, action.max_bytes))
                elif isinstance(action, SetQueue):
                    self._queue = action.queue
                else:
                    frame = frame.rewritten(action)
            if rule.write_metadata is not None:
                metadata = rule.write_metadata
            table = rule.goto
        reason = "" if self._sent else self._reason
        return Verdict(frame, tuple(self._sent), tuple(self._reports), tuple(self._matched), reason)

    def _output(self, port: int, frame: Frame) -> None:
        if port == IN_PORT:
            port = self._in_port
        elif port == self._in_port:
            # OpenFlow does not send a packet back to where it came from unless told so by name.
            self._reason = f"it came in by port {port}, by which it should leave"
            return
        if port in self._down_ports:
            self._reason = f"port {port} is down"
            return
        self._sent.append(Sent(port, frame, self._queue))

    def _to_group(self, number: int, frame: Frame) -> None:
        group = self._known_groups.get(number)
        if group is None:
            self._reason = f"there is no group {number}"
            return
        self._groups.append(number)
        live = [bucket for bucket in group.buckets if bucket.port not in self._down_ports]
        if group.kind is GroupKind.SELECT:
            live = [bucket for bucket in live if bucket.weight]
        if not live:
            self._reason = f"no port of group {number} is up"
            return
        bucket = live[0] if group.kind is GroupKind.FAST_FAILOVER or len(live) == 1 else self._choose(live)
        self._buckets.append((number, group.buckets.index(bucket)))
        self._output(bucket.port, frame)

    def count(self, frame: Frame, counters: Counters) -> None:
        """Count the packet as it came and as it left."""
        counters.received[self._in_port].add(frame.size_bytes)
        for rule in self._matched:
            counters.rules[rule.key].add(frame.size_bytes)
            if rule.meter is not None:
                counters.meters[rule.meter].add(frame.size_bytes)
        for number in self._groups:
            counters.groups[number].add(frame.size_bytes)
        for place in self._buckets:
            counters.buckets[place].add(frame.size_bytes)
        for sent in self._sent:
            counters.sent[sent.port].add(sent.frame.size_bytes)
        if not self._sent:
            counters.dropped.add(frame.size_bytes)
