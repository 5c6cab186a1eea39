"""The page and the terminal tables: complete, self-contained, the same bytes every time."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import chain, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from emulator.model.fabric import Fabric
from emulator.report import print_results, render_html, write_report
from emulator.report.comparison import figure_tables, natural, theory_rows
from emulator.report.depths import depth_charts
from emulator.report.distributions import distribution_charts
from emulator.report.layout import HOST_GAP, lay_out
from emulator.report.picture import described, draw
from emulator.report.series import series_charts
from emulator.report.sweeps import axes_of, sweep_charts
from emulator.results import CellInfo, ClassCounters, Counters, Kind, PortCounters, Results, Side, read_results
from tests.support.synthetic_results import NOTICE, write_demo, write_line_rate
from topologies import FABRICS, torus3d

VOID = {"meta", "img", "br", "link", "hr"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Made-up results of both designs under two profiles."""
    folder = tmp_path_factory.mktemp("demo") / "r"
    return read_results(write_demo(folder, profiles=("documents", "other")).path)


@pytest.fixture(scope="module")
def line_rate(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Made-up results of a matrix of nine variants."""
    return read_results(write_line_rate(tmp_path_factory.mktemp("line") / "r").path)


@pytest.fixture(scope="module")
def demo_html(demo: Results) -> str:
    """The page of `demo`."""
    return render_html(demo)


class Page(HTMLParser):
    """Checks nesting and collects what a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.ids: set[str] = set()
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img":
            self.images.append(found)
        self.links += [str(found[name]) for name in ("href", "src") if name in found]
        self.ids |= {str(found["id"])} if "id" in found else set()
        assert tag not in ("script", "link", "iframe")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_is_self_contained_and_accessible(demo_html: str) -> None:
    """No script, nothing from elsewhere; every image has a text, every link of the contents leads somewhere."""
    page = Page(demo_html)
    for link in page.links:
        assert link.startswith(("data:image/svg+xml;base64,", "#"))
        assert not link.startswith("#") or link[1:] in page.ids
    assert len(page.images) > 5
    assert all(len(str(image.get("alt"))) > 20 for image in page.images)
    assert "url(" not in demo_html
    assert re.findall(r"https?://(?!www\.w3\.org)", demo_html) == []


def test_page_shows_what_matters(demo_html: str) -> None:
    """Warnings, verdicts, kinds, counters, conditions and the way to run it again are all there."""
    text = re.sub(r"\s+", " ", Page(demo_html).text)
    for words in (
        NOTICE,
        "holds under profile documents",
        "does not hold",
        "48 claims are not examined",
        "Measured beside theory",
        "Storage bytes that crossed general compute nodes: 400 MB",
        "x.z is 2, expected 1",
        "with uncommitted changes",
        "icgw run synthetic.yaml",
        "topology: {kind: icgw",
        *(kind.value for kind in Kind),
        "7.2 (synthetic)",
    ):
        assert words in text, words
    assert text.index(NOTICE) < text.index("Claims of the documents")


def test_same_folder_same_bytes(demo: Results, demo_html: str) -> None:
    """Another rendering is equal to the byte: no dates, no random ids."""
    path = write_report(read_results(demo.path))
    assert path.read_text(encoding="utf-8") == demo_html


def bare(folder: Path, **changes: object) -> Results:
    """Made-up results without side files, so without plots, and with some keys of the manifest replaced."""
    write_demo(folder)
    for file in folder.glob("cells/*/*.json"):
        file.unlink()
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")
    return read_results(folder)


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    """What stands in a scenario or warning is shown, never interpreted."""
    bad = "<script>alert('x')</script> & {{ 7 * 7 }}"
    html = render_html(bare(tmp_path / "r", question=bad, warnings=[bad]))
    assert "<script" not in html
    assert "&lt;script&gt;alert" in html
    assert "{{ 7 * 7 }}" in html


def test_page_of_a_matrix(line_rate: Results) -> None:
    """A scenario without designs to compare has no claims, but sweeps with theory beside what was measured."""
    page = Page(render_html(line_rate))
    assert "Claims of the documents" not in page.text
    assert "Figures over what was varied" in page.text
    assert "rate=400 Gbit/s,hops=5" in page.text


def test_page_of_a_bare_run(tmp_path: Path) -> None:
    """Records and a manifest are enough: without side files the page has no plots but one, and does not fail."""
    results = bare(tmp_path / "r")
    page = Page(render_html(results))
    assert "Topology and link loads" not in page.text
    assert "All figures" in page.text
    (results.path / "results.json").write_text("[]\n")
    assert "0 records" in Page(render_html(read_results(results.path))).text


def test_a_fabric_that_is_too_large_is_told_in_words(line_rate: Results) -> None:
    """Five hundred cards in one row would be a line: the page says how many there are; up to two hundred are drawn."""
    cell = replace(line_rate.cells[-1], side=Side())
    large, small = (
        render_html(replace(line_rate, cells=(replace(cell, fabric=fabric),)))
        for fabric in (torus3d(8, 8, 8), torus3d(5, 5, 8))
    )
    assert "Too large to be drawn: 512 hosts, 0 switches and 1536 links" in large
    assert 'class="fabric"' not in large
    assert "Too large" not in small
    assert small.count('class="fabric"') == 1


def test_terminal_tables(demo: Results, line_rate: Results) -> None:
    """The terminal shows warnings first, then verdicts or theory; all figures on request."""
    output = io.StringIO()
    print_results(demo, Console(file=output, width=160))
    text = output.getvalue()
    assert text.index(NOTICE) < text.index("G01")
    for words in (
        "holds under",
        "does not hold",
        "Not examined by this scenario: G06",
        "615 µs → 61.5 µs",
        "(modelled)",
        "NOT as expected: base: x.z is 2",
        "1 of 2 expectations met",
    ):
        assert words in text, words
    assert "media_latency" not in text
    print_results(demo, Console(file=output, width=160), all_figures=True)
    assert "media_latency" in output.getvalue()
    output = io.StringIO()
    print_results(line_rate, Console(file=output, width=160), all_figures=True)
    assert "Measured beside theory" in output.getvalue()
    assert "rate=400 Gbit/s,hops=5" in output.getvalue()


def test_markup_in_names_is_not_interpreted(tmp_path: Path) -> None:
    """Square brackets in a warning reach the terminal as they are."""
    output = io.StringIO()
    print_results(bare(tmp_path / "r", warnings=["[bold]x[/red] [/]"]), Console(file=output, width=160))
    assert "[bold]x[/red] [/]" in output.getvalue()


def test_theory_rows(line_rate: Results) -> None:
    """Differences have signs and are relative to theory."""
    rows = theory_rows(line_rate)
    assert len(rows) == 18
    assert {row.metric for row in rows} == {"rtt_mean", "goodput"}
    goodput = next(row for row in rows if row.metric == "goodput")
    assert goodput.difference.startswith("\N{MINUS SIGN}")
    assert goodput.relative.startswith("\N{MINUS SIGN}0.")


def test_figure_tables_are_complete(demo: Results) -> None:
    """Every record is in exactly one cell of the tables."""
    cells = [cell for table in figure_tables(demo) for row in table.rows for cell in row.cells if cell]
    assert len(cells) == len(demo.records)
    assert sorted(["qd16", "qd4", "qd1", "x"], key=natural) == ["qd1", "qd4", "qd16", "x"]


def test_charts(demo: Results, line_rate: Results) -> None:
    """Each kind of chart appears where its data are, as a well-formed picture with a title and a description."""
    charts = {
        "depth": depth_charts(demo),
        "distribution": distribution_charts(demo.cells),
        "series": series_charts(demo.cells),
        "sweep": sweep_charts(line_rate),
    }
    assert [chart.title for chart in charts["depth"]] == ["random_read over queue depth"]
    assert [chart.title for chart in charts["distribution"]] == ["traversal", "random_read", "cross_zone"]
    assert [chart.title for chart in charts["series"]] == ["Utilization over time", "Queues over time"]
    assert [chart.title for chart in charts["sweep"]] == ["rtt over hops", "bulk over hops"]
    assert sweep_charts(demo) == []
    assert depth_charts(line_rate) == []
    for chart in chain.from_iterable(charts.values()):
        assert ElementTree.fromstring(chart.svg).tag.endswith("svg")
        assert chart.caption
        assert "conventional/documents" in chart.alt or "hops" in chart.alt


def test_axes_of_variants() -> None:
    """The matrix is read back from a variant's name, with or without designs before it."""
    assert axes_of(CellInfo("rate=25 Gbit/s,hops=3", "d", "p", "t")) == {"rate": "25 Gbit/s", "hops": "3"}
    assert axes_of(CellInfo("gateway/documents,hops=3", "d", "p", "t")) == {"hops": "3"}
    assert axes_of(CellInfo("base", "d", "p", "t")) == {}


@pytest.mark.parametrize(
    "fabric",
    [
        FABRICS["icgw"](), FABRICS["icgw"](storage=1, gpus=1), FABRICS["icgw"](gpus=20, storage=7, spines=4),
        FABRICS["chain"](hops=1), FABRICS["chain"](hops=5), FABRICS["chain"](hops=64), FABRICS["dumbbell"](pairs=8),
        FABRICS["single"](hosts=1), FABRICS["single"](hosts=256),
    ],
    ids=lambda fabric: f"{fabric.name}-{len(fabric.nodes)}",
)  # fmt: skip
def test_layout(fabric: Fabric) -> None:
    """Every node is inside the picture and none lies on another; the picture is well-formed."""
    layout = lay_out(fabric)
    assert set(layout.places) == set(fabric.by_name)
    assert len(set(layout.places.values())) == len(fabric.nodes)
    for x, y in layout.places.values():
        assert 0 < x < layout.width
        assert 0 < y < layout.height
    rows: dict[float, list[float]] = {}
    for node in fabric.switches:
        x, y = layout.places[node.name]
        rows.setdefault(y, []).append(x)
    for row in rows.values():
        gaps = [right - left for left, right in pairwise(sorted(row))]
        assert all(gap >= HOST_GAP - 1e-6 for gap in gaps)
    tree = ElementTree.fromstring(draw(fabric, None, "a <title> & more"))
    assert tree.get("aria-label") == "a <title> & more"
    assert len(tree.findall(".//{*}path")) == len(fabric.links)


def test_drops_of_each_queue_are_told() -> None:
    """Where storage and compute have queues of their own, the link's hint says which dropped; elsewhere it does not."""
    fabric = FABRICS["dumbbell"](pairs=1, storage_share=0.3)
    classes = (ClassCounters("storage", 10, 1, 0), ClassCounters("compute", 20, 2, 7))
    ports = (
        PortCounters("s1", "s1-eth1", 30, 0, 3, 0, 7, classes),
        PortCounters("s2", "s2-eth1", 30, 0, 3, 0, 2, (ClassCounters("storage", 1, 1, 2),)),
        PortCounters("l1", "l1-eth0", 30, 0, 3, 0, 1),
    )
    drawn = draw(fabric, Counters(ports), "t")
    assert "9 drops (2 of storage, 7 of compute in the queues)" in drawn
    assert drawn.count("in the queues") == 1
    assert "1 drops</title>" in drawn


def test_busy_links_are_drawn_wider_and_told(demo: Results) -> None:
    """Width follows the bytes; compute nodes show what they received; words say the same."""
    cell = demo.cells[0]
    assert cell.fabric is not None
    assert cell.side.counters is not None
    tree = ElementTree.fromstring(draw(cell.fabric, cell.side.counters, "x"))
    widths = [float(str(path.get("stroke-width"))) for path in tree.findall(".//{*}path")]
    assert widths == sorted(widths)
    assert widths[-1] == 9.0
    titles = ["".join(title.itertext()) for title in tree.findall(".//{*}title")]
    assert any(text.startswith("c1: compute, 10.") and "received" in text for text in titles)
    assert described(cell.fabric, cell.side.counters).startswith("10 hosts, 8 switches and 20 links; the busiest")
    assert described(cell.fabric, None) == "10 hosts, 8 switches and 20 links"
