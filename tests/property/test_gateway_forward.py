"""The forwarder on a port in memory: every frame is accounted for, in order, at its time, whatever the interleaving."""

from __future__ import annotations

from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from emulator.model.profile import StationModel
from gateway.counters import LEFT_TO_KERNEL, Reason
from gateway.forward import Forwarder, Line
from gateway.pipeline import ForwardingTable
from gateway.port import MemoryPort
from gateway.station import Station

MAC, PEER = bytes.fromhex("020000000001"), bytes.fromhex("0200000000aa")
TABLE = ForwardingTable.build(MAC, [IPv4Address("10.0.0.1")], {IPv4Address("10.0.0.2"): PEER})


def good(number: int, size: int = 64) -> bytes:
    ip = IP(src="10.0.0.3", dst="10.0.0.2", id=number & 0xFFFF)
    return bytes(Ether(src="02:00:00:00:00:03", dst=MAC.hex(":")) / ip / UDP() / bytes(size))


def number_of(data: bytes) -> int:
    return int.from_bytes(data[18:20], "big")


actions = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 3000)),
        st.tuples(st.just("garbage"), st.binary(max_size=60)),
        st.tuples(st.just("long"), st.integers(0, 100)),
        st.tuples(st.just("tagged"), st.integers(0, 100)),
        st.tuples(st.just("accept"), st.none()),
        st.tuples(st.just("depart"), st.integers(0, 4000)),
        st.tuples(st.just("clock"), st.none()),
    ),
    max_size=80,
)


@given(actions, st.integers(0, 5), st.integers(1, 20), st.one_of(st.none(), st.integers(0, 30)), st.booleans())
def test_every_frame_is_accounted_for(steps: list, queue: int, slots: int, room: int | None, with_line: bool) -> None:
    """received = sent + not forwarded (by reason) + held, arrived = received + lost; no slot leaks; order is kept."""
    port = MemoryPort(MAC, slots, slot_bytes=200, room=room)
    line = Line(10**9, 24) if with_line else None
    forwarder = Forwarder(port, TABLE, Station(StationModel(500, 10**6, None, queue, "test")), line)
    now = arrived = 0
    for number, (kind, value) in enumerate(steps):
        if kind == "accept":
            forwarder.accept()
        elif kind == "depart":
            now += value
            forwarder.depart(now)
        elif kind == "clock":
            forwarder.clock_was_set()
        else:
            data = {"arrive": good(number), "long": good(number, 300), "tagged": good(number)}.get(kind, value)
            now += value if kind == "arrive" else 0
            arrived += 1
            port.inject(data, now, tagged=kind == "tagged")
        counters = forwarder.counters
        refused = sum(counters.not_forwarded.values())
        assert counters.rx_frames == counters.tx_frames + refused + forwarder.held_frames
        assert counters.tx_frames == len(port.line)
        assert port.lent_frames == forwarder.held_frames
        assert counters.lost_frames <= refused
    forwarder.accept()
    forwarder.drain()
    while (due := forwarder.next_due_ns) is not None:
        forwarder.depart(due)
    assert forwarder.drained
    assert port.lent_frames == 0
    assert forwarder.counters.rx_frames + port.lost_frames() == arrived
    numbers = [number_of(data) for data in port.line]
    assert numbers == sorted(numbers)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=60), st.integers(0, 20_000), st.integers(1, 64))
def test_handing_over_early_changes_no_time_on_the_line(gaps: list[int], latency_ns: int, ahead: int) -> None:
    """Frames reach the far end of the line at the same nanosecond with and without batches, for fewer wake-ups."""

    def run(line: Line | None) -> tuple[list[tuple[int, int]], int]:
        port = MemoryPort(MAC, 64, slot_bytes=1600)
        station = Station(StationModel(latency_ns, 2_000_000, None, 64, "test"))
        forwarder = Forwarder(port, TABLE, station, line)
        times, arrival = [], 0
        for gap in gaps:
            arrival += gap
            times.append(arrival)
        free = wakes = sent = 0
        out: list[tuple[int, int]] = []
        pending = list(enumerate(times))
        now = 0
        while pending or forwarder.next_due_ns is not None:
            due = forwarder.next_due_ns
            # Woken by the first frame while nothing is held, by the timer otherwise.
            now = pending[0][1] if due is None else due
            while pending and pending[0][1] <= now:
                number, time = pending.pop(0)
                assert port.inject(good(number, 500), time)
            if due is not None:
                wakes += 1
                forwarder.depart(due)
            for data in port.line[sent:]:
                free = max(free, now) + (len(data) + 24) * 8 * 10**9 // 10**10
                out.append((number_of(data), free))
            sent = len(port.line)
            forwarder.accept()
        return out, wakes

    plain, plain_wakes = run(None)
    early, early_wakes = run(Line(10**10, 24, ahead))
    assert early == plain
    assert len(plain) == len(gaps)
    assert early_wakes <= plain_wakes


def test_reasons_are_complete() -> None:
    """Each reason is either a loss or somebody else's frame, and is reported by name."""
    port = MemoryPort(MAC)
    forwarder = Forwarder(port, TABLE, Station(StationModel(0, None, None, 0, "test")))
    shown = forwarder.as_json()["counters"]["not_forwarded"]
    assert set(shown) == {reason.value for reason in Reason}
    assert set(Reason) > LEFT_TO_KERNEL
