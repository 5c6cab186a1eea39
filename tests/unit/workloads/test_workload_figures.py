"""The arithmetic of workloads: waits, standard errors, goodput windows, messages on the wire, what programs print."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import WorkloadError
from emulator.model.fabric import LinkSpec
from emulator.model.profile import StationModel
from emulator.model.theory import md1_mean_wait_ns, one_way_ns
from emulator.workloads import nvme_path, tcp_settings
from emulator.workloads.ping import checksum, echo_request, parse_ping
from emulator.workloads.poisson import arrival_offsets_ns, batch_standard_error, lindley_waits_ns
from emulator.workloads.tcp_flow import iperf_error
from emulator.workloads.tcp_samples import CONTROL_BYTES, FlowSamples, goodputs_bps, window_ns

LINE = LinkSpec(100 * 10**9, 5_000)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=200), st.integers(1, 300))
def test_lindley_is_a_queue(gaps: list[int], service_ns: int) -> None:
    """The closed form equals serving one packet after the other by hand."""
    arrivals = np.cumsum(gaps)
    free, waits = 0, []
    for arrival in arrivals.tolist():
        waits.append(max(0, free - arrival))
        free = max(arrival, free) + service_ns
    assert lindley_waits_ns(arrivals, service_ns).tolist() == waits


def test_arrivals_are_poisson() -> None:
    """Gaps have the mean and the deviation of an exponential, and depend on the seed alone."""
    offsets = arrival_offsets_ns(200_000, 1000.0, 7)
    gaps = np.diff(offsets)
    assert (gaps >= 0).all()
    assert gaps.mean() == pytest.approx(1000, rel=0.02)
    assert gaps.std() == pytest.approx(1000, rel=0.02)
    assert (offsets == arrival_offsets_ns(200_000, 1000.0, 7)).all()
    assert (offsets != arrival_offsets_ns(200_000, 1000.0, 8)).any()


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_recursion_agrees_with_md1(load: float) -> None:
    """Arrivals and recursion together give M/D/1's mean, as near as the batch means' own error says."""
    waits = lindley_waits_ns(arrival_offsets_ns(1_000_000, 1000 / load, 3), 1000)
    assert abs(waits.mean() - md1_mean_wait_ns(load, 1000)) < 4 * batch_standard_error(waits)


def flow(*readings: tuple[int, int]) -> FlowSamples:
    samples = FlowSamples()
    for reading in readings:
        samples.add(*reading)
    return samples


def test_only_the_time_in_which_all_send_counts() -> None:
    """From the last start and the warm-up to the first end; rates are interpolated between readings."""
    early = flow((0, 0), (100, 50_000), (200, 100_000), (300, 150_000), (400, 150_000))
    late = flow((100, 0), (200, 20_000), (300, 60_000), (400, 100_000))
    window = window_ns([early, late], 50)
    assert window == (250, 300)
    assert goodputs_bps([early, late], window) == [500 * 8e9, 400 * 8e9]


def test_a_reading_that_goes_back_is_ignored() -> None:
    """A control connection that is seen for a moment does not reset the count."""
    assert flow((0, 50_000), (10, 300), (20, 60_000)).received_bytes == [50_000, 60_000]


@pytest.mark.parametrize(
    ("flows", "warm_up", "said"),
    [
        ([flow()], 0, "flow 0 delivered nothing"),
        ([flow((0, 0), (10, CONTROL_BYTES))], 0, "flow 0 delivered nothing"),
        ([flow((0, 50_000), (10, 90_000)), flow((20, 50_000), (30, 90_000))], 0, "ended 10 ns before all had started"),
        ([flow((0, 50_000), (10, 90_000))], 10, "send for longer"),
    ],
)
def test_flows_that_never_meet(flows: list[FlowSamples], warm_up: int, said: str) -> None:
    """Silence, staggering past the end and a warm-up as long as the run are errors, not zero goodput."""
    with pytest.raises(WorkloadError, match=said):
        window_ns(flows, warm_up)


@given(st.integers(1, 5), st.integers(1, 8900))
def test_a_short_message_is_one_frame(hops: int, payload: int) -> None:
    """One segment takes the unloaded one-way time of its frame."""
    path = [LINE] * hops
    assert nvme_path.message_ns(path, (), payload) == one_way_ns(path, 14 + 52 + payload)


def test_segments_follow_each_other() -> None:
    """Two segments over two hops: the second is one serialization behind the first, not a whole path."""
    path = [LINE, LINE]
    full = 9000 - 52
    one, two = (nvme_path.message_ns(path, (), size) for size in (full, 2 * full))
    assert two - one == LINE.serialization_ns(9014)
    assert nvme_path.segments(path, 2 * full + 1) == [full, full, 1]


def test_the_slowest_link_sets_the_pace() -> None:
    """Behind a slow link segments arrive at its pace, wherever it is."""
    slow = LinkSpec(10 * 10**9, 0)
    for path in ([LINE, slow], [slow, LINE]):
        times = [nvme_path.message_ns(path, (), count * 8948) for count in (1, 5)]
        assert times[1] - times[0] == 4 * slow.serialization_ns(9014)


def test_commands_in_messages() -> None:
    """A read and an inline write cross twice, a solicited write four times; stations add their latency each time."""
    station = StationModel(1_000, None, None, 10, "test")
    way = ([LINE], (station,))

    def took(block: int, write: bool) -> int:
        found = nvme_path.command_ns(way, way, block, 20_000, write=write)
        assert found is not None
        return found

    assert 2 * 6_000 + 20_000 < took(4096, False) < 2 * 6_000 + 20_400
    assert 2 * 6_000 + 20_000 < took(4096, True) < 2 * 6_000 + 20_400
    assert 4 * 6_000 + 20_000 < took(32_768, True) < 4 * 6_000 + 24_000


def test_what_theory_does_not_cover() -> None:
    """Super-packets, and more than the initial window, have no closed form here."""
    super_packets = ([LinkSpec(10**11, 5_000, true_packets=False)], ())
    assert nvme_path.command_ns(super_packets, super_packets, 4096, 0, write=False) is None
    assert nvme_path.command_ns(([LINE], ()), ([LINE], ()), 1 << 20, 0, write=False) is None


@given(st.binary(max_size=100))
def test_a_checksummed_message_sums_to_zero(data: bytes) -> None:
    """RFC 1071: with its checksum in place the sum over a message is all ones."""
    data += bytes(len(data) % 2)
    assert checksum(data + struct.pack("!H", checksum(data))) == 0


@given(st.integers(0, 65_535), st.integers(0, 65_535), st.integers(0, 200))
def test_echo_requests_are_valid(identifier: int, number: int, payload: int) -> None:
    """Type, length and checksum of any echo request are right."""
    request = echo_request(identifier, number, payload)
    assert (request[0], len(request), checksum(request)) == (8, 8 + payload, 0)


def test_ping_output() -> None:
    """Times of all lengths are read; duplicates, timeouts and other lines are not."""
    text = """PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.043 ms
