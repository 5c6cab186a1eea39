"""Plots over time: how much of the busiest links is used, and how many packets wait in front of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes

from emulator.model.fabric import Fabric
from emulator.report.charts import MUTED, PALETTE, Chart, grid, styled, svg_of
from emulator.report.figures import percent, significant
from emulator.results.reader import CellResults
from emulator.results.side import Series

MOST_LINES = 5
MOST_PANELS = 12
MOST_POINTS = 600


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
            lambda values: f"up to {percent(max(values) / 100)}",
        ),
        _chart(
            sampled,
            "Queues over time",
            f"Packets that wait for the line at the same {MOST_LINES} interfaces (measured, backlog of the queueing "
            "discipline).",
            "packets waiting",
            _backlog,
            lambda values: f"up to {significant(max(values))} packets",
        ),
    ]


Points = tuple[list[float], list[float]]


def _chart(
    cells: Sequence[CellResults],
    title: str,
    caption: str,
    axis: str,
    points_of: Callable[[Series, int | None], Points],
    words_of: Callable[[Sequence[float]], str],
) -> Chart:
    words = []
    with styled():
        figure, axes = grid(len(cells), columns=2, height=2.7)
        for panel, cell in zip(axes, cells, strict=True):
            rates = _rates(cell.fabric)
            start = min(one.t_ns[0] for one in cell.side.series.values() if one.t_ns)
            for position, (name, series) in enumerate(_busiest(cell.side.series)):
                x, y = points_of(series, rates.get(name))
                if not y:
                    continue
                panel.plot(
                    [(t - start) / 1e6 for t in x],
                    y,
                    drawstyle="steps-post",
                    linewidth=1.2,
                    color=PALETTE[position % len(PALETTE)],
                    label=name,
                )
                words.append(f"{cell.info.variant}, {name}: {words_of(y)}")
            _finish(panel, cell.info.variant, axis)
        svg = svg_of(figure)
    return Chart(title, caption, f"{title}. " + "; ".join(words) + ".", svg)


def _finish(panel: Axes, title: str, axis: str) -> None:
    panel.set_title(title)
    panel.set_xlabel("ms of emulated time")
    panel.set_ylabel(axis)
    panel.set_ylim(bottom=0)
    if panel.lines:
        panel.legend(loc="upper right", ncols=1, labelcolor=MUTED, fontsize=7)


def _busiest(series: Mapping[str, Series]) -> list[tuple[str, Series]]:
    items = [(name, one) for name, one in series.items() if len(one.t_ns) > 1]
    items.sort(key=lambda item: (item[1].tx_bytes[0] - item[1].tx_bytes[-1], item[0]))
    return items[:MOST_LINES]


def _rates(fabric: Fabric | None) -> dict[str, int]:
    """Line rate in bit/s by interface."""
    links = fabric.links if fabric else ()
    return {end: link.spec.rate_bps for link in links for end in (link.a_interface, link.b_interface)}


def _utilization(series: Series, rate_bps: int | None) -> Points:
    if not rate_bps:
        return [], []
    t_ns, tx_bytes = _thinned(series.t_ns), _thinned(series.tx_bytes)
    x, y = [], []
    for (start, end), (before, after) in zip(pairwise(t_ns), pairwise(tx_bytes), strict=True):
        if end > start:
            x.append(float(start))
            y.append((after - before) * 8e9 / (end - start) / rate_bps * 100)
    return x, y


def _backlog(series: Series, _rate_bps: int | None) -> Points:
    # The largest backlog of each stretch is kept: a short queue must not vanish by thinning.
    stretch = max(1, -(-len(series.t_ns) // MOST_POINTS))
    starts = range(0, len(series.t_ns), stretch)
    return (
        [float(series.t_ns[start]) for start in starts],
        [float(max(series.backlog_packets[start : start + stretch])) for start in starts],
    )


def _thinned(values: Sequence[int]) -> Sequence[int]:
    """At most about `MOST_POINTS` of them; of counters, so that rates between those left are still exact means."""
    return values[:: max(1, -(-len(values) // MOST_POINTS))]
