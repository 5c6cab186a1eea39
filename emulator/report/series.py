"""Plots over time: how much of the busiest links is used, and how many packets wait in front of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes

from emulator.model.fabric import Fabric
from emulator.report.charts import FAULT_WORDS, MUTED, PALETTE, Chart, grid, mark_faults, styled, svg_of
from emulator.report.figures import percent, significant
from emulator.report.spans import Spans, busy_spans
from emulator.results.events import FaultMark
from emulator.results.reader import CellResults
from emulator.results.side import Series

MOST_LINES = 5
MOST_PANELS = 12
MOST_POINTS = 600
"""Of one line of a plot."""

Line = list[tuple[int, float]]
"""Points of a line: time in ns, and the value from then on."""


def series_charts(cells: Sequence[CellResults]) -> list[Chart]:
    """Utilization and queue over time, a panel for each cell that recorded series; empty if none did."""
    sampled = [cell for cell in cells if any(len(one.t_ns) > 1 for one in cell.side.series.values())][:MOST_PANELS]
    if not sampled:
        return []
    return [
        _chart(
            sampled,
            "Utilization over time",
            f"Bytes sent per interval as a share of the line rate, of each cell's {MOST_LINES} busiest interfaces "
            "(measured, counters of the kernel).",
            "used, %",
            _utilization,
            lambda peak: f"up to {percent(peak / 100)}",
        ),
        _chart(
            sampled,
            "Queues over time",
            f"Packets that wait for the line at the same {MOST_LINES} interfaces (measured, backlog of the queueing "
            "discipline).",
            "packets waiting",
            _backlog,
            lambda peak: f"up to {significant(peak)} packets",
        ),
    ]


def _chart(
    cells: Sequence[CellResults],
    title: str,
    caption: str,
    axis: str,
    line_of: Callable[[Series, int], Line],
    words_of: Callable[[float], str],
) -> Chart:
    words = []
    with styled():
        figure, axes = grid(len(cells), columns=2, height=2.7)
        for panel, cell in zip(axes, cells, strict=True):
            rates = _rates(cell.fabric)
            spans = busy_spans(cell.side.series, rates)
            for position, (name, series) in enumerate(_busiest(cell.side.series, rates)):
                line = line_of(series, rates[name])
                colour = PALETTE[position % len(PALETTE)]
                _draw(panel, line, spans, colour, name)
                words.append(f"{cell.info.variant}, {name}: {words_of(max(value for _, value in line))}")
            for seam_ns in spans.seams_ns:
                panel.axvline(seam_ns / 1e6, color=MUTED, linewidth=0.8, linestyle=":")
            mark_faults(panel, _marks(cell, spans))
            _finish(panel, cell.info.variant, axis)
        svg = svg_of(figure)
    caption += " Idle stretches are cut out at the dotted lines."
    if any(cell.side.events.faults for cell in cells):
        caption += f" {FAULT_WORDS}"
    return Chart(title, caption, f"{title}. " + "; ".join(words) + ".", svg)


def _marks(cell: CellResults, spans: Spans) -> list[tuple[float, FaultMark]]:
    """Where a cell's faults lie on the axis, in ms; those in idle times are left out."""
    placed = ((spans.find_ns(mark.at_ns), mark) for mark in cell.side.events.faults)
    return [(place_ns / 1e6, mark) for place_ns, mark in placed if place_ns is not None]


def _draw(panel: Axes, line: Line, spans: Spans, colour: str, name: str) -> None:
    label: str | None = name
    for index, (start, end) in enumerate(spans.stretches):
        points = [(spans.place_ns(t, index), value) for t, value in line if start <= t <= end]
        if points:
            x, y = [t / 1e6 for t, _ in points], [value for _, value in points]
            panel.plot(x, y, drawstyle="steps-post", linewidth=1.2, color=colour, label=label)
            label = None


def _finish(panel: Axes, title: str, axis: str) -> None:
    panel.set_title(title)
    panel.set_xlabel("ms of busy emulated time")
    panel.set_ylabel(axis)
    panel.set_ylim(bottom=0)
    if panel.lines:
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), labelcolor=MUTED, fontsize=7)


def _busiest(series: Mapping[str, Series], rates: Mapping[str, int]) -> list[tuple[str, Series]]:
    items = [(name, one) for name, one in series.items() if len(one.t_ns) > 1 and name in rates]
    items.sort(key=lambda item: (item[1].tx_bytes[0] - item[1].tx_bytes[-1], item[0]))
    return items[:MOST_LINES]


def _rates(fabric: Fabric | None) -> dict[str, int]:
    """Line rate in bit/s by interface."""
    links = fabric.links if fabric else ()
    return {end: link.spec.rate_bps for link in links for end in (link.a_interface, link.b_interface)}


def _utilization(series: Series, rate_bps: int) -> Line:
    # Every n-th reading of a counter: rates between those that are left are still exact means.
    stretch = _stretch(series)
    t_ns, tx_bytes = series.t_ns[::stretch], series.tx_bytes[::stretch]
    return [
        (start, (after - before) * 8e9 / (end - start) / rate_bps * 100)
        for (start, end), (before, after) in zip(pairwise(t_ns), pairwise(tx_bytes), strict=True)
        if end > start
    ] or [(t_ns[0], 0.0)]


def _backlog(series: Series, _rate_bps: int) -> Line:
    # The largest backlog of each stretch is kept: a short queue must not vanish by thinning.
    stretch = _stretch(series)
    return [
        (series.t_ns[start], float(max(series.backlog_packets[start : start + stretch])))
        for start in range(0, len(series.t_ns), stretch)
    ]


def _stretch(series: Series) -> int:
    return max(1, len(series.t_ns) // MOST_POINTS)
