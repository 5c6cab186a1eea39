"""Flows: what was decided about the first packet of a connection's direction, ready for those that follow.

A flow is named by tenant, addresses, protocol and ports. Its decision holds everything that a packet needs, down to the
differences of its checksums, so a known packet costs one look-up and its stores. Decisions are forgotten when a flow
has been idle, when room is needed, or when tenants, rules, services or routes change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np

from gateway.dataplane.classify import Classes, Service
from gateway.dataplane.counters import Counters
from gateway.dataplane.edits import Deltas, Edits
from gateway.dataplane.headers import W_TARGET_PORTS, W_TTL_SOURCE, Headers
from gateway.dataplane.lookup import MISSING, ExactTable
from gateway.dataplane.memory import Ints, Words, word
from gateway.dataplane.reasons import Reason

_PROTOCOL_SOURCE = word(0xFF << 48 | 0xFFFF_FFFF)
_16, _32, _48 = word(16), word(32), word(48)
_NARROW, _WIDE = 2, 5
_PENDING_BATCHES = 256


@dataclass(frozen=True)
class FlowKey:
    """The name of a flow."""

    tenant: int
    protocol: int
    source: IPv4Address | IPv6Address
    target: IPv4Address | IPv6Address
    source_port: int
    target_port: int

    def words(self) -> tuple[int, ...]:
        """The key in the table."""
        source, target = int(self.source), int(self.target)
        ports = self.source_port << 16 | self.target_port
        if self.source.version == 4:
            return target << 32 | ports, self.protocol << 48 | self.tenant << 32 | source
        low = (1 << 64) - 1
        last = self.tenant << 48 | self.protocol << 32 | ports
        return source >> 64, source & low, target >> 64, target & low, last


def key_of(headers: Headers, tenant: int, row: int) -> FlowKey:
    """The name of the flow of one frame."""
    wide = int(headers.family[row]) == 6
    address = IPv6Address if wide else IPv4Address
    return FlowKey(
        tenant,
        int(headers.protocol[row]),
        address(int(headers.source_high[row]) << 64 | int(headers.source[row])),
        address(int(headers.target_high[row]) << 64 | int(headers.target[row])),
        int(headers.source_port[row]),
        int(headers.target_port[row]),
    )


def narrow_keys(headers: Headers, tenant: Ints) -> tuple[Words, Words]:
    """Keys of IPv4 flows, for `ExactTable.find`."""
    second = headers.words[W_TTL_SOURCE] & _PROTOCOL_SOURCE
    second |= tenant.view(np.uint64) << _32
    return headers.words[W_TARGET_PORTS], second


def wide_keys(headers: Headers, tenant: Ints, rows: Ints) -> tuple[Words, ...]:
    """Keys of IPv6 flows."""
    last = tenant[rows].view(np.uint64) << _48
    last |= headers.protocol[rows].view(np.uint64) << _32
    last |= headers.source_port[rows].view(np.uint64) << _16
    last |= headers.target_port[rows].view(np.uint64)
    addresses = (headers.source_high, headers.source, headers.target_high, headers.target)
    return (*(column[rows] for column in addresses), last)


class Flows:
    """The table.

    Args:
        capacity: Flows at most.
        counters: Where frames are counted by tenant and service.

    Attributes:
        reason: What becomes of a flow's frames, by the flow's number.
        edits, deltas, target_ports: What they leave with.
        rule: The rule that decided.
    """

    def __init__(self, capacity: int, counters: Counters) -> None:
        self.capacity = capacity
        self._counters = counters
        self._narrow, self._wide = ExactTable(_NARROW, capacity), ExactTable(_WIDE, capacity)
        self._keys: dict[int, FlowKey] = {}
        self._free = list(range(capacity - 1, -1, -1))
        self.reason = np.zeros(capacity, np.uint8)
        self.edits, self.deltas = Edits.empty(capacity), Deltas.empty(capacity)
        self.target_ports = np.zeros(capacity, np.uint64)
        self.rule = np.zeros(capacity, np.int64)
        self.service = np.zeros(capacity, np.int64)
        self.frames = np.zeros(capacity, np.int64)
        self.bytes = np.zeros(capacity, np.int64)
        self.first_ns = np.zeros(capacity, np.int64)
        self.last_ns = np.zeros(capacity, np.int64)
        self._pending: list[tuple[Ints, Ints]] = []
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, headers: Headers, tenant: Ints) -> Ints:
        """The flow of each frame, or `MISSING`; frames without a tenant or a whole packet have none."""
        found = self._narrow.find(narrow_keys(headers, tenant))
        if np.count_nonzero(headers.plain) != found.size:
            family = headers.family
            found[family != 4] = MISSING
            six = np.flatnonzero(family == 6)
            if six.size:
                found[six] = self._wide.find(wide_keys(headers, tenant, six))
        if np.count_nonzero(headers.reason):
            found[headers.reason != 0] = MISSING
        return found

    def add(self, key: FlowKey, reason: Reason, edits: Edits, deltas: Deltas, row: int, **about: int) -> int:
        """Enter a flow, or decide anew about one that is there.

        Args:
            key: Its name.
            reason: What becomes of its frames.
            edits: What they leave with, in entry *row*.
            deltas: The same.
            row: Which entry.
            about: ``rule``, ``service`` and ``now_ns``.

        Returns:
            Its number.

        Raises:
            OverflowError: The table is full; see `make_room`.
        """
        table, words = self._table(key), key.words()
        number = table.get(words)
        if number == MISSING:
            if not self._free:
                raise OverflowError(f"a table of {self.capacity} flows is full")
            number = self._free.pop()
            table.put(words, number)
            self._keys[number] = key
            self.frames[number] = self.bytes[number] = 0
            self.first_ns[number] = self.last_ns[number] = about["now_ns"]
        self.reason[number] = reason
        self.edits.put(number, edits, row)
        self.deltas.put(number, deltas, row)
        ports = int(edits.source_port[row]) << 16 | int(edits.target_port[row])
        self.target_ports[number] = (int(edits.target[row]) << 32 | ports) & 0xFFFF_FFFF_FFFF_FFFF
        self.rule[number], self.service[number] = about["rule"], about["service"]
        return number

    def _table(self, key: FlowKey) -> ExactTable:
        return self._narrow if key.source.version == 4 else self._wide

    def number_of(self, key: FlowKey) -> int:
        """The number of a flow, or `MISSING`."""
        return self._table(key).get(key.words())

    def remove(self, key: FlowKey) -> bool:
        """Forget a flow; False: it was not there."""
        self.settle()
        number = self.number_of(key)
        if number == MISSING:
            return False
        self._table(key).remove(key.words())
        del self._keys[number]
        self._free.append(number)
        return True

    def clear(self) -> None:
        """Forget all flows."""
        self.settle()
        self._narrow.clear()
        self._wide.clear()
        self._keys.clear()
        self._free = list(range(self.capacity - 1, -1, -1))

    def record(self, numbers: Ints, lengths: Ints, now_ns: int) -> None:
        """Note that frames of these flows came; they are added up later, many batches at a time."""
        self.last_ns[numbers] = now_ns
        self._pending.append((numbers, lengths))
        if len(self._pending) >= _PENDING_BATCHES:
            self.settle()

    def settle(self) -> None:
        """Add up what was noted."""
        if not self._pending:
            return
        numbers = np.concatenate([numbers for numbers, _ in self._pending])
        lengths = np.concatenate([lengths for _, lengths in self._pending])
        self._pending.clear()
        flows, place = np.unique(numbers, return_inverse=True)
        frames = np.bincount(place)
        sizes = np.bincount(place, lengths).astype(np.int64)
        self.frames[flows] += frames
        self.bytes[flows] += sizes
        for number, count, size in zip(flows.tolist(), frames.tolist(), sizes.tolist(), strict=True):
            self._counters.count_class(self._keys[number].tenant, int(self.service[number]), count, size)

    def expire(self, before_ns: int) -> list[FlowKey]:
        """Forget the flows that had no frame since *before_ns*, and name them."""
        idle = [key for number, key in self._keys.items() if self.last_ns[number] < before_ns]
        for key in idle:
            self.remove(key)
        return idle

    def make_room(self, flows: int, keep: Ints) -> None:
        """Forget those that were idle longest, until there is room for so many more.

        Args:
            flows: How many are to come; they and those to keep must fit into the table.
            keep: Numbers of flows that are needed.
        """
        lacking = flows - len(self._free)
        if lacking <= 0:
            return
        self.settle()
        kept = set(keep.tolist())
        candidates = [number for number in self._keys if number not in kept]
        for number in sorted(candidates, key=lambda number: int(self.last_ns[number]))[:lacking]:
            self.remove(self._keys[number])
        self.evicted += lacking

    def __iter__(self) -> Iterator[FlowKey]:
        return iter(list(self._keys.values()))

    def describe(self, key: FlowKey) -> dict[str, Any] | None:
        """All that is known of a flow, as plain data; None: it is not there."""
        self.settle()
        number = self.number_of(key)
        if number == MISSING:
            return None
        address = type(key.source)
        edits = self.edits
        source = address(int(edits.source_high[number]) << 64 | int(edits.source[number]))
        target = address(int(edits.target_high[number]) << 64 | int(edits.target[number]))
        return {
            "key": {
                "tenant": key.tenant,
                "protocol": key.protocol,
                "source": str(key.source),
                "target": str(key.target),
                "source_port": key.source_port,
                "target_port": key.target_port,
            },
            "reason": Reason(int(self.reason[number])).label,
            "service": Service(int(self.service[number])).name.lower(),
            "rule": int(self.rule[number]),
            "source": str(source),
            "target": str(target),
            "source_port": int(edits.source_port[number]),
            "target_port": int(edits.target_port[number]),
            "next_hop": int(edits.next_hop[number]),
            "frames": int(self.frames[number]),
            "bytes": int(self.bytes[number]),
            "first_ns": int(self.first_ns[number]),
            "last_ns": int(self.last_ns[number]),
        }


def enter(
    flows: Flows,
    headers: Headers,
    classes: Classes,
    decided: tuple[Edits, Deltas, Ints],
    now_ns: int,
    keep: Ints,
) -> None:
    """Enter the flows of frames about each of which was decided.

    Args:
        flows: The table.
        headers: The frames.
        classes: Their tenants and services.
        decided: What they leave with, and the rules that they met.
        now_ns: The time.
        keep: Numbers of flows that must not make room for them.
    """
    edits, deltas, rule = decided
    keys: dict[FlowKey, int] = {}
    for row in range(headers.size):
        keys.setdefault(key_of(headers, int(classes.tenant[row]), row), row)
    flows.make_room(len(keys), keep)
    for key, row in keys.items():
        reason = Reason(int(headers.reason[row]))
        about = {"rule": int(rule[row]), "service": int(classes.service[row]), "now_ns": now_ns}
        flows.add(key, reason, edits, deltas, row, **about)
