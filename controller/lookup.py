"""Finds the rule that a packet meets in one flow table: a tuple-space search, as Open vSwitch's classifier does it.

Within a priority, rules that look at the same bits share one dictionary, so a lookup costs as many accesses as there
are different sets of bits, not rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address

from controller.flows import MASKED_FIELDS, FlowRule, Match
from controller.frame import Frame

_FULL_ADDRESS = 0xFFFFFFFF
_FULL_PORT = 0xFFFF
_PREFIXES = ("ipv4_src", "ipv4_dst")

_Shape = tuple[tuple[str, int | None], ...]
"""Fields in order, each with the bits that count; None: all."""
_Values = tuple[int | str | bool | None, ...]


@lru_cache(maxsize=65_536)
def prefix(text: str) -> tuple[int, int]:
    """An IPv4 address or prefix as value and mask."""
    address, _, length = text.partition("/")
    mask = _FULL_ADDRESS << (32 - int(length or 32)) & _FULL_ADDRESS
    return int(IPv4Address(address)) & mask, mask


class Rules:
    """The rules of one table."""

    def __init__(self) -> None:
        self._space: dict[int, dict[_Shape, dict[_Values, FlowRule]]] = {}
        self._priorities: list[int] = []

    def __iter__(self) -> Iterator[FlowRule]:
        for priority in self._priorities:
            for rules in self._space[priority].values():
                yield from rules.values()

    def add(self, rule: FlowRule) -> None:
        """Add a rule, or replace the one with the same priority and match."""
        shape, values = _place(rule.match)
        if rule.priority not in self._space:
            self._space[rule.priority] = {}
            self._priorities = sorted(self._space, reverse=True)
        self._space[rule.priority].setdefault(shape, {})[values] = rule

    def remove(self, rule: FlowRule) -> None:
        """Remove the rule with the same priority and match, if it is there."""
        shape, values = _place(rule.match)
        shapes = self._space.get(rule.priority, {})
        shapes.get(shape, {}).pop(values, None)
        if not shapes.get(shape, True):
            del shapes[shape]
        if rule.priority in self._space and not shapes:
            del self._space[rule.priority]
            self._priorities.remove(rule.priority)

    def find(self, frame: Frame, in_port: int, metadata: int) -> FlowRule | None:
        """The rule of the highest priority that a packet fits."""
        for priority in self._priorities:
            for shape, rules in self._space[priority].items():
                rule = rules.get(tuple(_look(frame, in_port, metadata, name, mask) for name, mask in shape))
                if rule is not None:
                    return rule
        return None


def _place(match: Match) -> tuple[_Shape, _Values]:
    shape: list[tuple[str, int | None]] = []
    values: list[int | str | bool | None] = []
    for name, value in match.set_fields().items():
        if name.endswith("_mask"):
            continue
        mask: int | None = None
        if name in _PREFIXES:
            value, mask = prefix(str(value))
        elif name in MASKED_FIELDS:
            mask = getattr(match, f"{name}_mask")
            value = value if mask is None else int(value) & mask
        shape.append((name, mask))
        values.append(value)
    return tuple(shape), tuple(values)


def _look(frame: Frame, in_port: int, metadata: int, name: str, mask: int | None) -> int | str | bool | None:
    if name == "in_port":
        return in_port
    if name == "metadata":
        return metadata
    value = frame.field(name)
    if value is None or mask is None:
        return value
    return (prefix(value)[0] if isinstance(value, str) else value) & mask


def overlap(a: FlowRule, b: FlowRule) -> bool:
    """Whether some packet matches two rules of the same table and priority, so that OpenFlow leaves open which wins."""
    if (a.table, a.priority) != (b.table, b.priority):
        return False
    mine, theirs = a.match.set_fields(), b.match.set_fields()
    for name in mine.keys() & theirs.keys():
        one, other = mine[name], theirs[name]
        if name.endswith("_mask"):
            continue
        if name in _PREFIXES:
            (value, mask), (other_value, other_mask) = prefix(str(one)), prefix(str(other))
            if (value ^ other_value) & mask & other_mask:
                return False
        elif name in MASKED_FIELDS:
            both = int(mine.get(f"{name}_mask", _FULL_PORT)) & int(theirs.get(f"{name}_mask", _FULL_PORT))
            if (int(one) ^ int(other)) & both:
                return False
        elif one != other:
            return False
    return True
