"""What the ``icgw`` commands do, once their arguments are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from emulator.engine.job import Engine
from emulator.engine.kernelimage import describe_kernel, find_kernel
from emulator.errors import EmulatorError, ScenarioError
from emulator.experiment.console import ConsoleObserver, Output, discard_output, say
from emulator.experiment.prepare import PreparedCell, prepare
from emulator.experiment.routes import Routes
from emulator.experiment.run import RunOutcome, run
from emulator.experiment.tables import figures_table
from emulator.model.fabric import Fabric
from emulator.results import default_folder, read_results
from emulator.scenario.plan import plan as plan_cell
from emulator.scenario.plan import render
from emulator.scenario.predict import Flow, Route, needed_flows
from topologies.analysis import figures
from topologies.closed_forms import CLOSED_FORMS
from topologies.figures import Figures


def check(paths: Sequence[Path], *, as_json: bool) -> int:
    """Check scenario files; every bad one gets its line, the exit code is the first failure's."""
    results: list[dict[str, Any]] = []
    status = 0
    for path in paths:
        try:
            scenario, cells = prepare(path)
            for one in cells:
                _routes(one)
            results.append({"file": str(path), "ok": True, "scenario": scenario.name, "cells": len(cells)})
        except EmulatorError as error:
            status = status or error.exit_code
            results.append({"file": str(path), "ok": False, "error": str(error)})
            sys.stderr.write(f"error: {error}\n")
            continue
        if not as_json:
            say(f"{path}: {scenario.name}, {len(cells)} cell{'s' if len(cells) != 1 else ''}: fine\n")
    if as_json:
        print_json(results)
    return status


def plan(path: Path, *, variants: Sequence[str] | None, as_json: bool) -> int:
    """Show what would be built and what can be foretold of it."""
    _, cells = prepare(path)
    plans = [(plan_cell(one.cell, one.fabric, _routes(one)), _figures(one.fabric)) for one in chosen(cells, variants)]
    if as_json:
        print_json([{**one.as_json(), "figures": asdict(found) if found else None} for one, found in plans])
        return 0
    console = Output()
    for one, found in plans:
        render(one, console)
        if found is not None:
            console.print(figures_table(found))
    return 0


def _figures(fabric: Fabric) -> Figures | None:
    """What the formulas say of a supernode; of other topologies there are none."""
    return figures(fabric) if fabric.name in CLOSED_FORMS else None


def _routes(one: PreparedCell) -> dict[Flow, Route]:
    """Routes of all flows of a cell's workloads.

    Raises:
        ControllerError: A flow has none.
    """
    return Routes(one.fabric, one.cell.design, one.cell.control.spread).routes(needed_flows(one.cell.workloads))


def chosen(cells: Sequence[PreparedCell], variants: Sequence[str] | None) -> list[PreparedCell]:
    """The cells of the named variants, or all.

    Raises:
        ScenarioError: There is no variant of a name.
    """
    if not variants:
        return list(cells)
    names = [one.cell.variant for one in cells]
    for variant in variants:
        if variant not in names:
            raise ScenarioError(f"there is no variant {variant!r}: choose from {'; '.join(names)}", key="--variant")
    return [one for one in cells if one.cell.variant in variants]


def engine_of(name: str) -> tuple[Engine, dict[str, str] | None]:
    """The engine of a name, and what a manifest says of its kernel (None: it is the host's).

    Raises:
        MissingCapability: There is no virtual-time kernel.
    """
    if name == "native":
        from emulator.engine.native import NativeEngine

        return NativeEngine(), None
    from emulator.engine.virtual import VirtualEngine

    kernel = find_kernel()
    return VirtualEngine(kernel), describe_kernel(kernel)


def run_scenario(
    path: Path,
    *,
    out: Path | None,
    engine: str,
    variants: Sequence[str] | None,
    quiet: bool,
    report: bool,
    command: Sequence[str],
    as_json: bool,
) -> RunOutcome:
    """Run a scenario, write its results folder, judge it and show the figures.

    Raises:
        EmulatorError: Something failed.
    """
    scenario, cells = prepare(path)
    folder = out if out is not None else default_folder(scenario.name)
    runner, kernel = engine_of(engine)
    with ConsoleObserver(quiet=quiet) as observer:
        outcome = run(
            scenario,
            chosen(cells, variants),
            engine=runner,
            folder=folder,
            observer=observer,
            command=command,
            kernel=kernel,
        )
    try:
        show(folder, html=report, as_json=as_json)
    except BrokenPipeError:  # nobody reads on; what came of the run still decides the exit code
        discard_output()
    return outcome


def report(folder: Path, *, as_json: bool) -> int:
    """Judge and show a results folder again, and write its report."""
    show(folder, html=True, as_json=as_json)
    return 0


def show(folder: Path, *, html: bool, as_json: bool) -> None:
    """Print a results folder's figures and verdicts, and write its report."""
    # Imported late: plots need a large library, which commands that draw none should not wait for.
    from emulator.report import examined, judge, print_results, write_report, write_timeline

    results = read_results(folder)
    if html:
        page = write_report(results)
        write_timeline(results)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "records": [record.as_json() for record in results.records],
                "verdicts": [verdict.as_json() for verdict in examined(judge(results))],
                "expectations": [dict(entry) for entry in results.manifest.expectations],
                "warnings": list(results.manifest.warnings),
            }
        )
        return
    console = Output()
    print_results(results, console)
    if html:
        console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Print JSON on standard output."""
    say(json.dumps(data, indent=1) + "\n")
