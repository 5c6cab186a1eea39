"""Instruments without a kernel: thinning of series, utilization, pcap bytes, and a worker that ends."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapReader

from emulator.errors import EngineError
from emulator.linux.port_counters import PortCounters
from emulator.linux.ring import PacketBatch
from emulator.measure import Sampler, Vantage
from emulator.measure.capture import PacketCapture, pcap_header, pcap_packets
from emulator.measure.sampler import utilization
from emulator.measure.worker import Worker
from emulator.results.side import Series, series_from_json


class Clock:
    """Stands in for the sampler's places: each reading counts one more byte."""

    names = ("p0", "p1")

    def __init__(self) -> None:
        self.count = 0

    def read(self) -> list[PortCounters]:
        self.count += 1
        return [PortCounters(0, 0, 0, self.count * (index + 1), 0, 7, 0) for index in range(2)]

    def close(self) -> None:
        pass


@given(st.integers(2, 20), st.integers(1, 400))
def test_a_full_series_is_thinned_out(most: int, ticks: int) -> None:
    """Never more readings than allowed, the first always kept, and the others whole intervals apart."""
    sampler = Sampler([], 10, most_readings=most)
    clock = Clock()
    sampler._places = [clock]  # type: ignore[list-item]
    now = 0
    while now < ticks * 10:
        interval = sampler._sample()
        # One reading each 10 ns would have counted this far.
        clock.count += interval // 10 - 1
        now += interval
    sampler._worker.stop()
    series = sampler.series()["p1"]
    assert len(series.tx_bytes) <= most + most % 2
    assert series.tx_bytes[0] == 2
    steps = {late - early for early, late in zip(series.tx_bytes, series.tx_bytes[1:], strict=False)}
    assert len(steps) <= 1
    assert set(series.backlog_packets) == {7}


def test_utilization_counts_line_overhead() -> None:
    """Bytes between readings over time and rate; equal times say nothing and are passed over."""
    series = Series((0, 1000, 1000, 3000), (0, 12_500, 12_500, 25_000), (0, 0, 0, 0))
    assert utilization(series, 100 * 10**9) == [(1000, 1.0), (3000, 0.5)]
    assert utilization(series, 100 * 10**9, frame_overhead_share=0.5)[0] == (1000, 1.5)


def test_series_on_this_machine(tmp_path: Path) -> None:
    """The loopback interface of this machine is read over netlink, saved, and read back by the results package."""
    with Sampler([Vantage(("lo",))], 1_000_000) as sampler:
        pass
    path = sampler.save(tmp_path)
    series = series_from_json(json.loads(path.read_text()), str(path))["lo"]
    assert series == sampler.series()["lo"]
    assert len(series.t_ns) >= 1
    assert list(series.t_ns) == sorted(series.t_ns)
    assert sampler.drops() == {"lo": 0}


@pytest.mark.parametrize("make", [lambda v, p: Sampler(v, 1000), lambda v, p: PacketCapture(v, p)])
def test_a_missing_interface_is_named(make: object, tmp_path: Path) -> None:
    """One line with the interface; nothing is left open."""
    with pytest.raises(EngineError, match="nosuch0"):
        make([Vantage(("nosuch0",))], tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize("snap", [0, 13, 262_145])
def test_an_impossible_snap_length(snap: int, tmp_path: Path) -> None:
    """Less than an Ethernet header, or more than tools read, is refused."""
    with pytest.raises(EngineError, match=f"{snap} bytes a packet is impossible"):
        PacketCapture([], tmp_path, snap_bytes=snap)


def test_pcap_keeps_every_nanosecond_and_tag(tmp_path: Path) -> None:
    """Another reader finds the times to the nanosecond, the kept bytes with VLAN tags where they were, and lengths."""
    times = [1_700_000_000_000_000_001, 1_700_000_000_999_999_999]
    data = np.frombuffer(b"0123456789abcdefghijklmnop", dtype=np.uint8)
    lengths, tags = np.array([9014, 60]), np.array([0x8100_6FFE, 0], dtype=np.uint32)
    batch = PacketBatch(np.array(times), lengths, np.array([14, 12]), tags, np.array([0, 14]), data)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_header(64) + b"".join(pcap_packets(batch)))
    with RawPcapReader(str(path)) as reader:
        assert reader.nano
        packets = [(meta.sec * 10**9 + meta.usec, meta.wirelen, bytes(kept)) for kept, meta in reader]
    assert packets == [(times[0], 9018, b"0123456789ab\x81\x00\x6f\xfecd"), (times[1], 60, b"efghijklmnop")]


def test_a_worker_hands_over_what_went_wrong() -> None:
    """An error ends the thread and comes back from stop; one that never started stops as well."""

    def fail() -> int:
        raise RuntimeError("broken")

    worker = Worker("failing", fail)
    worker.start()
    worker._thread.join()
    assert str(worker.stop()) == "broken"
    assert Worker("idle", fail).stop() is None


def test_a_worker_ends_at_once() -> None:
    """Being told to stop does not wait for the next interval, here an hour."""
    called = threading.Event()

    def work() -> int:
        called.set()
        return 3600 * 10**9

    worker = Worker("lazy", work)
    worker.start()
    assert called.wait(10)
    assert worker.stop() is None
    assert not worker._thread.is_alive()
