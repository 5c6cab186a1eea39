"""``icgw collective``: one collective on one topology, asked for and answered in the words of nccl-tests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from emulator.collectives import Collective
from emulator.collectives.nccl_format import Line, Timing, footer, header, row
from emulator.errors import ScenarioError, UnitError
from emulator.experiment.commands import engine_of, print_json
from emulator.experiment.console import ConsoleObserver, say
from emulator.experiment.prepare import prepare_all
from emulator.experiment.run import run
from emulator.results import default_folder
from emulator.scenario import Scenario, load, loads
from emulator.scenario.source import read_source
from emulator.units import format_rate, format_size, parse_size

NAME = "collective"
_WORKLOAD = "run"
_SHORT_SIZE = re.compile(r"([0-9]+)([KMGT]?)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Request:
    """What is asked for on the command line.

    Attributes:
        topology: Such as ``torus3d,x=4,y=4,z=4``; None: that of the scenario.
        scenario: A file whose topology is taken; None: see *topology*.
        settings: Keys and values of the workload as they would stand in a scenario.
        memory: Of the emulated machine, text with its unit.
        wall: Real time that the run may take, text with its unit.
    """

    topology: str | None
    scenario: Path | None
    settings: Mapping[str, Any]
    memory: str
    wall: str


def size_text(text: str) -> str:
    """A size as nccl-tests take it, such as ``128M``, or with a unit, as text with a unit.

    Raises:
        ScenarioError: It is neither.
    """
    short = _SHORT_SIZE.fullmatch(text.strip().upper())
    if short:
        return f"{int(short[1]) << 10 * ' KMGT'.index(short[2] or ' ')} B"
    try:
        return f"{parse_size(text)} B"
    except UnitError as error:
        raise ScenarioError(f"{error.reason}, or like 128M", key="size") from None


def scenario_of(request: Request) -> Scenario:
    """The scenario that answers a request.

    Raises:
        ScenarioError: A value in it is wrong.
    """
    document: dict[str, Any] = {
        "scenario": NAME,
        "question": "How long does a collective take here?",
        "topology": _topology(request),
        "workloads": [{"name": _WORKLOAD, "kind": "collective", **request.settings}],
        "limits": {"virtual": "600 s", "wall": request.wall, "memory": request.memory},
    }
    return loads(yaml.safe_dump(document, sort_keys=False), "command line")


def _topology(request: Request) -> dict[str, Any]:
    if request.scenario is not None:
        load(request.scenario)
        return dict(read_source(request.scenario).data["topology"])
    kind, *parameters = (request.topology or "").split(",")
    found = {"kind": kind}
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        if not equals:
            raise ScenarioError(f"{parameter!r} is no parameter: write it like x=4", key="--topo")
        if key.strip() in found:
            raise ScenarioError(f"{key.strip()!r} is given twice", key="--topo")
        found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def run_collective(
    request: Request, *, out: Path | None, engine: str, quiet: bool, command: Sequence[str], as_json: bool
) -> int:
    """Run a collective and print its figures; returns how many numbers were wrong.

    Raises:
        EmulatorError: Something failed.
    """
    scenario = scenario_of(request)
    cells = prepare_all(scenario)
    folder = out if out is not None else default_folder(NAME)
    runner, kernel = engine_of(engine)
    with ConsoleObserver(quiet=quiet) as observer:
        run(scenario, cells, engine=runner, folder=folder, observer=observer, command=command, kernel=kernel)
    found = json.loads((folder / "cells" / "0" / f"collective-{_WORKLOAD}.json").read_text(encoding="utf-8"))
    if as_json:
        print_json({**found["nccl"], "icgw": {key: value for key, value in found.items() if key != "nccl"}})
    else:
        say(_as_text(found, cells[0].fabric.parameters))
    return sum(one["wrong"] for one in found["sizes"])


def _as_text(found: Mapping[str, Any], parameters: Mapping[str, object]) -> str:
    sizes, asked = found["sizes"], found["settings"]
    kind, ranks = Collective(found["collective"]), len(found["ranks"])
    lines = [
        Line(
            kind,
            ranks,
            one["size_bytes"],
            out_of_place=Timing(one["time_ns"], one["wrong"]),
            item_bytes=asked["item_bytes"],
            type_name=asked["datatype"],
            reduced_by=asked["operation"],
            root=one["root"],
        )
        for one in sizes
    ]
    words = " ".join(f"{key} {value}" for key, value in parameters.items())
    top = [
        f"# ranks {ranks} minBytes {sizes[0]['size_bytes']} maxBytes {sizes[-1]['size_bytes']} "
        f"step: {asked['factor']}(factor) warmup iters: {asked['warm_up']} iters: {asked['iterations']} "
        "agg iters: 1 validation: 1 graph: 0",
        f"# {found['topology']}: {words}",
        f"# TCP {asked['congestion']}, buffers {format_size(asked['buffer_bytes'])}; cards add up "
        + (f"{format_rate(asked['reduce_bps'])} (modelled)" if asked["reduce_bps"] else "in no time"),
    ]
    below = ["#", "# size (B)  algorithm             time (us)   predicted (us)    error   least (us)"]
    for one in sizes:
        least = f"{one['bound_ns'] / 1000:11.2f}" if one["bound_ns"] else "          -"
        below.append(
            f"#{one['size_bytes']:10d}  {one['algorithm']:<20s} {one['time_ns'] / 1000:10.2f} "
            f"{one['predicted_ns'] / 1000:16.2f} {one['predicted_ns'] / one['time_ns'] - 1:+8.1%} {least}"
        )
    for one in found["foretold"]:
        below.append(
            f"#{one['size_bytes']:10d}  {one['algorithm']:<20s} {'-':>10s} {one['predicted_ns'] / 1000:16.2f} "
            f"{'-':>8s} {'-':>11s}"
        )
    return "\n".join(top) + "\n" + header() + "".join(map(row, lines)) + footer(lines) + "\n".join(below) + "\n"
