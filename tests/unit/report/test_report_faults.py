"""Faults in the report: tables, the plot, the timeline for Perfetto; and the files that they are read from, checked."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from emulator.errors import ScenarioError
from emulator.model.fault import Action, Fault, Happened
from emulator.report import print_results, render_html, write_timeline
from emulator.report.faults import fault_charts, fault_tables
from emulator.report.series import series_charts
from emulator.results import Kind, Record, Series, read_results, series_to_json, write_part, write_side_file
from emulator.results.events import (
    EVENTS_FILE,
    Happenings,
    ProbeSeries,
    WorkloadSpan,
    events_from_json,
    probe_series_file,
    probe_series_from_json,
)
from tests.support.synthetic_results import write_line_rate

MS = 10**6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder whose first cell had two workloads at once, and faults."""
    results = write_line_rate(tmp_path / "r")
    cell = results.cell(0)
    happenings = Happenings()
    faults = [Fault(5 * MS, Action.CUT, "s1-s2", "bulk"), Fault(9 * MS, Action.RESTORE, "s1-s2", "bulk", 1)]
    happened = [Happened(one, 100 * MS + one.at_ns, 100 * MS + one.at_ns + 7) for one in faults]
    happenings.add([WorkloadSpan("early", 10 * MS, 20 * MS)], [])
    spans = [WorkloadSpan("bulk", 100 * MS, 130 * MS), WorkloadSpan("probes", 100 * MS, 128 * MS)]
    happenings.add(spans, happened)
    write_side_file(cell, EVENTS_FILE, happenings.as_json())
    series = ProbeSeries(100 * MS, 4 * MS, (10, 10, 10), (0, 7, 1))
    write_side_file(cell, probe_series_file("probes"), series.as_json("probes"))
    write_side_file(
        cell, "series.json", series_to_json({"h0-eth0": Series((0, MS, 2 * MS), (0, 1000, 1000), (0, 3, 0))})
    )
    variant = "rate=25 Gbit/s,hops=1"
    figures = {
        "lost_fault0": (8, "1"), "pairs_hit_fault0": (2, "1"), "recovery_p50_fault0": (4_000_100, "ns"),
        "recovery_max_fault0": (4_200_000, "ns"), "unrecovered_fault0": (1, "1"), "lost_fault1": (0, "1"),
    }  # fmt: skip
    records = [
        Record("synthetic_line_rate", variant, "probes", metric, value, unit, Kind.MEASURED, "test")
        for metric, (value, unit) in figures.items()
    ]
    write_part(cell, records)
    results.merge_parts(9)
    results.close()
    return results.path


def test_tables(folder: Path) -> None:
    """Each fault has its moment and its figures; a repair that cost nothing has empty places; other cells have none."""
    results = read_results(folder)
    [table] = fault_tables(results)
    assert (table.variant, table.workload) == ("rate=25 Gbit/s,hops=1", "probes")
    cut, restore = table.rows
    assert (cut.at, cut.title, cut.repairs) == ("5 ms", "cut s1-s2", False)
    assert cut.figures == ("8", "2", "4 ms", "4.2 ms", "1")
    assert (restore.at, restore.title, restore.repairs) == ("9 ms", "restore s1-s2", True)
    assert restore.figures == ("0", "", "", "", "")


def test_page_and_terminal(folder: Path) -> None:
    """The page has the table and the plot with words for those who do not see it; the terminal has the table."""
    results = read_results(folder)
    page = render_html(results)
    assert 'id="faults"' in page
    assert "cut s1-s2" in page
    assert "8 of 30 packets lost" in page
    assert fault_charts(results.cells)[0].svg == fault_charts(results.cells)[0].svg, "the same bytes each time"
    assert "fault by fault" in page
    text = io.StringIO()
    print_results(results, Console(file=text, width=140))
    assert "cut s1-s2" in text.getvalue()


def test_no_faults(tmp_path: Path) -> None:
    """A folder without events, such as an earlier version wrote, has no such section."""
    results = write_line_rate(tmp_path / "r")
    results.close()
    read = read_results(results.path)
    assert fault_tables(read) == []
    assert fault_charts(read.cells) == []
    assert 'id="faults"' not in render_html(read)


def test_timeline(folder: Path) -> None:
    """Cells are processes; workloads are spans, faults instants in microseconds, links and losses counters."""
    path = write_timeline(read_results(folder))
    events = json.loads(path.read_text())["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "M"} == set(range(1, 10))
    instants = [(event["name"], event["ts"], event["cat"]) for event in events if event["ph"] == "i"]
    assert instants == [("cut s1-s2", 105_000.0, "fault"), ("restore s1-s2", 109_000.0, "repair")]
    spans = [(event["name"], event["ph"], event["ts"]) for event in events if event["ph"] in "be"]
    assert spans == [
        (name, phase, ts)
        for name, start, end in (("early", 10, 20), ("bulk", 100, 130), ("probes", 100, 128))
        for phase, ts in (("b", start * 1000.0), ("e", end * 1000.0))
    ]
    counters = [(event["name"], event["ts"], event["args"]) for event in events if event["ph"] == "C"]
    assert ("probes: lost", 104_000.0, {"packets": 7}) in counters
    assert ("h0-eth0: waiting", 1000.0, {"packets": 3}) in counters
    # 1000 bytes in a millisecond at 25 Gbit/s.
    assert ("h0-eth0: used", 0.0, {"%": 0.032}) in counters


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"workloads": [], "faults": [{}]},
        {"workloads": [{"name": "a", "start_ns": 1.5, "end_ns": 2}], "faults": []},
        {"workloads": [{"name": "a", "start_ns": True, "end_ns": 2}], "faults": []},
        {"workloads": 3, "faults": []},
    ],
)
def test_damaged_events(data: object) -> None:
    """What does not say what happened is refused in one line with the file's name."""
    with pytest.raises(ScenarioError, match=r"^events\.json: does not say what happened"):
        events_from_json(data, "events.json")


@pytest.mark.parametrize(
    "change", [{"sent": [1]}, {"bin_ns": 0}, {"bin_ns": "1"}, {"lost": [0.5, 1]}, {"lost": None}, {"sent": [True, 1]}]
)
def test_damaged_probe_series(change: dict[str, object]) -> None:
    """A series with columns of different lengths, no bins or parts of packets is refused."""
    whole = {"workload": "p", "start_ns": 1, "bin_ns": 1, "sent": [1, 1], "lost": [0, 1]}
    assert probe_series_from_json(whole, "f") == ("p", ProbeSeries(1, 1, (1, 1), (0, 1)))
    with pytest.raises(ScenarioError, match=r"^f: is not a series of probes"):
        probe_series_from_json({**whole, **change}, "f")


def test_series_have_lines_at_faults(folder: Path) -> None:
    """Plots of links over time show when something broke and was mended, and leave out what struck while all rested.

    Steps: a link that is busy from 104 to 107 ms of emulated time; a cut at 105 ms, its repair at 109 ms.
    Verify: each of the two plots has one red line and no green one, and says what the lines are.
    """
    times = tuple(range(0, 200 * MS, MS))
    sent = tuple(10**6 * max(0, min(3, t // MS - 104)) for t in times)
    file = next(folder.glob("cells/0/series.json"))
    file.write_text(json.dumps(series_to_json({"h0-eth0": Series(times, sent, (0,) * len(times))})))
    charts = series_charts(read_results(folder).cells)
    for chart in charts:
        drawn = chart.svg.decode()
        assert drawn.count("#b42318") == 1
        assert "#1b7f3b" not in drawn
        assert "Red lines" in chart.caption
    assert len(charts) == 2
