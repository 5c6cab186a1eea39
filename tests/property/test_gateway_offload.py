"""The table of offloaded flows against a kernel's maps that are played, and that others meddle with."""

from __future__ import annotations

from ipaddress import IPv4Address

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.offload.flows import FlowTable
from gateway.offload.records import COUNT, FLOW, KEY, Conversation, Forwarding, delta, flow_record, key_record

CAPACITY, PROCESSORS = 6, 2
PORTS = st.integers(1, 12)


class PlayedMap:
    """A hash map of limited size."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.entries: dict[bytes, bytes] = {}

    def put_all(self, keys: np.ndarray, values: np.ndarray) -> int:
        for done, (key, value) in enumerate(zip(keys, values, strict=True)):
            if key.tobytes() not in self.entries and len(self.entries) >= self.room:
                return done
            self.entries[key.tobytes()] = value.tobytes()
        return len(keys)

    def delete_all(self, keys: np.ndarray) -> None:
        for key in keys:
            self.entries.pop(key.tobytes(), None)

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.frombuffer(b"".join(self.entries), dtype=KEY),
            np.frombuffer(b"".join(self.entries.values()), dtype=FLOW),
        )


class PlayedCounters:
    """An array with a value for each processor."""

    def __init__(self) -> None:
        self.values = np.zeros((CAPACITY, PROCESSORS), dtype=COUNT)

    def put_all(self, keys: np.ndarray, values: np.ndarray) -> int:
        self.values[keys] = values
        return len(keys)

    def delete_all(self, keys: np.ndarray) -> None:
        raise AssertionError("an array has no room to give back")

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(CAPACITY, dtype=np.uint32), self.values.copy()


def conversation(port: int) -> Conversation:
    return Conversation(3, IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2"), port, 80, 6)


def forwarding(egress: int) -> Forwarding:
    return Forwarding(egress, bytes(6), bytes(6), bytes(6))


class TableMachine(RuleBasedStateMachine):
    """What the table says, what the map holds and what was counted, whatever comes in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.counts = PlayedMap(CAPACITY), PlayedCounters()
        self.table = FlowTable(self.map, self.counts, CAPACITY, PROCESSORS)
        self.now = 1
        self.model: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.packets: dict[int, int] = {}
        self.ended = 0
        self.meddled = False

    def _gone(self, port: int) -> None:
        del self.model[port], self.seen[port]
        self.ended += self.packets.pop(port)

    @rule(ports=st.lists(PORTS, min_size=1, max_size=4, unique=True), egress=st.integers(1, 3))
    def install(self, ports: list[int], egress: int) -> None:
        self.now += 1
        done = self.table.install([(conversation(port), forwarding(egress)) for port in ports], self.now)
        assert done == len(ports)
        left = {name.source_port for name in self.table.conversations()}
        # Whoever had to go was idle longer than everybody who stayed and was not asked for.
        gone = [port for port in self.model if port not in left]
        stayed = [port for port in self.model if port in left and port not in ports]
        assert all(self.seen[one] <= self.seen[other] for one in gone for other in stayed)
        for port in gone:
            self._gone(port)
        for port in ports:
            if port not in self.model:
                self.seen[port], self.packets[port] = self.now, 0
            self.model[port] = egress

    @rule(port=PORTS, processor=st.integers(0, PROCESSORS - 1), count=st.integers(1, 5))
    def packets_come(self, port: int, processor: int, count: int) -> None:
        raw = self.map.entries.get(key_record(conversation(port)).tobytes())
        if raw is None or port not in self.model:
            return
        self.now += 1
        value = self.counts.values[int(np.frombuffer(raw, dtype=FLOW)[0]["slot"]), processor : processor + 1]
        value["packets"] += count
        value["last_seen_ns"] = self.now
        self.packets[port] += count
        self.seen[port] = self.now

    @rule(ports=st.lists(PORTS, max_size=3))
    def remove(self, ports: list[int]) -> None:
        here = {port for port in ports if port in self.model}
        assert self.table.remove([conversation(port) for port in ports]) == len(here)
        for port in here:
            self._gone(port)

    @rule(age=st.integers(0, 6))
    def expire(self, age: int) -> None:
        before = set(self.table.conversations())
        count = self.table.expire(self.now - age)
        names = {name.source_port for name in before - set(self.table.conversations())}
        assert len(names) == count
        assert names == {port for port, seen in self.seen.items() if seen < self.now - age}
        for port in names:
            self._gone(port)

    @rule(port=PORTS, what=st.sampled_from(["remove", "change", "add"]), repaired=st.booleans())
    def meddle(self, port: int, what: str, repaired: bool) -> None:
        """Somebody else writes into the map; it may be a while until that is noticed."""
        key = key_record(conversation(port)).tobytes()
        if what == "remove":
            self.map.entries.pop(key, None)
        elif what == "change" and key in self.map.entries:
            self.map.entries[key] = bytes(len(self.map.entries[key]))
        elif what == "add" and len(self.map.entries) < self.map.room:
            stranger = key_record(conversation(port + 100)).tobytes()
            self.map.entries[stranger] = flow_record(conversation(port), forwarding(9)).tobytes()
        self.meddled = True
        if repaired:
            self.repair()

    @rule()
    def repair(self) -> None:
        self.table.audit(repair=True)
        self.meddled = False

    @rule()
    def restart(self) -> None:
        """Another daemon takes over: it knows what the maps say, and nothing else."""
        if self.meddled:
            return
        self.now += 1
        ended = self.table.counters.ended_packets
        self.table = FlowTable(self.map, self.counts, CAPACITY, PROCESSORS)
        assert self.table.adopt(self.now) == len(self.model)
        self.table.counters.ended_packets = ended
        self.seen = dict.fromkeys(self.seen, self.now)

    @invariant()
    def table_map_and_counts_agree(self) -> None:
        assert self.meddled or self.table.audit(repair=False).agrees
        assert {name.source_port for name in self.table.conversations()} == set(self.model)
        for port, egress in self.model.items():
            record = self.table.flow(conversation(port))
            assert record is not None
            assert record["egress"] == egress
        assert {name.source_port: packets for name, packets, _, _ in self.table.read()} == self.packets
        assert self.table.counters.ended_packets == self.ended
        assert self.table.counters.refused == 0


