"""Idle times are cut out of plots over time, and nothing else."""

from __future__ import annotations

from emulator.report.claims import all_claims, as_ranges
from emulator.report.spans import Spans, busy_spans
from emulator.results import Series

RATE = 8_000_000_000
"""One byte a nanosecond."""


def series(*sent: int, step_ns: int = 10) -> Series:
    """Samples of an interface that sends so many bytes in each interval."""
    total, tx = 0, [0]
    for bytes_ in sent:
        total += bytes_
        tx.append(total)
    return Series(tuple(range(0, step_ns * len(tx), step_ns)), tuple(tx), (0,) * len(tx))


def test_busy_stretches_with_a_margin() -> None:
    """Each stretch is an interval wider on both sides; far ones stay apart."""
    quiet = [0] * 20
    spans = busy_spans({"a": series(*quiet, 5, 5, *quiet, 9, *quiet)}, {"a": RATE})
    assert spans == Spans([(190, 230), (410, 440)])
    assert [spans.place_ns(t, index) for t, index in ((190, 0), (230, 0), (410, 1), (440, 1))] == [0, 40, 40, 70]
    assert spans.seams_ns == [40]
    assert [spans.find_ns(t) for t in (189, 190, 230, 231, 409, 410, 440, 441)] == [
        None,
        0,
        40,
        None,
        None,
        40,
        70,
        None,
    ]


def test_any_interface_keeps_a_stretch() -> None:
    """Stretches of several interfaces are joined where they touch, and end at the run's ends."""
    both = {"a": series(5, 0, 0, 0, 0, 0, 0, 0, 0, 0), "b": series(0, 0, 5, 0, 0, 0, 0, 0, 0, 5)}
    assert busy_spans(both, {"a": RATE, "b": RATE}) == Spans([(0, 40), (80, 100)])


def test_nothing_busy_is_one_stretch() -> None:
    """A run without traffic, or with unknown rates, is shown whole; one without samples not at all."""
    assert busy_spans({"a": series(0, 0, 0)}, {"a": RATE}) == Spans([(0, 30)])
    assert busy_spans({"a": series(9, 9, 9)}, {}) == Spans([(0, 30)])
    assert busy_spans({"a": series()}, {"a": RATE}) == Spans([])
    assert Spans([(0, 30)]).seams_ns == []


def test_short_pauses_stay() -> None:
    """A pause of less than a hundredth of the run is not worth a mark."""
    long = series(*([5, 0, 0, 0] * 100))
    assert busy_spans({"a": long}, {"a": RATE}).stretches == [(0, 3980)]


def test_claims_as_ranges() -> None:
    """Runs of numbers are joined, but never across the two documents."""
    claims = {claim.id: claim for claim in all_claims()}
    assert as_ranges([claims[name] for name in ("G06", "G07", "G08", "G11", "G32", "S01", "S02")]) == (
        "G06 to G08, G11, G32, S01 to S02"
    )
    assert as_ranges([]) == ""
