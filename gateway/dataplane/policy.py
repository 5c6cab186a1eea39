"""What may pass: rules in order, the first that matches decides, and what no rule matches is denied.

Each field of a rule is turned into sets of rules: for every value of the field (or interval of values) a bit mask of
the rules that this value satisfies. A frame's rules are the intersection of its fields' masks, and the lowest bit is
the first rule; so the cost of 64 rules is that of one. (Lakshman and Stiliadis, SIGCOMM 1998.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from itertools import accumulate
from operator import xor

import numpy as np
from numpy.typing import NDArray

from gateway.dataplane.classify import MAX_TENANTS, Classes, Service
from gateway.dataplane.headers import Headers
from gateway.dataplane.lookup import Network
from gateway.dataplane.memory import Flags, Ints, Words, word
from gateway.dataplane.reasons import Reason

_BITS = 64
_NONE, _ONE = word(0), word(1)
_MASK64 = (1 << 64) - 1
ANY_PORT = (0, 65535)


@dataclass(frozen=True)
class Rule:
    """What a rule is about; None: anything.

    Attributes:
        allow: Whether what matches may pass.
        tenant: Whose frames.
        service: For which service.
        protocol: Transport protocol.
        source, target: Addresses.
        source_ports, target_ports: First and last port.
    """

    allow: bool
    tenant: int | None = None
    service: Service | None = None
    protocol: int | None = None
    source: Network | None = None
    target: Network | None = None
    source_ports: tuple[int, int] = ANY_PORT
    target_ports: tuple[int, int] = ANY_PORT


class _Addresses:
    """The masks of the rules that an address satisfies."""

    def __init__(self, networks: Sequence[Network | None]) -> None:
        narrow = [
            (0, 0xFFFF_FFFF) if network is None else _span(network) if isinstance(network, IPv4Network) else (1, 0)
            for network in networks
        ]
        self._starts, self._masks = _interval_masks(narrow, 1 << 32)
        self._anywhere = _mask(network is None for network in networks)
        self._wide: list[tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]] = []
        for network in sorted({network for network in networks if isinstance(network, IPv6Network)}):
            first, netmask = int(network.network_address), int(network.netmask)
            halves = (first >> 64, first & _MASK64, netmask >> 64, netmask & _MASK64)
            bits = _mask(one == network for one in networks)
            self._wide.append(
                (np.uint64(halves[0]), np.uint64(halves[1]), np.uint64(halves[2]), np.uint64(halves[3]), bits)
            )
        self.is_trivial = all(network is None for network in networks)

    def masks(self, family: Ints, high: Words, low: Words) -> Words:
        masks: Words = self._masks[np.searchsorted(self._starts, low, "right") - 1]
        six = family != 4
        if np.count_nonzero(six):
            masks[six] = self._anywhere
            for first, second, first_mask, second_mask, bits in self._wide:
                same = six & (high & first_mask == first) & (low & second_mask == second)
                masks[same] |= bits
        return masks


class _Block:
    """Up to 64 rules; see the module."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._fields: list[Callable[[Headers, Classes], Words]] = []
        self._exact(rules, lambda rule: rule.tenant, MAX_TENANTS, lambda _, classes: classes.tenant)
        self._exact(rules, lambda rule: rule.service, len(Service), lambda _, classes: classes.service)
        self._exact(rules, lambda rule: rule.protocol, 256, lambda headers, _: headers.protocol)
        self._ports([rule.source_ports for rule in rules], lambda headers: headers.source_port)
        self._ports([rule.target_ports for rule in rules], lambda headers: headers.target_port)
        source, target = _Addresses([rule.source for rule in rules]), _Addresses([rule.target for rule in rules])
        if not source.is_trivial:
            self._fields.append(lambda h, _: source.masks(h.family, h.source_high, h.source))
        if not target.is_trivial:
            self._fields.append(lambda h, _: target.masks(h.family, h.target_high, h.target))
        self._all = _mask(True for _ in rules)

    def _exact(
        self,
        rules: Sequence[Rule],
        wanted: Callable[[Rule], int | None],
        size: int,
        column: Callable[[Headers, Classes], Ints],
    ) -> None:
        values = [wanted(rule) for rule in rules]
        if all(value is None for value in values):
            return
        # Which of the masks each value has: the first is that of values that no rule names.
        choice = np.zeros(size, np.uint8)
        masks = [_mask(value is None for value in values)]
        for value in sorted({value for value in values if value is not None}):
            if not 0 <= value < size:
                raise ValueError(f"a rule asks for {value}: numbers from 0 to {size - 1} can be")
            choice[value] = len(masks)
            masks.append(_mask(one in (None, value) for one in values))
        table = np.array(masks, np.uint64)
        self._fields.append(lambda headers, classes: table[choice[column(headers, classes)]])

    def _ports(self, spans: Sequence[tuple[int, int]], column: Callable[[Headers], Ints]) -> None:
        if all(span == ANY_PORT for span in spans):
            return
        starts, some = _interval_masks(spans, 1 << 16)
        widths = np.diff(np.append(starts, np.uint64(1 << 16))).astype(np.int64)
        choice = np.repeat(np.arange(some.size, dtype=np.uint8), widths)
        self._fields.append(lambda headers, _: some[choice[column(headers)]])

    def masks(self, headers: Headers, classes: Classes) -> Words:
        found: Words | None = None
        for field in self._fields:
            masks = field(headers, classes)
            found = masks if found is None else np.bitwise_and(found, masks, out=found)
        return np.full(headers.size, self._all, np.uint64) if found is None else found


