"""The host side of a run: cells become jobs, jobs run on an engine, what they leave becomes a results folder."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import emulator
from emulator.engine.job import Engine, Job, JobResult, Limits, Observer
from emulator.experiment.prepare import PreparedCell
from emulator.model.codec import fabric_to_json
from emulator.results import (
    CellInfo,
    Manifest,
    Record,
    ResultsFolder,
    package_versions,
    program_versions,
    tree_revision,
)
from emulator.scenario import Cell, Outcome, Scenario, cell_to_json, evaluate
from emulator.scenario.codec import workload_to_json
from emulator.units import NS_PER_S
from emulator.workloads.programs import check_programs

CELL_FILE = "cell.json"
FABRIC_FILE = "fabric.json"
WARNINGS_FILE = "warnings.json"

_TREE = Path(emulator.__file__).resolve().parent.parent
_PACKAGES = ("icgw", "ryu", "eventlet", "pyroute2", "networkx", "pydantic")
_PROGRAMS = {
    "mininet": ("mn", "--version"),
    "openvswitch": ("ovs-vswitchd", "--version"),
    "iperf3": ("iperf3", "--version"),
    "fio": ("fio", "--version"),
    "nvme-cli": ("nvme", "version"),
    "iproute2": ("ip", "-V"),
    "ping": ("ping", "-V"),
}


@dataclass(frozen=True)
class RunOutcome:
    """What came out of a run.

    Attributes:
        folder: The results folder.
        records: All figures.
        outcomes: The scenario's own expectations.
        warnings: What to check before trusting the figures.
    """

    folder: Path
    records: tuple[Record, ...]
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...]


def run(
    scenario: Scenario,
    prepared: Sequence[PreparedCell],
    *,
    engine: Engine,
    folder: Path,
    observer: Observer,
    command: Sequence[str] = (),
    kernel: dict[str, str] | None = None,
) -> RunOutcome:
    """Run all cells and write the results folder (the report is the caller's).

    Args:
        scenario: What is run.
        prepared: Its cells with their fabrics.
        engine: Where they run.
        folder: Results folder; made, or emptied of an earlier run's results.
        observer: Is told about progress.
        command: How the program was started, for the manifest.
        kernel: What is known of the emulated machine's kernel, for the manifest.

    Raises:
        EmulatorError: Something failed; the folder keeps the logs and no ``results.json``.
    """
    check_programs(workload for one in prepared for workload in one.cell.workloads)
    engine.check(max(one.cell.limits.memory_bytes for one in prepared))
    with ResultsFolder.create(folder) as results:
        jobs = [_job(one, index, results) for index, one in enumerate(prepared)]
        finished = engine.run(jobs, observer)
        records = results.merge_parts(len(jobs))
        outcomes = evaluate(scenario.expectations, records)
        warnings = _warnings(results, len(jobs))
        results.write_manifest(
            Manifest(
                scenario=scenario.name,
                question=scenario.question,
                scenario_file=scenario.file,
                scenario_text=scenario.text,
                seed=scenario.variants[0].seed,
                engine=engine.name,
                cells=tuple(_cell_info(one.cell, result) for one, result in zip(prepared, finished, strict=True)),
                profiles={one.cell.profile: asdict(one.cell.costs) for one in prepared},
                revision=tree_revision(_TREE),
                kernel=kernel or {"release": platform.release()},
                tools={**package_versions(_PACKAGES), **program_versions(_PROGRAMS)},
                host={"machine": platform.machine(), "cpus": str(os.cpu_count()), "kernel": platform.release()},
                warnings=warnings,
                expectations=tuple(outcome.as_json() for outcome in outcomes),
                command=tuple(command),
            )
        )
        return RunOutcome(results.path, tuple(records), tuple(outcomes), warnings)


def _job(prepared: PreparedCell, index: int, results: ResultsFolder) -> Job:
    cell = prepared.cell
    folder = results.cell(index).resolve()
    _write_json(folder / CELL_FILE, cell_to_json(cell))
    _write_json(folder / FABRIC_FILE, fabric_to_json(prepared.fabric))
    return Job(
        name=cell.variant,
        argv=(sys.executable, "-m", "emulator.experiment.cell"),
        out=folder,
        seed=cell.seed,
        limits=Limits(
            virtual_ns=cell.limits.virtual_ns,
            wall_s=cell.limits.wall_ns / NS_PER_S,
            memory_bytes=cell.limits.memory_bytes,
        ),
        environment={"PYTHONPATH": str(_TREE)},
    )


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _cell_info(cell: Cell, result: JobResult) -> CellInfo:
    return CellInfo(
        variant=cell.variant,
        design=cell.design,
        profile=cell.profile,
        topology=cell.kind,
        parameters=dict(cell.parameters),
        workloads=tuple(workload_to_json(workload) for workload in cell.workloads),
        seed=cell.seed,
        wall_s=round(result.wall_s, 3),
        virtual_ns=result.virtual_ns,
        peak_memory_bytes=result.peak_memory_bytes,
    )


def _warnings(results: ResultsFolder, count: int) -> tuple[str, ...]:
    """Warnings that the cells left, each once, in order."""
    warnings: dict[str, None] = {}
    for index in range(count):
        path = results.cell(index) / WARNINGS_FILE
        if path.is_file():
            warnings.update(dict.fromkeys(json.loads(path.read_text(encoding="utf-8"))))
    return tuple(warnings)
