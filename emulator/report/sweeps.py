"""Plots of figures against what was varied: the axes of a scenario's matrix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from emulator.report.charts import INK, PALETTE, STYLES, Chart, grid, legend_below, plain_log_axis, styled, svg_of
from emulator.report.comparison import workloads_of
from emulator.report.figures import scale_of
from emulator.results.manifest import CellInfo
from emulator.results.reader import Results
from emulator.results.records import Kind

_HEADLINES = ("rtt_mean", "goodput", "mean_wait", "jain_index", "utilization", "useful_share", "bandwidth", "duration")
"""Metrics worth a plot, in the order in which plots are shown; any other with a theory record beside it follows."""

_LEADING_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MOST_PANELS = 6


def axes_of(info: CellInfo) -> dict[str, str]:
    """What a variant's name says about the matrix: ``rate=25 Gbit/s,hops=3`` as a mapping, in order."""
    parts = [part.partition("=") for part in info.variant.split(",") if "=" in part]
    return {name: value for name, _, value in parts}


@dataclass(frozen=True)
class _Sweep:
    """One figure over one axis: for each series of variants the points, with the theory beside them."""

    workload: str
    metric: str
    unit: str
    axis: str
    ticks: tuple[str, ...]
    measured: Mapping[str, Sequence[tuple[int, float]]]
    theory: Mapping[str, Sequence[tuple[int, float]]]

    def differences(self) -> dict[str, list[tuple[int, float]]]:
        """Measured less theory in per cent of theory, for each series and point that has both."""
        found: dict[str, list[tuple[int, float]]] = {}
        for series, points in self.measured.items():
            foretold = dict(self.theory.get(series, ()))
            both = [(x, (y / foretold[x] - 1) * 100) for x, y in points if foretold.get(x)]
            if both:
                found[series] = both
        return found


def sweep_charts(results: Results) -> list[Chart]:
    """One chart for each workload whose figures were taken over a matrix; empty without one."""
    sweeps = _matrix_sweeps(results)
    charts = []
    found = {sweep.workload for sweep in sweeps}
    for workload in [name for name in workloads_of(results) if name in found]:
        charts.append(_chart(workload, [sweep for sweep in sweeps if sweep.workload == workload][:_MOST_PANELS]))
    return charts


def _matrix_sweeps(results: Results) -> list[_Sweep]:
    infos = [cell.info for cell in results.cells]
    names = list(dict.fromkeys(name for info in infos for name in axes_of(info)))
    if not names:
        return []
    values = {
        name: list(dict.fromkeys(axes_of(info)[name] for info in infos if name in axes_of(info))) for name in names
    }
    axis = _axis_to_draw(values)
    sweeps = []
    for workload, metric in _worth_drawing(results):
        records = [r for r in results.records if (r.workload, r.metric) == (workload, metric)]
        lines: dict[Kind, dict[str, list[tuple[int, float]]]] = {Kind.MEASURED: {}, Kind.THEORY: {}}
        for info in infos:
            place = axes_of(info)
            if axis not in place:
                continue
            series = ", ".join(f"{name} {value}" for name, value in place.items() if name != axis) or "measured"
            if len({(one.design, one.profile) for one in infos}) > 1:
                series = f"{info.design}/{info.profile}" + ("" if series == "measured" else f", {series}")
            for kind, found in lines.items():
                record = next((r for r in records if r.variant == info.variant and r.kind is kind), None)
                if record is not None:
                    found.setdefault(series, []).append((values[axis].index(place[axis]), record.value))
        if any(len(points) > 1 for points in lines[Kind.MEASURED].values()):
            sweeps.append(
                _Sweep(
                    workload,
                    metric,
                    records[0].unit,
                    axis,
                    tuple(values[axis]),
                    lines[Kind.MEASURED],
                    lines[Kind.THEORY],
                )
            )
    return sweeps


