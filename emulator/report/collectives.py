"""Plots of collectives: bandwidth over size beside the model's, and what each link of a torus carried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.errors import UnitError
from emulator.report.charts import MUTED, PALETTE, Chart, grid, legend_below, plain_log_axis, styled, svg_of
from emulator.report.figures import scale_of, with_unit
from emulator.results.reader import CellResults, Results
from emulator.results.records import Kind, Record
from emulator.units import format_size, parse_size

_TIME = re.compile(r"time_(\d+[A-Za-z]+)")
_CARD = re.compile(r"c(\d+)_(\d+)_(\d+)")
_MOST_MAPS = 4
_DIRECTIONS = tuple((dimension, sign) for dimension in range(3) for sign in (1, -1))


@dataclass(frozen=True)
class Times:
    """How long a collective took, by size in bytes, in ns.

    Attributes:
        measured: What was measured.
        foretold: What the model says, of the same sizes and of larger ones.
    """

    measured: Mapping[int, float]
    foretold: Mapping[int, float]


def times_of(records: Iterable[Record]) -> Times:
    """Find the times of one workload's sizes among its records."""
    found: dict[Kind, dict[int, float]] = {Kind.MEASURED: {}, Kind.THEORY: {}}
    for record in records:
        match = _TIME.fullmatch(record.metric)
        if match and record.kind in found and record.value > 0:
            found[record.kind][_bytes(match[1])] = float(record.value)
    return Times(dict(sorted(found[Kind.MEASURED].items())), dict(sorted(found[Kind.THEORY].items())))


def _bytes(word: str) -> int:
    try:
        return parse_size(re.sub(r"(?<=\d)(?=[A-Za-z])", " ", word))
    except UnitError:
        return 0


def collective_charts(results: Results) -> list[Chart]:
    """A chart for each collective workload, one line a variant."""
    names = dict.fromkeys(
        str(entry["name"]) for cell in results.cells for entry in cell.info.workloads if entry["kind"] == "collective"
    )
    charts = []
    for name in names:
        lines = {}
        for variant, records in results.by_variant.items():
            times = times_of(record for record in records if record.workload == name)
            if len(times.measured) > 1:
                lines[variant] = times
        if lines:
            charts.append(_bandwidths(name, lines))
    return charts


def _bandwidths(name: str, lines: Mapping[str, Times]) -> Chart:
    with styled():
        figure, panels = grid(2, columns=2, height=3.2)
        for number, (variant, times) in enumerate(lines.items()):
            colour = PALETTE[number % len(PALETTE)]
            for panel, of in ((panels[0], _algbw), (panels[1], _microseconds)):
                measured, foretold = of(times.measured), of(times.foretold)
                panel.plot(*measured, color=colour, marker="o", markersize=3.5, label=variant)
                panel.plot(*foretold, color=colour, linestyle=(0, (2, 2)), linewidth=1.0)
        for panel, title in zip(panels, ("algbw, GB/s", "time, µs"), strict=True):
            panel.set_title(title)
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            plain_log_axis(panel.yaxis)
            panel.set_xlabel("size")
            panel.xaxis.set_major_formatter(lambda value, _position: format_size(round(value)) if value >= 1 else "")
        legend_below(figure, panels)
        svg = svg_of(figure)
    fastest = max(size / time for times in lines.values() for size, time in times.measured.items())
    caption = "Points were measured; dashed lines are what the cost model says of these and of larger sizes."
    return Chart(f"{name}: bandwidth over size", caption, f"{name}: up to {fastest:.4g} GB/s. {caption}", svg)


def _algbw(times: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(times), [size / time for size, time in times.items()]


def _microseconds(times: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(times), [time / 1000 for time in times.values()]


def torus_charts(cells: Sequence[CellResults]) -> list[Chart]:
    """Heat maps of what cards of tori sent in each direction, over the whole cell."""
    charts = []
    for cell in cells:
        loads = torus_loads(cell)
        if loads is not None and loads.any():
            charts.append(_heat_map(cell, loads))
    return charts[:_MOST_MAPS]


def torus_loads(cell: CellResults) -> np.ndarray | None:
    """Bytes that each card of a torus sent by direction: up and down in x, y and z, then its place; None: no torus.

    A dimension of two cards has one link between two, which counts as up; a direction without link has no number.
    """
    if cell.fabric is None or cell.side.counters is None or cell.fabric.name != "torus3d":
        return None
    places = {
        node.name: tuple(map(int, match.groups()))
        for node in cell.fabric.nodes
        if (match := _CARD.fullmatch(node.name))
    }
    shape = tuple(max(place[dimension] for place in places.values()) + 1 for dimension in range(3))
    sent = cell.side.counters.tx_by_interface()
    loads = np.full((len(_DIRECTIONS), *shape), np.nan)
    ports = [
        (dimension, sign)
        for dimension, size in enumerate(shape)
        for sign in (1, -1)
        if size > 2 or (size == 2 and sign > 0)
    ]
    for name, place in places.items():
        for port, direction in enumerate(ports):
            counter = sent.get(f"{name}-eth{port}")
            if counter is not None:
                loads[(_DIRECTIONS.index(direction), *place)] = counter.tx_bytes
    return loads


def _heat_map(cell: CellResults, loads: np.ndarray) -> Chart:
    used = [number for number in range(len(_DIRECTIONS)) if not np.isnan(loads[number]).all()]
    _, _, y, z = loads.shape
    factor, unit = scale_of(loads[~np.isnan(loads)].ravel().tolist(), "B")
    with styled():
        figure, panels = grid(len(used), columns=len(used), height=max(1.8, min(7.0, 0.5 + 0.1 * y * z)))
        image = None
        for panel, number in zip(panels, used, strict=True):
            dimension, sign = _DIRECTIONS[number]
            # One layer of z below the other, x across.
            picture = loads[number].transpose(2, 1, 0).reshape(z * y, -1) / factor
            image = panel.imshow(picture, cmap="viridis", vmin=0, vmax=float(np.nanmax(loads)) / factor, aspect="auto")
            panel.set_title(f"{'+' if sign > 0 else '−'}{'xyz'[dimension]}")
            panel.grid(visible=False)
            panel.set_xticks([])
            panel.set_yticks([])
            for layer in range(1, z):
                panel.axhline(layer * y - 0.5, color="white", linewidth=1.0)
        panels[0].set_ylabel("y, within layers of z", color=MUTED, fontsize=8)
        if image is not None:
            figure.colorbar(image, ax=panels, label=f"{unit} sent", shrink=0.9)
        svg = svg_of(figure)
    least, most = float(np.nanmin(loads)), float(np.nanmax(loads))
    caption = (
        f"Bytes that each card sent by each of its links, over the whole cell: from {with_unit(least, 'B')} to "
        f"{with_unit(most, 'B')}. Each panel is a direction, x goes across, layers of z are one below the other."
    )
    return Chart(f"Load of links: {cell.info.variant}", caption, caption, svg)
