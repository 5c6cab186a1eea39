"""The look of all plots, and plots as images to embed: the same data give the same bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from emulator.results.events import FaultMark
from emulator.results.manifest import CellInfo

INK, MUTED, GRID = "#1f2933", "#616e7c", "#e4e7eb"
DESIGN_COLOURS = {"conventional": "#c2500a", "gateway": "#0b63b0", "shortest-path": "#0f766e"}
_BROKEN, _MENDED = "#b42318", "#1b7f3b"
_MOST_TITLES = 8
FAULT_WORDS = "Red lines: something breaks; green lines: it is whole again."
PALETTE = ("#0b63b0", "#c2500a", "#0f766e", "#7c3aed", "#b8155b", "#6b7a0e", "#0e7490", "#8a5a00")
STYLES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))

_STYLE = {
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "icgw",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.color": MUTED,
    "ytick.labelsize": 8,
}


@dataclass(frozen=True)
class Chart:
    """A finished plot.

    Attributes:
        title: Its heading.
        caption: What is to be seen, one or two sentences.
        alt: The same for those who do not see it.
        svg: The image.
    """

    title: str
    caption: str
    alt: str
    svg: bytes

    @property
    def data_uri(self) -> str:
        """The image as an address to embed."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this project's look, whatever the machine's own matplotlib settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def grid(count: int, *, columns: int = 3, width: float = 11.6, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """A figure with *count* panels in rows of at most *columns*; *height* is that of a row, in inches."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, index + 1) for index in range(count)]
    return figure, axes


def mark_faults(panel: Axes, marks: Sequence[tuple[float, FaultMark]]) -> None:
    """Draw a line across a panel at each place where something broke or was whole again, and say what if they are few.

    Args:
        panel: The panel.
        marks: Place on its axis, and the fault.
    """
    for place, mark in marks:
        colour = _MENDED if mark.repairs else _BROKEN
        panel.axvline(place, color=colour, linewidth=1.0, linestyle=(0, (4, 2)))
        if len(marks) <= _MOST_TITLES:
            panel.annotate(
                mark.title, (place, 1.0), xycoords=("data", "axes fraction"), xytext=(2, -2),
                textcoords="offset points", rotation=90, va="top", fontsize=6.5, color=MUTED,
            )  # fmt: skip


def plain_log_axis(axis: Axis, *, as_percent: bool = False) -> None:
    """Label a logarithmic axis with plain numbers: the decades, and 2 and 5 between them where there are few."""

    def text(value: float, _position: int) -> str:
        return f"{value * 100:g} %" if as_percent else f"{value:g}"

    low, high = sorted(axis.get_view_interval())
    few = low > 0 and high / low < 200
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if few and not as_percent else (1.0,)))
    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def svg_of(figure: Figure) -> bytes:
    """The figure as SVG without dates."""
    output = io.BytesIO()
    figure.savefig(output, format="svg", metadata={"Date": None, "Creator": None})
    return output.getvalue()


def legend_below(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend under the figure, each label once."""
    handles: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower left",
            ncols=min(4, len(handles)),
            handlelength=2.6,
        )


def cell_style(info: CellInfo, infos: Sequence[CellInfo]) -> dict[str, Any]:
    """Colour and line style of a cell: by design and profile where these vary, else by position."""
    designs = list(dict.fromkeys(one.design for one in infos))
    if len(designs) > 1:
        profiles = list(dict.fromkeys(one.profile for one in infos))
        style = STYLES[profiles.index(info.profile) % len(STYLES)]
        return {"color": DESIGN_COLOURS.get(info.design, INK), "linestyle": style}
    position = [one.variant for one in infos].index(info.variant)
    return {"color": PALETTE[position % len(PALETTE)], "linestyle": STYLES[position // len(PALETTE) % len(STYLES)]}
