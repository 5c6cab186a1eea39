"""Plots of latency distributions: for each value, the share of exchanges that took at least as long."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from emulator.report.charts import Chart, cell_style, grid, legend_below, plain_log_axis, styled, svg_of
from emulator.report.figures import scale_of, with_unit
from emulator.results.reader import CellResults
from emulator.results.side import Measured

MOST_CURVES = 12
MOST_PANELS = 6


def distribution_charts(cells: Sequence[CellResults]) -> list[Chart]:
    """One chart for each workload that left distributions; a panel for each of its metrics, a curve for each cell."""
    charts = []
    for workload in _workloads(cells):
        metrics = list(dict.fromkeys(m for cell in cells for m in cell.side.distributions.get(workload, {})))
        charts.append(_chart(workload, metrics[:MOST_PANELS], cells))
    return charts


def _workloads(cells: Sequence[CellResults]) -> list[str]:
    """Workloads with distributions, in the order in which they ran."""
    ran = [str(entry.get("name")) for cell in cells for entry in cell.info.workloads]
    left = [name for cell in cells for name in cell.side.distributions]
    return [name for name in dict.fromkeys([*ran, *left]) if name in left]


def _chart(workload: str, metrics: Sequence[str], cells: Sequence[CellResults]) -> Chart:
    with styled():
        figure, axes = grid(len(metrics), columns=2, height=2.9)
        words = []
        for panel, metric in zip(axes, metrics, strict=True):
            curves = [
                (cell, cell.side.distributions[workload][metric])
                for cell in cells
                if metric in cell.side.distributions.get(workload, {})
            ][:MOST_CURVES]
            _panel(panel, metric, curves, cells)
            words += [f"{metric} in {cell.info.variant}: {_range(measured)}" for cell, measured in curves]
        legend_below(figure, axes)
        svg = svg_of(figure)
    return Chart(
        title=workload,
        caption="Share of exchanges that took at least as long (measured). A steep curve is a steady latency; a tail "
        "to the right is jitter.",
        alt=f"Complementary distribution of {workload}. " + "; ".join(words) + ".",
        svg=svg,
    )


def _range(measured: Measured) -> str:
    sample, unit = measured.sample, measured.unit
    median, tail = (with_unit(sample.percentile(percent), unit) for percent in (50, 99))
    return f"median {median}, 99th percentile {tail}"


def _panel(
    panel: Axes, metric: str, curves: Sequence[tuple[CellResults, Measured]], cells: Sequence[CellResults]
) -> None:
    infos = [cell.info for cell in cells]
    largest = [measured.sample.maximum for _, measured in curves]
    smallest = [measured.sample.minimum for _, measured in curves]
    factor, unit = scale_of(largest, curves[0][1].unit)
    for cell, measured in curves:
        points = measured.ccdf()
        x = [value / factor for value, _ in points]
        y = [share for _, share in points]
        # Closing the curve downwards shows where the largest value is.
        panel.step(
            [*x, x[-1]], [*y, y[-1] / 1000], where="pre", label=cell.info.variant, **cell_style(cell.info, infos)
        )
    panel.set_title(metric)
    panel.set_yscale("log")
    panel.set_ylim(0.5 / max(measured.sample.size for _, measured in curves), 1.4)
    plain_log_axis(panel.yaxis, as_percent=True)
    if min(smallest) > 0 and max(largest) > 4 * min(smallest):
        panel.set_xscale("log")
        plain_log_axis(panel.xaxis)
    panel.set_xlabel(unit)
    panel.set_ylabel("at least this long")
