"""Faults and what they cost: a table for each cell, and probes lost over time with the moments of the faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from emulator.report.charts import DESIGN_COLOURS, FAULT_WORDS, INK, Chart, grid, mark_faults, styled, svg_of
from emulator.report.figures import figure, with_unit
from emulator.results.events import Events, FaultMark, ProbeSeries
from emulator.results.reader import CellResults, Results
from emulator.results.records import Record

MOST_PANELS = 12
_COLUMNS = ("lost", "pairs_hit", "recovery_p50", "recovery_max", "unrecovered")


@dataclass(frozen=True)
class FaultRow:
    """One fault.

    Attributes:
        at: When, counted from the start of its workload.
        title: What was done.
        repairs: Whether it made something whole again.
        figures: Packets lost, pairs that lost some, time to recover (median and longest), pairs that did not recover;
            empty texts where there is no figure.
    """

    at: str
    title: str
    repairs: bool
    figures: tuple[str, ...]


@dataclass(frozen=True)
class FaultTable:
    """What faults cost one probe workload of one variant."""

    variant: str
    workload: str
    rows: tuple[FaultRow, ...]


def fault_tables(results: Results) -> list[FaultTable]:
    """A table for each cell and probe workload that faults struck."""
    tables = []
    for cell in results.cells:
        records = results.by_variant.get(cell.info.variant, [])
        for name, start_ns, marks in _struck(cell.side.events):
            found = {record.metric: record for record in records if record.workload == name}
            if "lost_fault0" in found:
                rows = tuple(_row(mark, start_ns, found) for mark in marks if f"lost_fault{mark.number}" in found)
                tables.append(FaultTable(cell.info.variant, name, rows))
    return tables


def _row(mark: FaultMark, start_ns: int, found: dict[str, Record]) -> FaultRow:
    texts = []
    for column in _COLUMNS:
        record = found.get(f"{column}_fault{mark.number}")
        texts.append(figure(record) if record else "")
    return FaultRow(with_unit(mark.at_ns - start_ns, "ns"), mark.title, mark.repairs, tuple(texts))


def _struck(events: Events) -> Iterator[tuple[str, int, list[FaultMark]]]:
    """Workloads during which faults struck, with their start."""
    starts = {span.name: span.start_ns for span in events.workloads}
    for span in events.workloads:
        # Workloads that start together share their faults.
        marks = [mark for mark in events.faults if starts.get(mark.during) == span.start_ns]
        if marks:
            yield span.name, span.start_ns, marks


def fault_charts(cells: Sequence[CellResults]) -> list[Chart]:
    """Probes lost over time, a panel for each cell and probe workload that faults struck; empty if there is none."""
    panels = [
        (cell, name, cell.side.events.probes[name], marks)
        for cell in cells
        for name, _start_ns, marks in _struck(cell.side.events)
        if name in cell.side.events.probes
    ][:MOST_PANELS]
    if not panels:
        return []
    words = []
    with styled():
        drawing, axes = grid(len(panels), columns=2, height=2.7)
        for panel, (cell, name, series, marks) in zip(axes, panels, strict=True):
            _draw(panel, series, marks, DESIGN_COLOURS.get(cell.info.design, INK))
            panel.set_title(f"{cell.info.variant}: {name}")
            words.append(f"{cell.info.variant}, {name}: {sum(series.lost)} of {sum(series.sent)} packets lost")
        svg = svg_of(drawing)
    caption = f"Share of the probes sent at each time that were lost (measured). {FAULT_WORDS}"
    return [Chart("Probes lost over time", caption, f"Probes lost over time. {'; '.join(words)}.", svg)]


def _draw(panel: Axes, series: ProbeSeries, marks: Sequence[FaultMark], colour: str) -> None:
    times = [index * series.bin_ns / 1e6 for index in range(len(series.sent) + 1)]
    shares = [100 * lost / sent if sent else 0.0 for sent, lost in zip(series.sent, series.lost, strict=True)]
    mark_faults(panel, [((mark.at_ns - series.start_ns) / 1e6, mark) for mark in marks])
    panel.stairs(shares, times, color=colour, linewidth=1.2, fill=False)
    panel.set_xlim(0, times[-1])
    panel.set_ylim(bottom=0)
    panel.set_xlabel("ms since the start")
    panel.set_ylabel("lost, %")