64 bytes from 10.0.0.2: icmp_seq=2 ttl=63 time=40.1 ms
From 10.0.0.9 icmp_seq=3 Destination Host Unreachable
64 bytes from 10.0.0.2: icmp_seq=4 ttl=64 time=1234 ms
8 bytes from 10.0.0.2: icmp_seq=5 ttl=64
rtt min/avg/max/mdev = 0.043/0.043/0.043/0.000 ms"""
    assert parse_ping(text) == {1: 43_000, 2: 40_100_000, 4: 1_234_000_000}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"end": {}}', None),
        (
            '{"error": "unable to connect to server: Connection refused"}',
            "unable to connect to server: Connection refused",
        ),
        ("", None),
        ("[1, 2]", None),
        ("iperf3: command garbled", None),
    ],
)
def test_iperf3_errors(text: str, error: str | None) -> None:
    """The error in the JSON output is found; anything else is no error by itself."""
    assert iperf_error(text) == error


@given(
    st.integers(10**6, 1_600 * 10**9),
    st.integers(0, 10**9),
    st.integers(1, 10_000_000),
    st.integers(1, 4),
    st.booleans(),
)
def test_tcp_buffers_fit_any_path(rate: int, delay: int, queue: int, hops: int, ecn: bool) -> None:
    """Windows hold all that can be in flight, as far as Linux's numbers go, and stay in order and within 31 bits."""
    path = [LinkSpec(rate, delay, queue_packets=queue)] * hops
    found = tcp_settings.settings(path, ecn=ecn)
    for name in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
        least, start, most = map(int, found[name].split())
        assert 0 < least <= start <= most < 2**31
        assert most >= min(2 * tcp_settings.in_flight_bytes(path), 2**31 - 1)
    assert 0 < int(found["net.ipv4.tcp_limit_output_bytes"]) < 2**31
    assert found["net.ipv4.tcp_ecn"] == str(int(ecn))
