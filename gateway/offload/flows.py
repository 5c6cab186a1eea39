"""The table of offloaded flows: what the daemon wants the program to do, and what the program counted.

The kernel's maps are told what the table says, and never the other way round but once, when a daemon adopts what
another left running. A flow has a slot, which is its place in the counters' map. Whoever leaves makes room in this
order: out of the flows' map, wait until no processor uses it any more, read its last counts, clear them, free the slot;
so no packet is counted for a flow that came later.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gateway.offload.audit import compare
from gateway.offload.figures import Audit, TableCounters
from gateway.offload.records import (
    COUNT,
    FLOW,
    KEY,
    Conversation,
    Forwarding,
    Records,
    conversation,
    flow_record,
    key_record,
)

Numbers = npt.NDArray[np.int64]
_EVICTED_SHARE = 16
"""One part in so many is evicted at a time: reading all counters for each newcomer would cost more than the flow."""
_SYS_MEMBARRIER, _MEMBARRIER_GLOBAL = 324, 1


class KernelMap(Protocol):
    """What the table needs of a map; `gateway.offload.maps.BpfMap` is one."""

    def put_all(self, keys: Records, values: Records) -> int:
        """Write many; how many of them, from the first, before one was refused."""
        ...

    def delete_all(self, keys: Records) -> None:
        """Remove many; those that are not there are passed over."""
        ...

    def all(self) -> tuple[Records, Records]:
        """All keys and values."""
        ...


def wait_for_processors() -> None:
    """Wait until every processor has left the program's run that it was in: the kernel's RCU grace period."""
    ctypes.CDLL(None).syscall(_SYS_MEMBARRIER, _MEMBARRIER_GLOBAL, 0, 0)


class FlowTable:
    """See the module.

    Args:
        flows: The flows' map.
        counts: The counters' map: slot to one `COUNT` for each processor.
        capacity: Flows at most.
        processors: How many processors count.
    """

    def __init__(self, flows: KernelMap, counts: KernelMap, capacity: int, processors: int) -> None:
        self._map = flows
        self._counts = counts
        self._processors = processors
        self.capacity = capacity
        self.counters = TableCounters()
        self._slots: dict[bytes, int] = {}
        # Slots are used again as late as possible.
        self._free: deque[int] = deque(range(capacity))
        self._keys: Records = np.zeros(capacity, dtype=KEY)
        self._flows: Records = np.zeros(capacity, dtype=FLOW)
        self._installed_ns: Numbers = np.zeros(capacity, dtype=np.int64)
        self._used: npt.NDArray[np.bool_] = np.zeros(capacity, dtype=bool)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, flow: Conversation) -> bool:
        return key_record(flow).tobytes() in self._slots

    def install(self, flows: Iterable[tuple[Conversation, Forwarding]], now_ns: int) -> int:
        """Let the program forward flows, or forward them otherwise than before.

        Args:
            flows: The flows.
            now_ns: The time, CLOCK_MONOTONIC.

        Returns:
            How many of them are in the map now.
        """
        pairs = list(flows)
        keys = np.array([key_record(flow) for flow, _ in pairs], dtype=KEY)
        records = np.array([flow_record(flow, forwarding) for flow, forwarding in pairs], dtype=FLOW)
        return int(np.count_nonzero(self.install_records(keys, records, now_ns) >= 0))

    def install_records(self, keys: Records, records: Records, now_ns: int) -> Numbers:
        """The same for many flows that are records already.

        Args:
            keys: The flows, each once.
            records: What is to be done with each; the slots are filled in.
            now_ns: The time, CLOCK_MONOTONIC.

        Returns:
            The slot of each flow, or -1 if it could not be installed.
        """
        names = [key.tobytes() for key in keys]
        known = np.array([self._slots.get(name, -1) for name in names], dtype=np.int64)
        lacking = int(np.count_nonzero(known < 0)) - len(self._free)
        if lacking > 0:
            self._evict(max(lacking, self.capacity // _EVICTED_SHARE), known[known >= 0])
        for row in np.flatnonzero(known < 0).tolist():
            if not self._free:
                self.counters.refused += 1
                continue
            slot = self._free.popleft()
            self._slots[names[row]] = known[row] = slot
            self._keys[slot] = keys[row]
            self._installed_ns[slot] = now_ns
            self._used[slot] = True
            self.counters.installed += 1
        slots = known[known >= 0]
        self._flows[slots] = records[known >= 0]
        self._flows["slot"][slots] = slots
        done = self._write(slots)
        known[np.isin(known, slots[done:])] = -1
        return known

    def _write(self, slots: Numbers) -> int:
        """Tell the map; what it does not take, even after room was made, is not in the table either."""
        done = self._map.put_all(self._keys[slots], self._flows[slots])
        if done < len(slots):
            # Somebody else's entries take up room in the map, or the kernel is short of memory.
            self.audit(repair=True)
            done += self._map.put_all(self._keys[slots[done:]], self._flows[slots[done:]])
        if done < len(slots):
            self._evict(max(len(slots) - done, self.capacity // _EVICTED_SHARE), slots)
            done += self._map.put_all(self._keys[slots[done:]], self._flows[slots[done:]])
        if done < len(slots):
            self.counters.refused += len(slots) - done
            self._drop(slots[done:])
        return done

    def _evict(self, count: int, keep: Numbers) -> None:
        """Remove the flows that were idle longest."""
        evictable = self._used.copy()
        evictable[keep] = False
        candidates = np.flatnonzero(evictable)
        if not len(candidates):
            return
        seen = self._last_ns(self.counts())[candidates]
        count = min(count, len(candidates))
        oldest = candidates[np.argpartition(seen, count - 1)[:count]]
        self.counters.evicted += len(oldest)
        self._drop(oldest)

    def _drop(self, slots: Numbers) -> None:
        """Take flows out of map and table."""
        if not len(slots):
            return
        self._map.delete_all(self._keys[slots])
        wait_for_processors()
        last = self.counts()
        self.counters.ended_packets += int(last["packets"][slots].sum())
        self.counters.ended_bytes += int(last["bytes"][slots].sum())
        self._clear_counts(slots)
        self._used[slots] = False
        for slot in slots.tolist():
            del self._slots[self._keys[slot].tobytes()]
            self._free.append(slot)

    def _clear_counts(self, slots: Numbers) -> None:
        zeros = np.zeros((len(slots), self._processors), dtype=COUNT)
        self._counts.put_all(slots.astype(np.uint32), zeros)

    def slots(self) -> Numbers:
        """Slots that have a flow."""
        return np.flatnonzero(self._used)

    def installed_ns(self) -> Numbers:
        """When each slot's flow was installed."""
        return self._installed_ns

    def counts(self) -> Records:
        """The counters of all slots, of all processors together."""
        keys, values = self._counts.all()
        merged = np.zeros(self.capacity, dtype=COUNT)
        merged["packets"][keys] = values["packets"].sum(axis=1)
        merged["bytes"][keys] = values["bytes"].sum(axis=1)
        merged["last_seen_ns"][keys] = values["last_seen_ns"].max(axis=1, initial=0)
        return merged

    def _last_ns(self, counts: Records) -> Numbers:
        """When each slot's flow had its last packet, or was installed."""
        return np.maximum(counts["last_seen_ns"].astype(np.int64), self._installed_ns)

    def remove(self, flows: Iterable[Conversation]) -> int:
        """Let the daemon have flows' packets again; how many of them were there."""
        slots = [self._slots.get(key_record(flow).tobytes()) for flow in flows]
        found = np.array(sorted({slot for slot in slots if slot is not None}), dtype=np.int64)
        self.counters.removed += len(found)
        self._drop(found)
        return len(found)

    def clear(self) -> None:
        """Remove all flows."""
        slots = self.slots()
        self.counters.removed += len(slots)
        self._drop(slots)

    def expire(self, before_ns: int, counts: Records | None = None) -> int:
        """Remove flows that had no packet for long; how many these were.

        Args:
            before_ns: The last one came before this time on CLOCK_MONOTONIC.
            counts: What `counts` returned just now; None: they are read.
        """
        slots = self.slots()
        if not len(slots):
            return 0
        idle = slots[self._last_ns(self.counts() if counts is None else counts)[slots] < before_ns]
        self.counters.expired += len(idle)
        self._drop(idle)
        return len(idle)

    def read(self) -> list[tuple[Conversation, int, int, int]]:
        """Each flow with its packets, bytes and the time of its last packet (0: none yet)."""
        counted = self.counts()
        return [
            (
                conversation(self._keys[slot]),
                int(counted["packets"][slot]),
                int(counted["bytes"][slot]),
                int(counted["last_seen_ns"][slot]),
            )
            for slot in self.slots().tolist()
        ]

    def adopt(self, now_ns: int) -> int:
        """Let an empty table take over what is in the map; how many flows. Entries that share a slot are removed."""
        keys, values = self._map.all()
        wrong: list[bytes] = []
        taken: set[int] = set()
        for key, value in zip(keys, values, strict=True):
            slot = int(value["slot"])
            raw = key.tobytes()
            if slot >= self.capacity or slot in taken or raw in self._slots:
                wrong.append(raw)
                continue
            taken.add(slot)
            self._slots[raw] = slot
            self._keys[slot], self._flows[slot] = key, value
            self._installed_ns[slot] = now_ns
            self._used[slot] = True
        if wrong:
            self._map.delete_all(np.frombuffer(b"".join(wrong), dtype=KEY))
        self._free = deque(slot for slot in self._free if slot not in taken)
        self.counters.adopted += len(self._slots)
        return len(self._slots)

    def flow(self, flow: Conversation) -> Any | None:
        """The record that the map should have of a flow; None: it is not offloaded."""
        slot = self._slots.get(key_record(flow).tobytes())
        return None if slot is None else self._flows[slot].copy()

    def conversations(self) -> list[Conversation]:
        """All flows."""
        return [conversation(self._keys[slot]) for slot in self._slots.values()]

    def audit(self, *, repair: bool) -> Audit:
        """Compare the table with the map, and put the map right if asked to."""
        found = compare(*self._map.all(), self._slots, self._keys, self._flows, self._used)
        if repair:
            if found.foreign:
                self._map.delete_all(np.frombuffer(b"".join(found.foreign), dtype=KEY))
            wrong = np.array([self._slots[name] for name in (*found.missing, *found.different)], dtype=np.int64)
            self._map.put_all(self._keys[wrong], self._flows[wrong])
        return found.audit(len(self._slots), repaired=repair)

    def as_json(self) -> dict[str, Any]:
        """Sizes and counters as plain data."""
        return {"flows": len(self), "capacity": self.capacity, **asdict(self.counters)}
