"""Runs scenarios through the host side, as the command line does, for tests that look at what comes out."""

from __future__ import annotations

from pathlib import Path

from emulator.engine.virtual import VirtualEngine
from emulator.experiment.prepare import prepare
from emulator.experiment.run import RunOutcome, run
from tests.support.engine_jobs import Silent


def run_file(path: Path, folder: Path) -> RunOutcome:
    """Run a scenario file on the virtual engine."""
    scenario, cells = prepare(path)
    return run(scenario, cells, engine=VirtualEngine(), folder=folder, observer=Silent())


def run_text(text: str, folder: Path) -> RunOutcome:
    """Run a scenario's text on the virtual engine; *folder* gets the file and the results."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scenario.yaml"
    file.write_text(text, encoding="utf-8")
    return run_file(file, folder / "results")


def figure(
    outcome: RunOutcome, workload: str, metric: str, variant: str | None = None, kind: str = "measured"
) -> float:
    """The one figure of that name."""
    (record,) = [
        one
        for one in outcome.records
        if (one.workload, one.metric, one.kind.value) == (workload, metric, kind) and variant in (None, one.variant)
    ]
    return record.value
