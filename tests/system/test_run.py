"""Whole runs on the virtual engine: both designs, captures, failures inside the machine, what is left in the folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from emulator.errors import EmulatorError, LimitError
from emulator.report import judge, write_report
from emulator.results import read_results
from tests.support.scenario_runs import figure, run_file, run_text

pytestmark = pytest.mark.virtual

BOTH_DESIGNS = """\
scenario: both
question: Where does storage traffic go?
topology: {kind: icgw, gpus: 2, compute: 1, storage: 1, spines: 1, rate: 100 Gbit/s}
designs: [conventional, gateway]
profiles: [documents]
workloads:
  - {name: traversal, kind: ping, source: g1, target: s1, count: 3, interval: 1 ms}
  - {name: random_read, kind: nvme, initiators: g1, target: s1, pattern: randread, queue_depths: [1], ios: 20}
  - {name: checkpoint, kind: checkpoint, initiators: [g1, g2], target: s1, size: 8 MiB, full_size: 1 TB}
capture: [s1-eth0]
sampling: {interval: 1 ms}
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory):
    """One run of both designs."""
    return run_text(BOTH_DESIGNS, tmp_path_factory.mktemp("both"))


def test_storage_bytes_go_around_compute_nodes(both) -> None:
    """Claim G09 from the switches' counters: every storage byte crosses a compute node before, none after."""
    crossed = figure(both, "fabric", "storage_bytes_through_compute", "conventional/documents")
    stored = figure(both, "fabric", "storage_bytes", "conventional/documents")
    assert crossed == pytest.approx(stored, rel=0.05)
    assert crossed > 8 << 20
    assert figure(both, "fabric", "storage_bytes_through_compute", "gateway/documents") == 0
    assert figure(both, "fabric", "storage_bytes", "gateway/documents") > 8 << 20


def test_traversals_cost_what_the_profile_says(both) -> None:
    """Two crossings of router and compute node at 100 us each, or of the gateway at 5 us: the rest is links."""
    conventional = figure(both, "traversal", "rtt_mean", "conventional/documents")
    gateway = figure(both, "traversal", "rtt_mean", "gateway/documents")
    assert 400_000 < conventional < 420_000
    assert 10_000 < gateway < 20_000


def test_captures_open_in_tshark(both) -> None:
    """The capture has nanosecond time stamps and shows NVMe/TCP between the volume's two ends."""
    tshark = shutil.which("tshark")
    assert tshark, "tshark is one of the packages that set-up installs"
    pcap = both.folder / "cells" / "1" / "s1-eth0.pcap"
    fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "ip.src", "-e", "ip.dst", "-e", "tcp.dstport"]
    done = subprocess.run([tshark, "-r", str(pcap), *fields], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert any(row[3] == "4420" for row in rows)
    assert any(len(row[0].partition(".")[2].rstrip("0")) > 6 for row in rows), "no stamp is finer than a microsecond"


def test_the_folder_can_be_judged_and_drawn(both) -> None:
    """Results read back; claims with figures get a verdict; the page has a picture for each design."""
    results = read_results(both.folder)
    verdicts = {verdict.claim.id: verdict.verdict for verdict in judge(results)}
    assert verdicts["G09"].startswith("holds")
    page = write_report(results).read_text(encoding="utf-8")
    assert page.count("<svg") >= 2
    assert results.manifest.cells[0].peak_memory_bytes > 0


def test_profiles_documented_in_the_manifest(both) -> None:
    """The costs that were put in stand in the manifest with their source."""
    manifest = json.loads((both.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["profiles"]["documents"]["gateway"]["latency_ns"] == 5000
    assert "G01" in manifest["profiles"]["documents"]["gateway"]["source"]


def test_smoke(repository: Path, tmp_path: Path) -> None:
    """The smallest scenario meets its own expectations."""
    outcome = run_file(repository / "scenarios" / "smoke.yaml", tmp_path / "smoke")
    assert [one.reason for one in outcome.outcomes if not one.passed] == []


def test_a_virtual_limit_ends_the_run(tmp_path: Path) -> None:
    """A workload that would just fit the limit, were there no set-up before it, is ended; there are no results."""
    text = BOTH_DESIGNS.replace("count: 3", "count: 2950") + "limits: {virtual: 3 s}\n"
    with pytest.raises(LimitError, match="3 s"):
        run_text(text, tmp_path)
    assert not (tmp_path / "results" / "results.json").exists()


def test_a_workload_that_dies(tmp_path: Path) -> None:
    """A program that fails inside the machine is one line that names what was asked for; exit code 7."""
    text = """\
scenario: dies
question: What if a program dies?
topology: {kind: chain, hops: 1}
workloads: [{name: bulk, kind: tcp, sources: h0, targets: h1, size: 1 MB, congestion: warp}]
"""
    with pytest.raises(EmulatorError) as caught:
        run_text(text, tmp_path)
    assert caught.value.exit_code in (2, 7)
    assert "warp" in str(caught.value)
    assert "\n" not in str(caught.value)
