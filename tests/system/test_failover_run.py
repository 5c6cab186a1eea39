"""A whole run with faults on the virtual engine: workloads that start together, what is rerouted, what is on file."""

from __future__ import annotations

import json

import pytest

from emulator.experiment.run import RunOutcome
from emulator.report import write_report, write_timeline
from emulator.results import read_results
from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual

MS = 10**6
SCENARIO = """\
scenario: faults
question: What do faults cost?
topology: {kind: icgw, gpus: 2, compute: 1, storage: 1, rate: 100 Gbit/s, delay: 500 ns}
controller: {spread: flows}
workloads:
  - {name: volume, kind: nvme, initiators: g2, target: s1, block: 16 KiB, queue_depths: [4], ios: 3000}
  - {name: probes, kind: probe, alongside: volume, all_to_all: [gpu, storage], interval: 2 us, duration: 24 ms}
  - {name: after, kind: ping, source: g1, target: s1, count: 3, interval: 1 ms}
faults:
  - {during: volume, at: 2 ms, cut: la1-spa1}
  - {during: probes, at: 9 ms, restore: la1-spa1}
  - {during: volume, at: 10 ms, stop: spa2}
  - {during: volume, at: 17 ms, start: spa2}
  - {during: volume, at: 20 ms, silence: s1-la3}
  - {during: volume, at: 22 ms, restore: la3-s1}
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """The run."""
    return run_text(SCENARIO, tmp_path_factory.mktemp("faults"))


def test_every_pair_meets_again_after_what_can_be_routed_around(outcome: RunOutcome) -> None:
    """With two spines, a cut uplink and a stopped spine part no pair for good; repairs cost no packet.

    Verify: all recover; the silent link of the only storage node costs its pairs what they sent meanwhile.
    """
    for number in range(6):
        assert figure(outcome, "probes", f"unrecovered_fault{number}") == 0
    assert figure(outcome, "probes", "lost_fault1") == figure(outcome, "probes", "lost_fault3") == 0
    assert figure(outcome, "probes", "lost_without_fault") == 0
    # Both ways between the storage node and two others, for 2 ms.
    assert figure(outcome, "probes", "pairs_hit_fault4") == 4
    assert figure(outcome, "probes", "lost_fault4") == pytest.approx(4 * 1000, abs=8)
    assert 2 * MS <= figure(outcome, "probes", "recovery_max_fault4") <= 2 * MS + 10_000
    assert figure(outcome, "probes", "lost") == sum(figure(outcome, "probes", f"lost_fault{n}") for n in range(6))


def test_storage_lives_through_it_and_the_network_is_mended(outcome: RunOutcome) -> None:
    """All I/Os of the volume are done although its link was silent; the next workload finds a whole network."""
    assert figure(outcome, "volume", "iops_qd4") > 0
    assert figure(outcome, "volume", "latency_max_qd4") > 2 * MS
    assert figure(outcome, "after", "loss") == 0
    assert outcome.warnings == ()


def test_what_happened_is_on_file(outcome: RunOutcome) -> None:
    """Faults strike at their nanosecond after the common start; report and timeline show them."""
    results = read_results(outcome.folder)
    events = results.cells[0].side.events
    volume, probes, after = events.workloads
    assert volume.start_ns == probes.start_ns < min(volume.end_ns, probes.end_ns) <= after.start_ns
    late = [mark.at_ns - volume.start_ns for mark in events.faults]
    assert late == pytest.approx([2 * MS, 9 * MS, 10 * MS, 17 * MS, 20 * MS, 22 * MS], abs=100)
    page = write_report(results).read_text(encoding="utf-8")
    assert page.count("silence s1-la3") >= 1
    names = [event["name"] for event in json.loads(write_timeline(results).read_text())["traceEvents"]]
    assert "stop spa2" in names


def test_the_folder_says_what_was_lost_when(outcome: RunOutcome) -> None:
    """The series of probes add up to the figures."""
    series = read_results(outcome.folder).cells[0].side.events.probes["probes"]
    assert sum(series.sent) == figure(outcome, "probes", "sent")
    assert sum(series.lost) == figure(outcome, "probes", "lost")
