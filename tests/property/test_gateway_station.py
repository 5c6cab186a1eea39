"""The service station against queueing theory: Lindley's recursion exactly, known loss formulas, conservation."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model.profile import StationModel
from emulator.model.theory import md1_mean_wait_ns
from emulator.rng import stream
from gateway.station import Station

INFINITE = 10**7

rates = st.one_of(st.none(), st.integers(1, 10**12))
arrivals = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 70_000), st.integers(1, 50)), min_size=1, max_size=60
)


def exact_service_ns(model: StationModel, size_bytes: int, packets: int) -> Fraction:
    by_packet = Fraction(packets * 10**9, model.packet_rate) if model.packet_rate else Fraction(0)
    by_bits = Fraction(size_bytes * 8 * 10**9, model.bit_rate_bps) if model.bit_rate_bps else Fraction(0)
    return max(by_packet, by_bits)


@given(st.integers(0, 10**6), rates, rates, arrivals)
def test_lindley(latency_ns: int, packet_rate: int | None, bit_rate: int | None, events: list) -> None:
    """With room for all, each wait is ``max(0, wait + service - gap)`` of the one before, exactly, without drift."""
    model = StationModel(latency_ns, packet_rate, bit_rate, INFINITE, "test")
    station = Station(model)
    now, wait, service = 1_800_000_000 * 10**9, Fraction(0), Fraction(0)
    total_wait, total_busy, last = Fraction(0), Fraction(0), 0
    for gap, size, packets in events:
        now += gap
        wait = max(Fraction(0), wait + service - gap)
        service = exact_service_ns(model, size, packets)
        due = station.arrive(now, size, packets)
        assert due == math.ceil(now + wait + max(latency_ns, service))
        assert due >= max(last, now + latency_ns)
        last = due
        total_wait += wait
        total_busy += service
    assert station.wait_ns == math.floor(total_wait)
    assert station.busy_ns == math.floor(total_busy)
    assert station.free_at_ns == math.ceil(now + wait + service)
    assert station.served_packets == sum(packets for _, _, packets in events)
    assert station.dropped_packets == 0


@given(st.integers(0, 10**6), rates, rates, st.integers(0, 60), arrivals)
def test_finite_queue(latency_ns: int, packet_rate: int | None, bit_rate: int | None, queue: int, events: list) -> None:
    """Against a station that remembers everything: who waits, who is refused, and no packet unaccounted for."""
    model = StationModel(latency_ns, packet_rate, bit_rate, queue, "test")
    station = Station(model)
    now, free = 10**9, Fraction(0)
    begun: list[tuple[Fraction, int]] = []
    offered = refused = peak = 0
    for gap, size, packets in events:
        now += gap
        offered += packets
        start = max(Fraction(now), free)
        waiting = sum(count for began, count in begun if began > now)
        due = station.arrive(now, size, packets)
        if start > now and waiting + packets > queue:
            assert due is None
            refused += packets
            continue
        if start > now:
            peak = max(peak, waiting + packets)
        service = exact_service_ns(model, size, packets)
        assert due == math.ceil(start + max(latency_ns, service))
        begun.append((start, packets))
        free = start + service
    assert station.dropped_packets == refused
    assert station.served_packets + station.dropped_packets == offered
    assert station.peak_waiting_packets == peak <= max(queue, 0)


@given(st.integers(1, 10**9), st.integers(1, 2000))
def test_long_run_rate_is_exact(packet_rate: int, packets: int) -> None:
    """Back-to-back packets leave at the stated rate with an error below 1 ns in all, not below 1 ns each."""
    station = Station(StationModel(0, packet_rate, None, INFINITE, "test"))
    due = [station.arrive(0, 64) for _ in range(packets)]
    assert due[-1] == -(-packets * 10**9 // packet_rate)


@given(arrivals)
def test_an_unlimited_station_only_delays(events: list) -> None:
    """Without rates nothing waits and nothing is refused, even with a queue of zero."""
    station = Station(StationModel(5_000, None, None, 0, "test"))
    now = 0
    for gap, size, packets in events:
        now += gap
        assert station.arrive(now, size, packets) == now + 5_000
    assert station.busy_ns == station.wait_ns == 0


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40))
def test_time_never_runs_backwards(times: list[int]) -> None:
    """An arrival with an earlier stamp than the one before counts as simultaneous with it; order is kept."""
    station = Station(StationModel(100, 10**8, None, INFINITE, "test"))
    due = [station.arrive(now, 64) for now in times]
    assert due == sorted(due)
    assert due == _monotone_reference(times)


def _monotone_reference(times: list[int]) -> list[int]:
    station, latest, due = Station(StationModel(100, 10**8, None, INFINITE, "test")), 0, []
    for now in times:
        latest = max(latest, now)
        due.append(station.arrive(latest, 64))
    return due


def poisson(load: float, service_ns: int, count: int) -> list[int]:
    """Arrival times of a Poisson stream."""
    random = stream(7, "gateway-station", round(load * 1000))
    now, times = 0.0, []
    for _ in range(count):
        now += random.expovariate(load / service_ns)
        times.append(round(now))
    return times


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_mean_wait_is_that_of_md1(load: float) -> None:
    """Poisson arrivals at a server with fixed service: the Pollaczek-Khinchine mean, within the sample's own error.

    Waits of neighbours depend on each other, so the error is that of the means of long batches; it must be small enough
    for the comparison to say something.
    """
    station = Station(StationModel(0, 1_000_000, None, INFINITE, "test"))
    batches, size = 40, 10_000
    means, before = [], 0
    for number, now in enumerate(poisson(load, 1000, batches * size), start=1):
        station.arrive(now, 64)
        if number % size == 0:
            means.append((station.wait_ns - before) / size)
            before = station.wait_ns
    theory = md1_mean_wait_ns(load, 1000)
    error = stdev(means) / math.sqrt(batches)
    assert error < 0.03 * theory
    assert abs(fmean(means) - theory) < 3 * error


@pytest.mark.parametrize("load", [0.3, 0.8, 1.0, 2.0])
@pytest.mark.parametrize("queue", [0, 1])
def test_loss_is_that_of_md1k(load: float, queue: int) -> None:
    """Loss with room for none or one to wait: ``1 - 1/(p + load)`` with p = 1 or exp(-load), within 0.01.

    p is the probability that a departure leaves the system empty (embedded chain of M/D/1/K); K = 1 is Erlang's
    loss formula.
    """
    station = Station(StationModel(0, 1_000_000, None, queue, "test"))
    count = 60_000
    for now in poisson(load, 1000, count):
        station.arrive(now, 64)
    empty = 1.0 if queue == 0 else math.exp(-load)
    assert station.dropped_packets / count == pytest.approx(1 - 1 / (empty + load), abs=0.01)


@given(st.integers(0, 10**6), rates, rates, st.integers(0, 60), arrivals)
def test_a_station_goes_on_in_another_process(
    latency_ns: int, packet_rate: int | None, bit_rate: int | None, queue: int, events: list
) -> None:
    """Exported as JSON and restored in the middle, it decides every later arrival as the original does."""
    station = Station(StationModel(latency_ns, packet_rate, bit_rate, queue, "test"))
    now, half = 10**15, len(events) // 2
    for gap, size, packets in events[:half]:
        now += gap
        station.arrive(now, size, packets)
    other = Station.restore(json.loads(json.dumps(station.export())))
    for gap, size, packets in events[half:]:
        now += gap
        assert other.arrive(now, size, packets) == station.arrive(now, size, packets)
    assert other.as_json() == station.as_json()
    assert other.export() == station.export()


models = st.builds(
    StationModel, st.integers(0, 10**6), rates, rates, st.sampled_from([0, 5, INFINITE]), st.just("test")
)


@given(models, models, arrivals)
def test_a_changed_station_overtakes_nothing(before: StationModel, after: StationModel, events: list) -> None:
    """Departures never go back when parameters change; once all of before is gone, it is like a new station."""
    station = Station(before)
    now, half, last = 10**15, len(events) // 2, 0
    for position, (gap, size, packets) in enumerate(events):
        if position == half:
            station.change(after)
            assert station.model == after
        now += gap
        due = station.arrive(now, size, packets)
        if due is not None:
            assert due >= max(last, now)
            last = due
    counted = station.served_packets + station.dropped_packets
    assert counted == sum(packets for _, _, packets in events)
    now += 10**15
    for gap, size, packets in events:
        now += gap
        if packets > after.queue_packets:
            continue
        fresh = Station(after)
        assert station.arrive(now, size, packets) == fresh.arrive(now, size, packets)
        now = max(now, station.free_at_ns)
