"""The same scenario gives the same bytes, whatever else the machine does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual

SCENARIO = """\
scenario: same
question: Are two runs alike?
topology: {kind: icgw, gpus: 2, compute: 2, storage: 1, spines: 2, rate: 100 Gbit/s}
designs: [conventional, gateway]
workloads:
  - {name: rtt, kind: ping, source: g1, target: s1, count: 5, interval: 1 ms}
  - {name: reads, kind: nvme, initiators: [g1, g2], target: s1, pattern: randread, queue_depths: [4], ios: 50}
  - {name: save, kind: checkpoint, initiators: [g1, g2], target: s1, size: 8 MiB}
  - {name: bulk, kind: tcp, sources: g1, targets: g2, flows: 2, size: 4 MB}
  - {name: small, kind: small_packets, source: g2, target: s1, message: 512 B, duration: 200 us}
sampling: {interval: 1 ms}
"""

_KEPT = ("records.json", "counters.json", "series.json", "dataplane.json", "warnings.json")


def test_twice_and_with_the_other_cpu_busy(tmp_path: Path) -> None:
    """Results, counters and series are byte for byte the same in a second run while another program burns a CPU."""
    first = run_text(SCENARIO, tmp_path / "first")
    cpu = max(os.sched_getaffinity(0))
    burner = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
    )
    try:
        second = run_text(SCENARIO, tmp_path / "second")
    finally:
        burner.kill()
        burner.wait()
    assert (first.folder / "results.json").read_bytes() == (second.folder / "results.json").read_bytes()
    assert len(first.records) > 40
    for cell in ("0", "1"):
        for name in _KEPT:
            one, other = (outcome.folder / "cells" / cell / name for outcome in (first, second))
            assert one.read_bytes() == other.read_bytes(), f"{cell}/{name}"


FAULTS = """\
scenario: same_faults
question: Are two runs alike in which links and switches fail under load?
topology: {kind: icgw, gpus: 3, compute: 1, storage: 1, spines: 2, rate: 100 Gbit/s, queue: 300 packets}
designs: [gateway]
controller: {spread: flows}
workloads:
  - {name: bulk, kind: tcp, sources: [g2, g3], targets: [c1, r1], flows: 2, duration: 12 ms}
  - {name: volume, kind: nvme, alongside: bulk, initiators: g2, target: s1, block: 16 KiB, queue_depths: [4], ios: 500}
  - {name: probes, kind: probe, alongside: bulk, all_to_all: [g1, c1, s1], interval: 4 us, duration: 12 ms}
faults:
  - {at: 1 ms, cut: la1-spa1}
  - {at: 3 ms, restore: la1-spa1}
  - {at: 4 ms, stop: spa2}
  - {at: 9.5 ms, start: spa2}
  - {at: 10 ms, flap: {link: la3-spa1, times: 2, every: 500 us}}
  - {at: 11 ms, silence: s1-la3}
  - {at: 11.5 ms, restore: s1-la3}
sampling: {interval: 200 us}
"""


def test_twice_with_faults(tmp_path: Path) -> None:
    """Failures under load are the same to the byte: figures, every lost probe, the controller's log.

    Verify: the runs are not equal by emptiness: probes were lost, and paths changed.
    """
    first, second = (run_text(FAULTS, tmp_path / name) for name in ("first", "second"))
    assert (first.folder / "results.json").read_bytes() == (second.folder / "results.json").read_bytes()
    for name in (*_KEPT, "events.json", "probe-probes.json", "distributions-volume.json", "controller.log"):
        one, other = (outcome.folder / "cells" / "0" / name for outcome in (first, second))
        assert one.read_bytes() == other.read_bytes(), name
    assert figure(first, "probes", "lost_by_faults") > 0
    assert "paths were computed anew" in (first.folder / "cells" / "0" / "controller.log").read_text(encoding="utf-8")


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    """The seed matters: where traffic is random, figures differ, so equal bytes above are not equal by emptiness."""
    text = """\
scenario: seeds
question: Does the seed matter?
seed: 1
topology: {kind: chain, hops: 1, rate: 10 Gbit/s, mtu: 1500 B, queue: 10000 packets}
workloads: [{name: arrivals, kind: poisson, source: h0, target: h1, load: 0.6, frame: 1500 B, packets: 5000}]
"""
    first = run_text(text, tmp_path / "first")
    second = run_text(text.replace("seed: 1", "seed: 2"), tmp_path / "second")
    assert (first.folder / "results.json").read_bytes() != (second.folder / "results.json").read_bytes()
