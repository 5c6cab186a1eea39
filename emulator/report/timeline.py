"""A run as a timeline for Perfetto and other viewers of trace events: workloads, faults and links of every cell.

The format is the JSON one of trace events, as Chrome introduced it and https://ui.perfetto.dev opens it. Times are in
microseconds of emulated time; a cell is a process, so all cells can be seen one under the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from emulator.model.fabric import Fabric
from emulator.results.folder import write_text
from emulator.results.reader import CellResults, Results
from emulator.results.side import Series

TIMELINE_FILE = "timeline.json"
MOST_POINTS = 250
"""Of one interface."""

_WORKLOADS, _FAULTS = 1, 2


def write_timeline(results: Results) -> Path:
    """Write ``timeline.json`` into the results folder and return its path.

    Raises:
        HostError: It cannot be written.
    """
    path = results.path / TIMELINE_FILE
    write_text(path, json.dumps(timeline(results), separators=(",", ":")) + "\n")
    return path


def timeline(results: Results) -> dict[str, Any]:
    """The run as trace events."""
    events = [event for cell in results.cells for event in _cell(cell)]
    return {"displayTimeUnit": "ns", "otherData": {"scenario": results.manifest.scenario}, "traceEvents": events}


def _cell(cell: CellResults) -> Iterator[dict[str, Any]]:
    process = cell.index + 1
    yield _named("process_name", process, 0, cell.info.variant)
    yield _named("thread_name", process, _WORKLOADS, "workloads")
    for number, span in enumerate(cell.side.events.workloads):
        # Slices of one thread may not overlap; those of asynchronous events may.
        common = {"cat": "workload", "name": span.name, "pid": process, "tid": _WORKLOADS, "id": f"{process}.{number}"}
        yield {**common, "ph": "b", "ts": span.start_ns / 1000}
        yield {**common, "ph": "e", "ts": span.end_ns / 1000}
    if cell.side.events.faults:
        yield _named("thread_name", process, _FAULTS, "faults")
    for mark in cell.side.events.faults:
        yield {
            "ph": "i", "s": "p", "cat": "repair" if mark.repairs else "fault", "name": mark.title, "pid": process,
            "tid": _FAULTS, "ts": mark.at_ns / 1000,
            "args": {"during": mark.during, "number": mark.number, "done_after_ns": mark.done_ns - mark.at_ns},
        }  # fmt: skip
    rates = _rates(cell.fabric)
    for name, series in cell.side.series.items():
        yield from _counters(process, name, series, rates.get(name))
    for name, probes in cell.side.events.probes.items():
        for index, lost in enumerate(probes.lost):
            if index == 0 or lost != probes.lost[index - 1]:
                ts = (probes.start_ns + index * probes.bin_ns) / 1000
                yield _counter(process, f"{name}: lost", ts, "packets", lost)


def _counters(process: int, name: str, series: Series, rate_bps: int | None) -> Iterator[dict[str, Any]]:
    if len(series.t_ns) < 2 or series.tx_bytes[-1] == series.tx_bytes[0]:
        return
    stretch = -(-len(series.t_ns) // MOST_POINTS)
    if rate_bps:
        points = list(zip(series.t_ns[::stretch], series.tx_bytes[::stretch], strict=True))
        for (start, before), (end, after) in pairwise(points):
            if end > start:
                share = (after - before) * 8e9 / (end - start) / rate_bps * 100
                yield _counter(process, f"{name}: used", start / 1000, "%", round(share, 3))
    for start in range(0, len(series.t_ns), stretch):
        waiting = max(series.backlog_packets[start : start + stretch])
        yield _counter(process, f"{name}: waiting", series.t_ns[start] / 1000, "packets", waiting)


def _counter(process: int, name: str, ts: float, unit: str, value: float) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": process, "ts": ts, "args": {unit: value}}


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _rates(fabric: Fabric | None) -> dict[str, int]:
    links = fabric.links if fabric else ()
    return {end: link.spec.rate_bps for link in links for end in (link.a_interface, link.b_interface)}
