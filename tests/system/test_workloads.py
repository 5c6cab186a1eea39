"""Workloads on small chains of hosts in the real virtual-time kernel, against closed forms."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from tests.support.engine_jobs import Silent

pytestmark = pytest.mark.virtual

JOB = Path(__file__).resolve().parents[1] / "support" / "workload_job.py"
LIMITS = Limits(virtual_ns=3600 * 10**9, wall_s=300, memory_bytes=2 << 30)
EXPERIMENTS = ("queueing", "nvme", "pings", "tcp", "small", "instruments", "errors")
FIRST = EXPERIMENTS[:2]


def run_machine(folder: Path, *experiments: str) -> dict[str, Any]:
    out = folder / "out"
    out.mkdir()
    job = Job("workloads", (sys.executable, str(JOB), *experiments), out, limits=LIMITS)
    [result] = VirtualEngine(base=folder / "runs").run([job], Silent())
    assert result.exit_code == 0, result.log.read_text()
    return dict(json.loads((out / "result.json").read_text()))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all experiments found, in one machine one after the other."""
    return run_machine(tmp_path_factory.mktemp("workloads"), *EXPERIMENTS)


@pytest.mark.parametrize("path", ["25x1", "100x3", "1280x5", "far"])
def test_rtt_is_exact(found: dict[str, Any], path: str) -> None:
    """The unloaded round trip is the sum of delays and serializations to a few ns, also of 20 ms with 1 ms gaps.

    Steps: ping over 1, 3 and 5 hops of different rates, and over a line on which many echoes are under way at a time.
    Verify: smallest and largest RTT; ``ping`` prints the same, to its own precision and clock.
    """
    rtt = found["pings"][path]
    assert rtt["rtt_min measured"] == pytest.approx(rtt["rtt_mean theory"], abs=10)
    assert rtt["rtt_max measured"] == pytest.approx(rtt["rtt_mean theory"], abs=10)
    assert rtt["loss measured"] == 0
    assert rtt["ping_rtt_mean measured"] == pytest.approx(rtt["rtt_mean theory"], abs=1500, rel=0.002)


def test_lost_echoes_are_counted(found: dict[str, Any]) -> None:
    """With 30 % loss each way about half of the echoes are lost; those that return are as fast as without."""
    rtt = found["pings"]["lossy"]
    assert 0.25 < rtt["loss measured"] < 0.75
    assert rtt["rtt_max measured"] == pytest.approx(rtt["rtt_mean theory"], abs=10)
    assert "ping_rtt_mean measured" not in rtt, "ping times nothing with 1 byte of payload"


@pytest.mark.parametrize("path", ["100x3", "400x1"])
def test_tcp_fills_the_line(found: dict[str, Any], path: str) -> None:
    """One flow of true packets reaches at least 99 % of what headers leave, and no more than rounding allows."""
    bulk = found["tcp"][path]
    assert 0.99 < bulk["goodput measured"] / bulk["goodput theory"] < 1.006


def test_tcp_flows_for_a_time(found: dict[str, Any]) -> None:
    """Three staggered BBR flows are ended after their time; shares add up; the hosts' settings are put back."""
    timed = found["tcp"]["timed"]
    shares = [timed[f"goodput_flow{index} measured"] for index in range(3)]
    assert sum(shares) == pytest.approx(timed["goodput measured"])
    assert timed["utilization measured"] > 0.98
    assert timed["jain_index measured"] == pytest.approx(sum(shares) ** 2 / (3 * sum(one**2 for one in shares)))
    assert 2_000_000 < timed["window measured"] < 4_000_000
    before, after = found["tcp"]["settings"]
    assert before == after


@pytest.mark.parametrize("index", [0, 1])
def test_waits_are_those_of_the_queue(found: dict[str, Any], index: int) -> None:
    """Every packet waits as Lindley's recursion says, so the controlled mean is that of M/D/1 to a ns."""
    wait = found["queueing"]["loads"][index]
    assert wait["loss measured"] == 0
    assert wait["mean_wait measured"] == pytest.approx(wait["mean_wait_arrivals theory"], abs=1)
    assert abs(wait["mean_wait_controlled_error measured"]) * wait["mean_wait theory"] < 1
    # The plain mean is as far off as its standard error allows (4 sigma).
    assert abs(wait["mean_wait measured"] - wait["mean_wait theory"]) < 4 * wait["mean_wait_stderr measured"]


def test_the_bottleneck_may_come_first(found: dict[str, Any]) -> None:
    """In a tandem of deterministic servers the order does not matter."""
    [wait] = found["queueing"]["slow first"]
    assert wait["mean_wait measured"] == pytest.approx(wait["mean_wait_arrivals theory"], abs=1)


def test_a_short_queue_is_not_held_against_theory(found: dict[str, Any]) -> None:
    """Where packets are lost M/D/1 does not apply: the loss is reported and nothing is predicted."""
    [wait] = found["queueing"]["overflow"]
    assert 0 < wait["loss measured"] < 0.5
    assert "mean_wait theory" not in wait
    assert "mean_wait_error measured" not in wait


