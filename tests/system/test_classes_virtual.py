"""Links that keep storage and compute apart: tests in one virtual-time kernel, and a whole run with the controller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.guest_tests import FOLDER, names_of, run_guests
from tests.support.scenario_runs import figure, run_file

pytestmark = pytest.mark.virtual

GUEST = FOLDER / "classes_guest.py"
SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "reference" / "classes.yaml"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures of each test by its name."""
    return run_guests([GUEST], tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("name", names_of(GUEST))
def test_in_the_virtual_kernel(outcomes: dict[str, list[str]], name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert outcomes[name] == [], "\n".join(outcomes[name])


def test_the_controller_sorts_storage_from_compute(tmp_path: Path) -> None:
    """The reference scenario meets its expectations, and each queue has carried what is its own.

    Verify: the storage queues of the shared line carried the volumes' bytes, the other one the TCP flow's; series
    and counters have both, and neither has any with one queue.
    """
    outcome = run_file(SCENARIO, tmp_path / "results")
    assert [one for one in outcome.outcomes if not one.passed] == []
    shared: dict[str, dict[str, int]] = {}
    for index, variant in enumerate(("queues=one", "queues=two")):
        cell = tmp_path / "results" / "cells" / str(index)
        ports = json.loads((cell / "counters.json").read_text(encoding="utf-8"))["ports"]
        [port] = [one for one in ports if one["interface"] == "la1-eth4"]
        shared[variant] = {one["name"]: one["tx_bytes"] for one in port.get("classes", [])}
        series = json.loads((cell / "series.json").read_text(encoding="utf-8"))["interfaces"]
        assert ("la1-eth4 storage" in series) == (variant == "queues=two")
    assert shared["queues=one"] == {}
    # Two volumes of 64 MiB, twice, in frames of 9 kB; commands and answers of the other direction are elsewhere.
    assert shared["queues=two"]["storage"] == pytest.approx(4 * (64 << 20), rel=0.02)
    carried = figure(outcome, "collective", "goodput", "queues=two") * 0.01 / 8
    assert shared["queues=two"]["compute"] >= 0.9 * carried
    dropped = figure(outcome, "fabric", "storage_packets_dropped", "queues=two")
    dropped += figure(outcome, "fabric", "compute_packets_dropped", "queues=two")
    assert dropped <= figure(outcome, "fabric", "packets_dropped", "queues=two")