class Policy:
    """Rules that were made ready for `judge`.

    Args:
        rules: In order of precedence.

    Raises:
        ValueError: A rule asks for a value that cannot be.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        for rule in rules:
            for first, last in (rule.source_ports, rule.target_ports):
                if not 0 <= first <= last <= 65535:
                    raise ValueError(f"ports from {first} to {last} are no range")
        self._blocks = [_Block(self.rules[start : start + _BITS]) for start in range(0, len(rules), _BITS)]
        self._allows = np.array([*(rule.allow for rule in rules), False])

    def match(self, headers: Headers, classes: Classes) -> Ints:
        """The first rule that matches each frame; the number of rules where none does.

        What `match` says of frames without a tenant or of unparsed ones means nothing.
        """
        rule = np.full(headers.size, len(self.rules), np.int64)
        for number in range(len(self._blocks) - 1, -1, -1):
            masks = self._blocks[number].masks(headers, classes)
            lowest = masks & (~masks + _ONE)
            first = np.bitwise_count(lowest - _ONE).astype(np.int64)
            if number:
                first += number * _BITS
            np.copyto(rule, first, where=masks != _NONE)
        return rule

    def allows(self, rule: Ints) -> Flags:
        """Whether what these rules matched may pass."""
        return self._allows[rule]


def judge(headers: Headers, classes: Classes, policy: Policy) -> Ints:
    """Mark frames that no rule allows as `Reason.DENIED`, and say which rule each frame met (see `Policy.match`)."""
    rule = policy.match(headers, classes)
    denied = ~policy.allows(rule)
    if np.count_nonzero(denied):
        headers.reason[denied & (headers.reason == 0)] = Reason.DENIED
    return rule


def _mask(which: Iterable[bool]) -> np.uint64:
    bits = 0
    for position, is_set in enumerate(which):
        bits |= bool(is_set) << position
    return np.uint64(bits)


def _span(network: IPv4Network) -> tuple[int, int]:
    return int(network.network_address), int(network.broadcast_address)


def _interval_masks(spans: Sequence[tuple[int, int]], size: int) -> tuple[Words, NDArray[np.uint64]]:
    """Cut 0 to *size* where a span begins or ends, and say for each interval which spans cover it."""
    toggles = {0: 0}
    for position, (first, last) in enumerate(spans):
        if first <= last:
            toggles[first] = toggles.get(first, 0) ^ 1 << position
            toggles[last + 1] = toggles.get(last + 1, 0) ^ 1 << position
    starts = sorted(cut for cut in toggles if cut < size)
    masks = list(accumulate((toggles[cut] for cut in starts), xor))
    return np.array(starts, np.uint64), np.array(masks, np.uint64)