def test_small_packets(found: dict[str, Any]) -> None:
    """At line rate the useful share is payload over frame and gap; one byte works; double load loses half."""
    line, tiny, too_much = found["small"]
    assert line["useful_share measured"] == pytest.approx(512 / (512 + 42 + 24), rel=1e-4)
    assert line["loss measured"] == 0
    assert tiny["useful_bandwidth measured"] == pytest.approx(5e9 / (1 + 42 + 24), rel=1e-4)
    assert too_much["useful_share measured"] == pytest.approx(line["useful_share measured"], rel=0.01)
    assert too_much["loss measured"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("path", ["jumbo", "ethernet"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_nvme_latency_is_that_of_its_messages(found: dict[str, Any], path: str, index: int) -> None:
    """At depth 1 reads, inline writes and solicited writes take what their messages and the media take.

    Steps: fio over one hop with MTU 9000 and three with MTU 1500, 4 KiB and 64 KiB.
    Verify: smallest, mean and largest latency within 20 ns of theory.
    """
    io = found["nvme"][path][index]
    for metric in ("latency_min_qd1", "latency_mean_qd1", "latency_max_qd1"):
        assert io[f"{metric} measured"] == pytest.approx(io["latency_mean_qd1 theory"], abs=20), metric


def test_nvme_depth_and_sharing(found: dict[str, Any]) -> None:
    """Depth 16 gives nearly 16 times the rate; two clients fill a line together; pauses slow an initiator down."""
    read = found["nvme"]["jumbo"][0]
    assert 12 < read["iops_qd16 measured"] / read["iops_qd1 measured"] <= 16
    bulk, think, save = found["nvme"]["shared"]
    assert 0.95 < bulk["bandwidth_share_qd16 measured"] < 1
    assert 900 < think["iops_qd1 measured"] < 1000
    assert think["latency_mean_qd1 measured"] == pytest.approx(think["latency_mean_qd1 theory"], abs=50)
    assert 0.95 < save["bandwidth_share measured"] < 1
    assert save["duration measured"] == pytest.approx((64 << 20) * 8e9 / save["bandwidth measured"])
    assert save["duration_full modelled"] == pytest.approx(8e12 * 1e9 / save["bandwidth measured"])


def test_captures_have_nanoseconds(found: dict[str, Any]) -> None:
    """tshark reads what was captured: request and reply of an echo are a round trip less the first line apart."""
    times = [int(text.replace(".", "")) for text in found["instruments"]["icmp times"]]
    # The first reply waits for address resolution.
    times = times[2:]
    gaps = {reply - request for request, reply in zip(times[::2], times[1::2], strict=True)}
    assert max(gaps) - min(gaps) <= 1
    # A leaving packet is stamped at the line's far end: of four line crossings three are left.
    assert min(gaps) == pytest.approx(3 * 5009, abs=10)


def test_sampling_sees_the_line_and_changes_nothing(found: dict[str, Any]) -> None:
    """Counters add up to what was sent; a full series is thinned out evenly; the flow does not notice."""
    seen = found["instruments"]
    times, sent, backlog = seen["series"]["a-up"]
    assert 2 <= len(times) <= 65
    steps = {later - earlier for earlier, later in pairwise(times)}
    last = times[-1] - times[-2]
    assert max(steps) - min(steps - {last}) <= 10, "evenly spaced but for the last"
    assert seen["interval_ns"] == pytest.approx(max(steps), abs=10)
    assert seen["interval_ns"] % 10_000 == 0
    # iperf3 ends when all is written; what the receiver has not taken by then is not sent any more.
    payload = 20_000_000
    assert payload * 0.9 < sent[-1] - sent[0] < payload * 1.03
    assert sent == sorted(sent)
    assert max(backlog) > 0
    assert seen["drops"] == {"a-up": 0, "r1-down": 0, "r1-up": 0, "b-down": 0}
    assert seen["watched"]["goodput measured"] == pytest.approx(seen["alone"]["goodput measured"], rel=0.002)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("ping", "workload p: none of 2 echoes from a to b (10.9.0.2) came back"),
        ("poisson", "workload q: from a to b: no packet arrived"),
        ("connect", "NVMe/TCP: cannot connect a to b (10.9.0.2:4420): "),
        ("host", "workload p: there is no host 'nobody'"),
        ("frame", "workload q: a frame of 20000 bytes is impossible here: 50 to 9014"),
        ("depth", "workload n: a queue depth of 128 is impossible: 1 to 127 commands fit"),
        ("congestion", "workload t: iperf3 on a failed: unable to set TCP_CONGESTION: "),
        ("server dies", "workload t: iperf3 on "),
        ("fio dies", "workload n: fio on a was killed by SIGKILL: "),
        ("volume lost", "NVMe/TCP: a lost the connection to its volume on b"),
    ],
)
def test_failures_have_one_clear_line(found: dict[str, Any], what: str, line: str) -> None:
    """A host that does not answer, a program that dies, a volume that goes away: what, where, and why."""
    said = found["errors"][what]
    assert said.startswith(line)
    assert "\n" not in said


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_nothing_is_left(found: dict[str, Any], experiment: str) -> None:
    """After success and failure alike no volume, target, program, thread or temporary file remains."""
    assert {what: left for what, left in found[f"{experiment} left"].items() if left} == {}


def test_the_same_again(found: dict[str, Any], tmp_path: Path) -> None:
    """A second machine with the same seed finds the same figures to the last digit."""
    again = run_machine(tmp_path, *FIRST)
    assert again == {name: value for name, value in found.items() if name in again}
