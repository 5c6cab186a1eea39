"""One OpenFlow switch in memory: what its tables do to a packet. Tests use it, and so does the REST path query.

Knows the subset of `controller.flows`, with priorities, masks, metadata and counters. Lookup is a tuple-space search:
within a priority, rules that look at the same fields share one dictionary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller.flows import ETH_TYPE_IPV4, IP_PROTO_TCP, FlowRule, Match, Table
from emulator.errors import ControllerError


@dataclass(frozen=True)
class Frame:
    """A packet's headers; addresses are written as in `Match`.

    Attributes:
        eth_src, eth_dst: Ethernet addresses.
        eth_type: Ethernet type.
        ipv4_src, ipv4_dst: Only of IPv4.
        ip_proto: IP protocol.
        tcp_src, tcp_dst: Only of TCP.
        ttl: IP time to live.
        size_bytes: For counters.
    """

    eth_src: str
    eth_dst: str
    eth_type: int = ETH_TYPE_IPV4
    ipv4_src: str | None = None
    ipv4_dst: str | None = None
    ip_proto: int | None = None
    tcp_src: int | None = None
    tcp_dst: int | None = None
    ttl: int = 64
    size_bytes: int = 64


@dataclass(frozen=True)
class Verdict:
    """What a switch did to a packet.

    Attributes:
        frame: The packet as it left (or was when dropped).
        output: Port, or None: dropped.
        matched: The rules it met, in order.
    """

    frame: Frame
    output: int | None
    matched: tuple[FlowRule, ...]


@dataclass
class Counter:
    """Packets and bytes."""

    packets: int = 0
    bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Count one packet."""
        self.packets += 1
        self.bytes += size_bytes


_Shape = tuple[tuple[str, int | None], ...]
_Values = tuple[int | str | None, ...]


class Switch:
    """The tables of one switch.

    Args:
        rules: All of them belong to this switch.

    Raises:
        ControllerError: Two rules have the same table, priority and match.
    """

    def __init__(self, rules: Iterable[FlowRule]) -> None:
        self._space: dict[Table, dict[int, dict[_Shape, dict[_Values, FlowRule]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(dict))
        )
        self.matched: dict[tuple[Table, int, Match], Counter] = {}
        self.received: dict[int, Counter] = defaultdict(Counter)
        self.sent: dict[int, Counter] = defaultdict(Counter)
        self.dropped = Counter()
        for rule in rules:
            if rule.key in self.matched:
                raise ControllerError(f"two rules have the same key: {rule}")
            self.matched[rule.key] = Counter()
            shape = _shape(rule.match)
            self._space[rule.table][rule.priority][shape][_rule_values(rule.match, shape)] = rule

    def process(self, frame: Frame, in_port: int) -> Verdict:
        """Send a packet through the tables and count it."""
        self.received[in_port].add(frame.size_bytes)
        table: Table | None = Table.STEER
        metadata = 0
        matched: list[FlowRule] = []
        output: int | None = None
        while table is not None:
            rule = self._lookup(table, frame, in_port, metadata)
            if rule is None:
                break
            matched.append(rule)
            self.matched[rule.key].add(frame.size_bytes)
            if rule.set_eth_dst is not None:
                frame = replace(frame, eth_dst=rule.set_eth_dst)
            if rule.write_metadata is not None:
                metadata = rule.write_metadata
            if rule.output is not None:
                output = rule.output
            table = rule.goto
        # OpenFlow does not send a packet back to where it came from unless told so by name.
        if output is None or output == in_port:
            self.dropped.add(frame.size_bytes)
            return Verdict(frame, None, tuple(matched))
        self.sent[output].add(frame.size_bytes)
        return Verdict(frame, output, tuple(matched))

    def _lookup(self, table: Table, frame: Frame, in_port: int, metadata: int) -> FlowRule | None:
        priorities = self._space.get(table, {})
        for priority in sorted(priorities, reverse=True):
            for shape, rules in priorities[priority].items():
                values = tuple(_look(frame, in_port, metadata, name, mask) for name, mask in shape)
                rule = rules.get(values)
                if rule is not None:
                    return rule
        return None


def _shape(match: Match) -> _Shape:
    return tuple(
        (name, match.tcp_src_mask if name == "tcp_src" else None)
        for name in match.set_fields()
        if name != "tcp_src_mask"
    )


def _rule_values(match: Match, shape: _Shape) -> _Values:
    return tuple(getattr(match, name) for name, _ in shape)


def _look(frame: Frame, in_port: int, metadata: int, name: str, mask: int | None) -> int | str | None:
    if name == "in_port":
        return in_port
    if name == "metadata":
        return metadata
    if name in ("tcp_src", "tcp_dst") and frame.ip_proto != IP_PROTO_TCP:
        return None
    value: int | str | None = getattr(frame, name)
    if mask is not None and isinstance(value, int):
        return value & mask
    return value


def overlap(a: FlowRule, b: FlowRule) -> bool:
    """Whether some packet matches two rules of the same table and priority, so that OpenFlow leaves open which wins."""
    if (a.table, a.priority) != (b.table, b.priority):
        return False
    mine, theirs = a.match.set_fields(), b.match.set_fields()
    for name in mine.keys() & theirs.keys() - {"tcp_src", "tcp_src_mask"}:
        if mine[name] != theirs[name]:
            return False
    if a.match.tcp_src is None or b.match.tcp_src is None:
        return True
    full = 0xFFFF
    both = (full if a.match.tcp_src_mask is None else a.match.tcp_src_mask) & (
        full if b.match.tcp_src_mask is None else b.match.tcp_src_mask
    )
    return (a.match.tcp_src ^ b.match.tcp_src) & both == 0
