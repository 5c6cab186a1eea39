"""Reading a results folder back, checked: what is wrong is named with file and record, line or key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from emulator.errors import ScenarioError, TopologyError
from emulator.model.codec import fabric_from_json
from emulator.model.fabric import Fabric
from emulator.results.canonical import parse_json, parse_records
from emulator.results.events import EVENTS_FILE, PROBE_SERIES, Events, events_from_json, probe_series_from_json
from emulator.results.folder import CELLS, MANIFEST_FILE, RESULTS_FILE
from emulator.results.manifest import CellInfo, Manifest
from emulator.results.records import Record
from emulator.results.side import (
    COUNTERS_FILE,
    DISTRIBUTIONS_FILE,
    SERIES_FILE,
    WORKLOAD_DISTRIBUTIONS,
    Measured,
    Side,
    counters_from_json,
    distributions_from_json,
    series_from_json,
    workload_distributions_from_json,
)

FABRIC_FILE = "fabric.json"

_T = TypeVar("_T")


@dataclass(frozen=True)
class CellResults:
    """What one cell left; parts that it did not record are None or empty.

    Attributes:
        index: Its number from 0.
        info: From the manifest.
        fabric: What was built.
        side: Series, distributions, counters, and what happened when.
    """

    index: int
    info: CellInfo
    fabric: Fabric | None
    side: Side


@dataclass(frozen=True)
class Results:
    """A results folder.

    Attributes:
        path: Where it is.
        manifest: Conditions of the run.
        records: All figures.
        cells: In order.
    """

    path: Path
    manifest: Manifest
    records: tuple[Record, ...]
    cells: tuple[CellResults, ...]

    @cached_property
    def by_variant(self) -> dict[str, list[Record]]:
        """Records by variant, variants in the order of the cells."""
        result: dict[str, list[Record]] = {cell.info.variant: [] for cell in self.cells}
        for record in self.records:
            result.setdefault(record.variant, []).append(record)
        return result


def read_results(folder: str | Path) -> Results:
    """Read a results folder.

    Raises:
        ScenarioError: It is not a results folder, or one of its files is not as it should be.
    """
    path = Path(folder)
    manifest_file = path / MANIFEST_FILE
    if not manifest_file.is_file():
        raise ScenarioError(f"is not a results folder: there is no {MANIFEST_FILE}", file=str(folder))
    manifest = Manifest.from_json(_json(manifest_file), str(manifest_file))
    results_file = path / RESULTS_FILE
    records = parse_records(_text(results_file), str(results_file))
    cells = tuple(_cell(path / CELLS / str(index), index, info) for index, info in enumerate(manifest.cells))
    return Results(path, manifest, tuple(records), cells)


def _cell(folder: Path, index: int, info: CellInfo) -> CellResults:
    side = Side(
        series=_optional(folder / SERIES_FILE, series_from_json, {}),
        distributions=_distributions(folder),
        counters=_optional(folder / COUNTERS_FILE, counters_from_json, None),
        events=_events(folder),
    )
    return CellResults(index, info, _optional(folder / FABRIC_FILE, _fabric, None), side)


def _events(folder: Path) -> Events:
    probes = dict(probe_series_from_json(_json(path), str(path)) for path in sorted(folder.glob(PROBE_SERIES)))
    return replace(_optional(folder / EVENTS_FILE, events_from_json, Events()), probes=probes)


def _distributions(folder: Path) -> dict[str, dict[str, Measured]]:
    found: dict[str, dict[str, Measured]] = _optional(folder / DISTRIBUTIONS_FILE, distributions_from_json, {})
    for path in sorted(folder.glob(WORKLOAD_DISTRIBUTIONS)):
        found.update(workload_distributions_from_json(_json(path), str(path)))
    return found


def _fabric(data: Any, file: str) -> Fabric | None:
    if not isinstance(data, dict):
        raise ScenarioError("a JSON object is expected", file=file)
    try:
        return fabric_from_json(data)
    except TopologyError as error:
        raise ScenarioError(error.reason, file=file, key=error.key) from None


def _optional(path: Path, read: Callable[[Any, str], _T], otherwise: _T) -> _T:
    return read(_json(path), str(path)) if path.is_file() else otherwise


def _json(path: Path) -> Any:
    return parse_json(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError("is not UTF-8 text", file=str(path)) from None
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