def test_a_slot_that_is_used_again_begins_at_nothing() -> None:
    """Counts of a flow that went are kept in the total, and the next flow in its slot has none of them."""
    kernel, counts = PlayedMap(CAPACITY), PlayedCounters()
    table = FlowTable(kernel, counts, CAPACITY, PROCESSORS)
    for turn in range(1, 4):
        ports = range(turn * 100, turn * 100 + CAPACITY)
        assert table.install([(conversation(port), forwarding(1)) for port in ports], turn) == CAPACITY
        assert [packets for _, packets, _, seen in table.read() if packets or seen] == []
        counts.values["packets"] += 5
        counts.values["bytes"] += 500
        counts.values["last_seen_ns"] = turn
        assert {packets for _, packets, _, _ in table.read()} == {5 * PROCESSORS}
        assert table.counters.ended_packets == (turn - 1) * CAPACITY * 5 * PROCESSORS
        assert table.counters.ended_bytes == 100 * table.counters.ended_packets
        table.clear() if turn == 1 else table.remove([conversation(port) for port in ports])
    assert not counts.values["packets"].any()


TableMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestTable = TableMachine.TestCase


@given(
    words=st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=20),
    changes=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 0xFFFF)), max_size=6),
)
def test_deltas_are_what_a_whole_sum_says(words: list[int], changes: list[tuple[int, int]]) -> None:
    """Updating a checksum by the difference gives what summing everything again gives (but for the sign of zero)."""
    new = list(words)
    for at, word in changes:
        new[at % len(new)] = word

    def full(some: list[int]) -> int:
        total = sum(some)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    total = (~full(words) & 0xFFFF) + delta(words, new)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert (~total & 0xFFFF) % 0xFFFF == full(new) % 0xFFFF
