"""What `compare` wrote to files, read again: several runs, each perhaps short, make up one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator.errors import ScenarioError
from tests.bench.dataplane.connections import Delays, Stream
from tests.bench.dataplane.modes import MODES
from tests.bench.dataplane.rates import SIZES, Rate, Rates
from tests.bench.dataplane.results import Measured, Results


def read_results(paths: Sequence[Path]) -> Results:
    """The rounds of all files as if they were of one run.

    Raises:
        ScenarioError: A file cannot be read, is none of `compare`'s, or was measured differently than the first.
    """
    whole: Results | None = None
    for path in paths:
        one = _read(path)
        if whole is None:
            whole = one
        elif (one.seconds, one.machine) != (whole.seconds, whole.machine):
            raise ScenarioError(f"not measured on the same machine and as long as {paths[0]}", file=str(path))
        else:
            _add(whole, one)
    if whole is None:
        raise ScenarioError("no file is named")
    return whole


def _read(path: Path) -> Results:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(error.strerror or str(error), file=str(path)) from None
    except ValueError as error:
        raise ScenarioError(f"is no JSON: {error}", file=str(path)) from None
    try:
        return Results(
            data["rounds"],
            data["seconds"],
            {name: _measured(data["modes"][name]) for name in MODES if name in data["modes"]},
            _measured(data["direct"]),
            {size: list(map(float, data["alone"][str(size)])) for size in SIZES if str(size) in data["alone"]},
            list(map(float, data["load"])),
            dict(data["machine"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ScenarioError(f"is no file of compare's: {type(error).__name__} {error}", file=str(path)) from None


def _measured(data: dict[str, Any]) -> Measured:
    return Measured(
        {
            size: [Rates(Rate(**one["best"]), Rate(**one["flooded"])) for one in data["rates"][str(size)]]
            for size in SIZES
            if str(size) in data["rates"]
        },
        [Delays(**one) for one in data["delays"]],
        [Stream(**one) for one in data["streams"]],
        list(data["failures"]),
    )


def _add(whole: Results, more: Results) -> None:
    whole.rounds += more.rounds
    whole.load += more.load
    for size, rates in more.alone.items():
        whole.alone.setdefault(size, []).extend(rates)
    for name, one in [("", more.direct), *more.modes.items()]:
        into = whole.modes.setdefault(name, Measured()) if name else whole.direct
        for size, found in one.rates.items():
            into.rates.setdefault(size, []).extend(found)
        into.delays += one.delays
        into.streams += one.streams
        into.failures += one.failures
