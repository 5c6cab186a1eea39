"""Flows: what was decided about the first packet of a connection's direction, ready for those that follow.

A flow is named by tenant, addresses, protocol and ports. Its decision holds everything that a packet needs, down to the
differences of its checksums, so a known packet costs one look-up and its stores. Decisions are forgotten when a flow
has been idle, when room is needed, or when tenants, rules, services or routes change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gateway.dataplane.classify import Service
from gateway.dataplane.counters import Counters
from gateway.dataplane.decisions import OUTSIDE, Decisions
from gateway.dataplane.edits import Deltas, Edits
from gateway.dataplane.flow_key import NARROW, WIDE, FlowKey, narrow_keys, wide_keys
from gateway.dataplane.headers import Headers
from gateway.dataplane.lookup import MISSING, ExactTable
from gateway.dataplane.memory import Flags, Ints, Words
from gateway.dataplane.reasons import Reason

_PENDING_BATCHES = 256


class Flows:
    """The table.

    Args:
        capacity: Flows at most.
        counters: Where frames are counted by tenant and service.

    Attributes:
        reason: What becomes of a flow's frames, by the flow's number.
        edits, deltas, target_ports: What they leave with.
        evicted: Flows that had to make room for others.
        expired: Flows that were forgotten because they were idle.
        begun: Flows that were entered so far.
    """

    def __init__(self, capacity: int, counters: Counters) -> None:
        self.capacity = capacity
        self._counters = counters
        self._tables = {NARROW: ExactTable(NARROW, capacity), WIDE: ExactTable(WIDE, capacity)}
        self._keys = np.zeros((WIDE, capacity), np.uint64)
        self._width = np.zeros(capacity, np.int64)
        self._free = np.arange(capacity, dtype=np.int64)
        self.reason = np.zeros(capacity, np.uint8)
        self.edits, self.deltas = Edits.empty(capacity), Deltas.empty(capacity)
        self.target_ports = np.zeros(capacity, np.uint64)
        self._rule, self._service, self._tenant = (np.zeros(capacity, np.int64) for _ in range(3))
        self._frames, self._bytes = (np.zeros(capacity, np.int64) for _ in range(2))
        self._first_ns, self._last_ns = (np.zeros(capacity, np.int64) for _ in range(2))
        self._pending: list[tuple[Ints, Ints]] = []
        self.evicted = self.expired = self.begun = 0
        self._begun: list[Ints] | None = None

    def __len__(self) -> int:
        return self.capacity - self._free.size

    def find(self, headers: Headers, tenant: Ints) -> Ints:
        """The flow of each frame, or `MISSING`; frames whose reason is known have none."""
        found = self._tables[NARROW].find(narrow_keys(headers, tenant))
        if np.count_nonzero(headers.plain) != found.size:
            family = headers.family
            six = np.flatnonzero(family == 6)
            if six.size:
                found[six] = self._tables[WIDE].find(wide_keys(headers, tenant, six))
        if np.count_nonzero(headers.reason):
            found[headers.reason != 0] = MISSING
        return found

    def enter(self, headers: Headers, tenant: Ints, decisions: Decisions, now_ns: int, keep: Ints) -> None:
        """Enter the flows of frames about each of which was decided; they must not be in the table.

        Args:
            headers: The frames, all of IP; there may be several of a flow.
            tenant: Their tenants.
            decisions: What was decided about each.
            now_ns: The time.
            keep: Numbers of flows that must not make room for them.
        """
        four = np.flatnonzero(headers.family == 4)
        six = np.flatnonzero(headers.family == 6)
        narrow = tuple(column[four] for column in narrow_keys(headers, tenant))
        parts = []
        for rows, keys in ((four, narrow), (six, wide_keys(headers, tenant, six))):
            first = _first_of_each(keys)
            parts.append((rows[first], tuple(column[first] for column in keys)))
        self.make_room(sum(rows.size for rows, _ in parts), keep)
        for rows, keys in parts:
            if rows.size:
                self._enter(keys, tenant[rows], decisions.take(rows), now_ns)

    def _enter(self, keys: tuple[Words, ...], tenant: Ints, decisions: Decisions, now_ns: int) -> None:
        count = tenant.size
        numbers, self._free = self._free[:count], self._free[count:]
        self._tables[len(keys)].put_new(keys, numbers)
        for index, column in enumerate(keys):
            self._keys[index, numbers] = column
        self._width[numbers] = len(keys)
        self._tenant[numbers] = tenant
        self._frames[numbers] = self._bytes[numbers] = 0
        self._first_ns[numbers] = self._last_ns[numbers] = now_ns
        self._decide(numbers, decisions)
        self.begun += count
        if self._begun is not None:
            self._begun.append(numbers)

    def take_begun(self) -> Ints:
        """Numbers of the flows that were entered since the last call; the first call begins to remember them."""
        begun, self._begun = self._begun, []
        return np.concatenate(begun) if begun else np.zeros(0, np.int64)

    def active_since(self, time_ns: int) -> Ints:
        """Numbers of the flows that had a frame since a time."""
        return np.flatnonzero((self._width != 0) & (self._last_ns >= time_ns))

    def are_still(self, numbers: Ints, since_ns: Ints) -> Flags:
        """Which numbers belong to the same flows as at these times; forgotten flows' numbers are used again."""
        same: Flags = (self._width[numbers] != 0) & (self._first_ns[numbers] <= since_ns)
        return same

    def credit(self, numbers: Ints, frames: Ints, sizes: Ints, last_ns: Ints) -> None:
        """Count frames of flows, each named once, that were forwarded elsewhere.

        Args:
            numbers: The flows.
            frames: How many.
            sizes: Their bytes together.
            last_ns: When the last one came.
        """
        self._last_ns[numbers] = np.maximum(self._last_ns[numbers], last_ns)
        self._frames[numbers] += frames
        self._bytes[numbers] += sizes
        self._counters.count_classes(self._tenant[numbers], self._service[numbers], frames, sizes)

    def _decide(self, numbers: Ints, decisions: Decisions) -> None:
        self.reason[numbers] = decisions.reason
        self.edits.put(numbers, decisions.edits)
        self.deltas.put(numbers, decisions.deltas)
        self.target_ports[numbers] = decisions.edits.target_ports
        self._rule[numbers], self._service[numbers] = decisions.rule, decisions.service

    def key(self, number: int) -> FlowKey:
        """The name of a flow."""
        return FlowKey.of([int(part) for part in self._keys[: self._width[number], number]])

    def number_of(self, key: FlowKey) -> int:
        """The number of a flow, or `MISSING`."""
        words = key.words()
        return self._tables[len(words)].get(words)

    def put(self, key: FlowKey, decisions: Decisions, now_ns: int) -> None:
        """Enter a flow, or decide anew about one that is there.

        Args:
            key: Its name.
            decisions: One entry.
            now_ns: The time.
        """
        number = self.number_of(key)
        if number != MISSING:
            self.settle()
            self._decide(np.array([number]), decisions)
            return
        self.make_room(1, np.zeros(0, np.int64))
        words = tuple(np.array([part], np.uint64) for part in key.words())
        self._enter(words, np.array([key.tenant]), decisions, now_ns)

    def remove(self, key: FlowKey) -> bool:
        """Forget a flow; False: it was not there."""
        number = self.number_of(key)
        if number == MISSING:
            return False
        self._remove(np.array([number]))
        return True

    def _remove(self, numbers: Ints) -> None:
        self.settle()
        for width, table in self._tables.items():
            some = numbers[self._width[numbers] == width]
            table.remove_all([column[some] for column in self._keys[:width]])
        self._width[numbers] = 0
        self._free = np.concatenate((self._free, numbers))

    def clear(self) -> None:
        """Forget all flows."""
        self.settle()
        for table in self._tables.values():
            table.clear()
        self._width.fill(0)
        self._free = np.arange(self.capacity, dtype=np.int64)

    def record(self, numbers: Ints, lengths: Ints, now_ns: int) -> None:
        """Note that frames of these flows came; they are added up later, many batches at a time."""
        self._last_ns[numbers] = now_ns
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
        # Sums of less than 2^53 bytes are exact in floating point.
        frames = np.bincount(numbers, minlength=self.capacity)
        sizes = np.bincount(numbers, lengths, self.capacity).astype(np.int64)
        self._frames += frames
        self._bytes += sizes
        seen = np.flatnonzero(frames)
        self._counters.count_classes(self._tenant[seen], self._service[seen], frames[seen], sizes[seen])

    def expire(self, before_ns: int) -> int:
        """Forget the flows that had no frame since *before_ns*; how many these were.

        What was decided from outside stays: whoever denied a flow did not do so until it is quiet for a while.
        """
        idle = np.flatnonzero((self._width != 0) & (self._last_ns < before_ns) & (self._rule != OUTSIDE))
        if idle.size:
            self._remove(idle)
            self.expired += int(idle.size)
        return int(idle.size)

    def make_room(self, flows: int, keep: Ints) -> None:
        """Forget those that were idle longest, until there is room for so many more.

        Args:
            flows: How many are to come; they and those to keep must fit into the table.
            keep: Numbers of flows that are needed.
        """
        lacking = flows - self._free.size
        if lacking <= 0:
            return
        used = self._width != 0
        used[keep] = False
        candidates = np.flatnonzero(used)
        oldest = candidates[np.argsort(self._last_ns[candidates], kind="stable")[:lacking]]
        self._remove(oldest)
        self.evicted += int(oldest.size)

    def numbers(self, after: int = MISSING, tenant: int | None = None) -> list[int]:
        """Numbers of the flows (of a tenant) that are above *after*, in order."""
        used = self._width != 0
        used[: after + 1] = False
        if tenant is not None:
            used &= self._tenant == tenant
        return [int(number) for number in np.flatnonzero(used)]

    def is_outside(self, number: int) -> bool:
        """Whether a flow was decided from outside."""
        return int(self._rule[number]) == OUTSIDE

    def after(self, number: int) -> FlowKey:
        """The name under which a flow's frames leave."""
        key, edits = self.key(number), self.edits
        address = type(key.source)
        return FlowKey(
            key.tenant,
            key.protocol,
            address(int(edits.source_high[number]) << 64 | int(edits.source[number])),
            address(int(edits.target_high[number]) << 64 | int(edits.target[number])),
            int(edits.source_port[number]),
            int(edits.target_port[number]),
        )

    def __iter__(self) -> Iterator[FlowKey]:
        return iter([self.key(number) for number in self.numbers()])

    def describe(self, key: FlowKey) -> dict[str, Any] | None:
        """All that is known of a flow, as plain data; None: it is not there."""
        self.settle()
        number = self.number_of(key)
        if number == MISSING:
            return None
        return {
            "key": key.as_json(),
            "after": self.after(number).as_json(),
            "reason": Reason(int(self.reason[number])).label,
            "service": Service(int(self._service[number])).name.lower(),
            "rule": int(self._rule[number]),
            "next_hop": int(self.edits.next_hop[number]),
            "frames": int(self._frames[number]),
            "bytes": int(self._bytes[number]),
            "first_ns": int(self._first_ns[number]),
            "last_ns": int(self._last_ns[number]),
        }


def _first_of_each(keys: tuple[Words, ...]) -> Ints:
    """The row at which each key comes first."""
    rows: dict[tuple[int, ...], int] = {}
    for row, key in enumerate(zip(*(column.tolist() for column in keys), strict=True)):
        rows.setdefault(key, row)
    return np.array(list(rows.values()), np.int64)
