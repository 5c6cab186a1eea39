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
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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

_EVICTED_SHARE = 16
"""One part in so many is evicted at a time: reading all counters for each newcomer would cost more than the flow."""
_SYS_MEMBARRIER, _MEMBARRIER_GLOBAL = 324, 1
_SHOWN = 8


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


@dataclass(frozen=True)
class Audit:
    """How table and maps agree.

    Attributes:
        flows: Flows in the table.
        missing: In the table, not in the map.
        foreign: In the map, not in the table.
        different: In both, with different content.
        repaired: Whether the map was put right.
        examples: Some of those, as text.
    """

    flows: int
    missing: int
    foreign: int
    different: int
    repaired: bool
    examples: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether nothing was found."""
        return not (self.missing or self.foreign or self.different)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**asdict(self), "agrees": self.agrees}


@dataclass
class TableCounters:
    """What happened to the table.

    Attributes:
        installed, expired, evicted, removed: Flows that came, and that went for each reason.
        refused: Flows that could not be installed.
        adopted: Flows that another daemon had installed.
        ended_packets, ended_bytes: What flows that went had counted.
    """

    installed: int = 0
    expired: int = 0
    evicted: int = 0
    removed: int = 0
    refused: int = 0
    adopted: int = 0
    ended_packets: int = 0
    ended_bytes: int = 0


class FlowTable:
    """See the module.

    Args:
        flows: The flows' map.
        counts: The counters' map: slot to one `COUNT` for each processor.
        capacity: Flows at most.
    """

    def __init__(self, flows: KernelMap, counts: KernelMap, capacity: int) -> None:
        self._map = flows
        self._counts = counts
        self.capacity = capacity
        self.counters = TableCounters()
        self._slots: dict[bytes, int] = {}
        # Slots are used again as late as possible.
        self._free: deque[int] = deque(range(capacity))
        self._keys: Records = np.zeros(capacity, dtype=KEY)
        self._flows: Records = np.zeros(capacity, dtype=FLOW)
        self._installed_ns: npt.NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)

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
        wanted = {key_record(flow).tobytes(): flow_record(flow, forwarding) for flow, forwarding in flows}
        new = [key for key in wanted if key not in self._slots]
        lacking = len(new) - len(self._free)
        if lacking > 0:
            self._evict(max(lacking, self.capacity // _EVICTED_SHARE), set(wanted))
        keys: list[bytes] = []
        for key, record in wanted.items():
            slot = self._slots.get(key)
            if slot is None:
                if not self._free:
                    self.counters.refused += 1
                    continue
                slot = self._free.popleft()
                self._slots[key] = slot
                self._keys[slot] = np.frombuffer(key, dtype=KEY)[0]
                self._installed_ns[slot] = now_ns
                self.counters.installed += 1
            record["slot"] = slot
            self._flows[slot] = record
            keys.append(key)
        return self._write(keys)

    def _write(self, keys: list[bytes]) -> int:
        """Tell the map; what it does not take, even after room was made, is not in the table either."""
        slots = np.array([self._slots[key] for key in keys], dtype=np.int64)
        done = self._map.put_all(self._keys[slots], self._flows[slots])
        if done < len(keys):
            # Somebody else's entries take up room in the map, or the kernel is short of memory.
            self.audit(repair=True)
            done += self._map.put_all(self._keys[slots[done:]], self._flows[slots[done:]])
        if done < len(keys):
            self._evict(max(len(keys) - done, self.capacity // _EVICTED_SHARE), set(keys))
            done += self._map.put_all(self._keys[slots[done:]], self._flows[slots[done:]])
        if done < len(keys):
            self.counters.refused += len(keys) - done
            self._drop(slots[done:])
        return done

    def _evict(self, count: int, keep: set[bytes]) -> None:
        """Remove the flows that were idle longest."""
        candidates = np.array([slot for key, slot in self._slots.items() if key not in keep], dtype=np.int64)
        if not len(candidates):
            return
        seen = self.last_seen_ns()[candidates]
        count = min(count, len(candidates))
        oldest = candidates[np.argpartition(seen, count - 1)[:count]]
        self.counters.evicted += len(oldest)
        self._drop(oldest)

    def _drop(self, slots: npt.NDArray[np.int64]) -> None:
        """Take flows out of map and table."""
        if not len(slots):
            return
        self._map.delete_all(self._keys[slots])
        wait_for_processors()
        last = self._read()
        self.counters.ended_packets += int(last["packets"][slots].sum())
        self.counters.ended_bytes += int(last["bytes"][slots].sum())
        self._clear_counts(slots)
        for slot in slots.tolist():
            del self._slots[self._keys[slot].tobytes()]
            self._free.append(slot)

    def _clear_counts(self, slots: npt.NDArray[np.int64]) -> None:
        _, values = self._counts.all()
        zeros = np.zeros((len(slots), *values.shape[1:]), dtype=values.dtype)
        self._counts.put_all(slots.astype(np.uint32), zeros)

    def _read(self) -> Records:
        """The counters of all slots, of all processors together."""
        keys, values = self._counts.all()
        merged = np.zeros(self.capacity, dtype=COUNT)
        values = values.reshape(len(keys), -1)
        merged["packets"][keys] = values["packets"].sum(axis=1)
        merged["bytes"][keys] = values["bytes"].sum(axis=1)
        merged["last_seen_ns"][keys] = values["last_seen_ns"].max(axis=1, initial=0)
        return merged

    def last_seen_ns(self) -> npt.NDArray[np.int64]:
        """When each slot's flow had its last packet, or was installed."""
        return np.maximum(self._read()["last_seen_ns"].astype(np.int64), self._installed_ns)

    def remove(self, flows: Iterable[Conversation]) -> int:
        """Let the daemon have flows' packets again; how many of them were there."""
        slots = [self._slots.get(key_record(flow).tobytes()) for flow in flows]
        found = np.array(sorted({slot for slot in slots if slot is not None}), dtype=np.int64)
        self.counters.removed += len(found)
        self._drop(found)
        return len(found)

    def clear(self) -> None:
        """Remove all flows."""
        slots = np.array(list(self._slots.values()), dtype=np.int64)
        self.counters.removed += len(slots)
        self._drop(slots)

    def expire(self, before_ns: int) -> list[Conversation]:
        """Remove flows that had no packet since a time on CLOCK_MONOTONIC, and name them."""
        slots = np.array(list(self._slots.values()), dtype=np.int64)
        if not len(slots):
            return []
        idle = slots[self.last_seen_ns()[slots] < before_ns]
        names = [conversation(self._keys[slot]) for slot in idle.tolist()]
        self.counters.expired += len(idle)
        self._drop(idle)
        return names

    def read(self) -> list[tuple[Conversation, int, int, int]]:
        """Each flow with its packets, bytes and the time of its last packet (0: none yet)."""
        counted = self._read()
        return [
            (
                conversation(self._keys[slot]),
                int(counted["packets"][slot]),
                int(counted["bytes"][slot]),
                int(counted["last_seen_ns"][slot]),
            )
            for slot in self._slots.values()
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
        keys, values = self._map.all()
        found = {key.tobytes(): value.tobytes() for key, value in zip(keys, values, strict=True)}
        missing = [key for key in self._slots if key not in found]
        foreign = [key for key in found if key not in self._slots]
        different = [
            key for key, slot in self._slots.items() if key in found and found[key] != self._flows[slot].tobytes()
        ]
        if repair:
            if foreign:
                self._map.delete_all(np.frombuffer(b"".join(foreign), dtype=KEY))
            slots = np.array([self._slots[key] for key in missing + different], dtype=np.int64)
            self._map.put_all(self._keys[slots], self._flows[slots])
        examples = [
            f"{what}: {conversation(np.frombuffer(key, dtype=KEY)[0])}"
            for what, some in (("missing", missing), ("foreign", foreign), ("different", different))
            for key in some[:_SHOWN]
        ]
        return Audit(len(self._slots), len(missing), len(foreign), len(different), repair, examples)

    def as_json(self) -> dict[str, Any]:
        """Sizes and counters as plain data."""
        return {"flows": len(self), "capacity": self.capacity, **asdict(self.counters)}