def _axis_to_draw(values: Mapping[str, Sequence[str]]) -> str:
    """The last axis with numbers and more than one value, else the last with more than one, else the last."""
    several = [name for name, options in values.items() if len(options) > 1] or list(values)
    numeric = [name for name in several if all(_LEADING_NUMBER.match(option) for option in values[name])]
    return (numeric or several)[-1]


def _worth_drawing(results: Results) -> list[tuple[str, str]]:
    measured = {(r.workload, r.metric) for r in results.records if r.kind is Kind.MEASURED}
    foretold = {(r.workload, r.metric) for r in results.records if r.kind is Kind.THEORY}
    chosen = [key for key in measured if key[1] in _HEADLINES]
    if not chosen:
        chosen = sorted(measured & foretold)
    rank = {name: position for position, name in enumerate(_HEADLINES)}
    return sorted(chosen, key=lambda key: (key[0], rank.get(key[1], len(rank)), key[1]))


def _chart(workload: str, sweeps: Sequence[_Sweep]) -> Chart:
    with styled():
        compared = [sweep for sweep in sweeps if sweep.differences()]
        figure_, panels = grid(len(sweeps) + len(compared), columns=2, height=3.0)
        for sweep in sweeps:
            _panel(panels.pop(0), sweep)
            if sweep in compared:
                _difference_panel(panels.pop(0), sweep)
        legend_below(figure_, figure_.axes)
        svg = svg_of(figure_)
    metrics = ", ".join(sweep.metric for sweep in sweeps)
    foretold = any(sweep.theory for sweep in sweeps)
    theory = ", hollow markers on thin lines are theory; beside them, how far the two are apart" if foretold else ""
    return Chart(
        title=f"{workload} over {sweeps[0].axis}",
        caption=f"Filled markers are measured{theory}.",
        alt=f"{metrics} of {workload} over {sweeps[0].axis}; the figures stand in the tables below.",
        svg=svg,
    )


def _panel(panel: Axes, sweep: _Sweep) -> None:
    everything = [value for points in (*sweep.measured.values(), *sweep.theory.values()) for _, value in points]
    factor, unit = scale_of(everything, sweep.unit)
    for position, (series, points) in enumerate(sweep.measured.items()):
        colour = PALETTE[position % len(PALETTE)]
        foretold = sweep.theory.get(series, ())
        if foretold:
            panel.plot(
                [x for x, _ in foretold], [y / factor for _, y in foretold], color=colour, linewidth=0.8, marker="o",
                markersize=8, markerfacecolor="none", markeredgewidth=0.8,
            )  # fmt: skip
        panel.plot(
            [x for x, _ in points], [y / factor for _, y in points], color=colour, marker="o", markersize=4,
            linestyle="none" if foretold else STYLES[position // len(PALETTE) % len(STYLES)], label=series,
        )  # fmt: skip
    panel.set_title(sweep.metric)
    panel.set_ylabel(unit)
    _x_axis(panel, sweep)
    smallest, largest = min(everything), max(everything)
    if smallest > 0 and largest > 8 * smallest:
        panel.set_yscale("log")
        plain_log_axis(panel.yaxis)
    else:
        panel.set_ylim(bottom=0, top=largest / factor * 1.12 or 1)


def _difference_panel(panel: Axes, sweep: _Sweep) -> None:
    order = list(sweep.measured)
    for series, points in sweep.differences().items():
        colour = PALETTE[order.index(series) % len(PALETTE)]
        panel.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=4, linewidth=0.8)
    panel.axhline(0, color=INK, linewidth=0.8)
    panel.set_title(f"{sweep.metric}: measured less theory")
    panel.set_ylabel("% of theory")
    panel.margins(y=0.25)
    _x_axis(panel, sweep)


def _x_axis(panel: Axes, sweep: _Sweep) -> None:
    panel.set_xticks(range(len(sweep.ticks)), sweep.ticks)
    panel.set_xlabel(sweep.axis)
    panel.margins(x=0.12)
