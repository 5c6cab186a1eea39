"""Plots of a storage workload over its queue depths: latency and bandwidth as more commands are in flight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from emulator.report.charts import Chart, cell_style, grid, legend_below, plain_log_axis, styled, svg_of
from emulator.report.figures import scale_of, with_unit
from emulator.results.manifest import CellInfo
from emulator.results.reader import Results
from emulator.results.records import Kind

_METRICS = ("latency_mean", "latency_p99", "bandwidth")
_AT_DEPTH = re.compile(r"(?P<metric>latency_mean|latency_p99|bandwidth)_qd(?P<depth>\d+)")


@dataclass(frozen=True)
class _Point:
    variant: str
    metric: str
    depth: int
    value: float
    unit: str


def depth_charts(results: Results) -> list[Chart]:
    """One chart for each storage workload that ran at several queue depths."""
    charts = []
    by_workload: dict[str, list[_Point]] = {}
    for record in results.records:
        match = _AT_DEPTH.fullmatch(record.metric)
        if match and record.kind is Kind.MEASURED:
            point = _Point(record.variant, match["metric"], int(match["depth"]), record.value, record.unit)
            by_workload.setdefault(record.workload, []).append(point)
    infos = [cell.info for cell in results.cells]
    for workload, points in by_workload.items():
        if len({point.depth for point in points}) > 1:
            charts.append(_chart(workload, points, infos))
    return charts


def _chart(workload: str, points: Sequence[_Point], infos: Sequence[CellInfo]) -> Chart:
    metrics = [metric for metric in _METRICS if any(point.metric == metric for point in points)]
    with styled():
        figure, panels = grid(len(metrics), columns=3, height=3.1)
        for panel, metric in zip(panels, metrics, strict=True):
            _panel(panel, metric, [point for point in points if point.metric == metric], infos)
        legend_below(figure, panels)
        svg = svg_of(figure)
    words = [f"{p.variant}: {p.metric} at depth {p.depth} {with_unit(p.value, p.unit)}" for p in points]
    return Chart(
        title=f"{workload} over queue depth",
        caption="Latency and bandwidth as more commands are in flight (measured).",
        alt="; ".join(words) + ".",
        svg=svg,
    )


def _panel(panel: Axes, metric: str, points: Sequence[_Point], infos: Sequence[CellInfo]) -> None:
    factor, unit = scale_of([point.value for point in points], points[0].unit)
    for info in infos:
        mine = sorted((point.depth, point.value / factor) for point in points if point.variant == info.variant)
        if mine:
            x, y = zip(*mine, strict=True)
            panel.plot(x, y, marker="o", markersize=4, label=info.variant, **cell_style(info, infos))
    depths = sorted({point.depth for point in points})
    panel.set_title(metric)
    panel.set_xscale("log", base=2)
    panel.set_xticks(depths, [str(depth) for depth in depths])
    panel.minorticks_off()
    if min(point.value for point in points) > 0:
        panel.set_yscale("log")
        plain_log_axis(panel.yaxis)
    panel.set_xlabel("queue depth")
    panel.set_ylabel(unit)
