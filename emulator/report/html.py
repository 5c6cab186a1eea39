"""The report of a run as one self-contained page: no network, no scripts, the same bytes for the same folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from emulator.report.charts import Chart
from emulator.report.claims import NO_FIGURE, Verdict, examined, judge, not_examined
from emulator.report.collectives import collective_charts, torus_charts
from emulator.report.comparison import figure_tables, theory_rows
from emulator.report.depths import depth_charts
from emulator.report.distributions import distribution_charts
from emulator.report.faults import fault_charts, fault_tables
from emulator.report.figures import with_unit
from emulator.report.picture import busiest_link_bytes, described, draw
from emulator.report.series import series_charts
from emulator.report.sweeps import sweep_charts
from emulator.results.folder import REPORT_FILE, write_text
from emulator.results.reader import CellResults, Results
from emulator.results.records import Kind

MOST_PICTURES = 6
MOST_DRAWN = 200
"""Nodes: of more, a picture as wide as a page shows nothing."""


@dataclass(frozen=True)
class Picture:
    """The picture of one cell's fabric."""

    title: str
    svg: Markup
    caption: str


def write_report(results: Results) -> Path:
    """Write ``report.html`` into the results folder and return its path.

    Raises:
        HostError: It cannot be written.
    """
    path = results.path / REPORT_FILE
    write_text(path, render_html(results))
    return path


def render_html(results: Results) -> str:
    """The page's text."""
    environment = Environment(
        loader=PackageLoader("emulator.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_unit"] = with_unit
    verdicts = judge(results)
    seen = examined(verdicts)
    return environment.get_template("report.html.j2").render(
        results=results,
        manifest=results.manifest,
        verdicts=_grouped(seen),
        tally=_tally(seen),
        profiles=list(dict.fromkeys(cell.info.profile for cell in results.cells)),
        not_examined=not_examined(verdicts),
        charts=_charts(results),
        pictures=_pictures(results.cells),
        faults=fault_tables(results),
        theory=theory_rows(results),
        tables=figure_tables(results),
        kinds=[kind.value for kind in Kind],
        conditions=_conditions(results),
        failed=[entry for entry in results.manifest.expectations if not entry.get("passed")],
    )


def _grouped(verdicts: list[Verdict]) -> list[list[Verdict]]:
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.claim.id, []).append(verdict)
    return list(groups.values())


def _tally(verdicts: list[Verdict]) -> dict[str, int]:
    counted = Counter(verdict.tone for verdict in verdicts if verdict.verdict != NO_FIGURE)
    return {tone: counted[tone] for tone in ("good", "mixed", "bad")}


def _charts(results: Results) -> list[tuple[str, list[Chart]]]:
    sections = [
        ("Figures over what was varied", sweep_charts(results)),
        ("Collectives over size", collective_charts(results)),
        ("What each link of a torus carried", torus_charts(results.cells)),
        ("Storage over queue depth", depth_charts(results)),
        ("Latency distributions", distribution_charts(results.cells)),
        ("Faults over time", fault_charts(results.cells)),
        ("Links over time", series_charts(results.cells)),
    ]
    return [(title, charts) for title, charts in sections if charts]


def _pictures(cells: tuple[CellResults, ...]) -> list[Picture]:
    """Pictures of all cells with a fabric, at one scale; equal ones without counters are drawn once."""
    scale = max((busiest_link_bytes(cell.fabric, cell.side.counters) for cell in cells if cell.fabric), default=0)
    pictures: dict[str, Picture] = {}
    for cell in cells:
        if cell.fabric is None:
            continue
        words = described(cell.fabric, cell.side.counters)
        svg, caption = "", f"Too large to be drawn: {words}."
        if len(cell.fabric.nodes) <= MOST_DRAWN:
            svg = draw(cell.fabric, cell.side.counters, f"Topology of {cell.info.variant}: {words}.", scale or None)
            caption = _caption(cell)
        key = (svg or caption) if cell.side.counters else repr((cell.fabric.nodes, cell.fabric.links))
        pictures.setdefault(key, Picture(cell.info.variant, Markup(svg), caption))  # noqa: S704 - our own markup
    return list(pictures.values())[:MOST_PICTURES]


def _caption(cell: CellResults) -> str:
    counters = cell.side.counters
    if counters is None:
        return "Bytes were not counted."
    crossed = counters.storage_bytes_through_compute
    if crossed is None:
        return ""
    return f"Storage bytes that crossed general compute nodes: {with_unit(crossed, 'B')} (measured)."


def _conditions(results: Results) -> list[tuple[str, str]]:
    manifest = results.manifest
    revision = manifest.revision
    commit = revision.commit or "not a git tree"
    rows = [
        ("revision", f"{commit} with uncommitted changes" if revision.dirty else commit),
        ("engine", manifest.engine),
        ("seed", str(manifest.seed)),
        ("scenario", f"{manifest.scenario_file} (SHA-256 {manifest.scenario_sha256})"),
    ]
    for title, entries in (("kernel", manifest.kernel), ("host", manifest.host), ("tool", manifest.tools)):
        rows += [(f"{title}: {name}", str(value)) for name, value in sorted(entries.items())]
    return rows
