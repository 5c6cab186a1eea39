"""A scenario's own verdict: bounds, units, references, and answers that were not given."""

from __future__ import annotations

import pytest

from emulator.results import Kind, Record
from emulator.scenario import Bound, Expectation, evaluate


def record(value: float, unit: str = "ns", kind: Kind = Kind.MEASURED, variant: str = "a", metric: str = "m") -> Record:
    return Record("s", variant, "w", metric, value, unit, kind, "test")


def passed(expectation: Expectation, *records: Record) -> list[bool]:
    return [outcome.passed for outcome in evaluate([expectation], records)]


@pytest.mark.parametrize(
    ("expectation", "value", "unit", "good"),
    [
        (Expectation("w", "m", at_most=Bound(100, "ns")), 100, "ns", True),
        (Expectation("w", "m", at_most=Bound(100, "ns")), 100.1, "ns", False),
        (Expectation("w", "m", at_least=Bound(100, "bit/s")), 100, "bit/s", True),
        (Expectation("w", "m", at_least=Bound(100, "bit/s")), 99, "bit/s", False),
        (Expectation("w", "m", at_least=Bound(90, "%")), 0.9, "1", True),
        (Expectation("w", "m", at_least=Bound(90, "%")), 0.89, "1", False),
        (Expectation("w", "m", at_least=Bound(0.5, "1"), at_most=Bound(0.6, "1")), 0.55, "1", True),
        (Expectation("w", "m", at_least=Bound(0.5, "1"), at_most=Bound(0.6, "1")), 0.65, "1", False),
        (Expectation("w", "m", at_most=Bound(100, "ns")), 1, "bit/s", False),
        (Expectation("w", "m", at_most=Bound(100, "%")), 1, "ns", False),
    ],
)
def test_bounds(expectation: Expectation, value: float, unit: str, good: bool) -> None:
    """Bounds include their ends; a bound in another unit than the figure's never passes."""
    assert passed(expectation, record(value, unit)) == [good]


@pytest.mark.parametrize(
    ("expectation", "value", "good"),
    [
        (Expectation("w", "m", within=Bound(2, "%"), of="theory"), 1020.0, True),
        (Expectation("w", "m", within=Bound(2, "%"), of="theory"), 979.0, False),
        (Expectation("w", "m", within=Bound(10, "ns"), of="theory"), 990, True),
        (Expectation("w", "m", within=Bound(10, "ns"), of="theory"), 1011, False),
        (Expectation("w", "m", at_least=Bound(99, "%"), of="theory"), 990, True),
        (Expectation("w", "m", at_least=Bound(99, "%"), of="theory"), 989, False),
        (Expectation("w", "m", within=Bound(2, "%"), of="claimed"), 1000, False),
    ],
)
def test_references(expectation: Expectation, value: float, good: bool) -> None:
    """Figures are compared with the record of the named kind beside them; without one the expectation fails."""
    assert passed(expectation, record(value), record(1000, kind=Kind.THEORY)) == [good]


def test_every_matching_variant_is_judged() -> None:
    """A pattern picks variants; each gets its own outcome, in the order of the records."""
    records = [record(value, variant=name) for name, value in (("g/x", 1), ("g/y", 9), ("c/x", 9))]
    outcomes = evaluate([Expectation("w", "m", variant="g/*", at_most=Bound(5, "ns"))], records)
    assert [(outcome.variant, outcome.passed) for outcome in outcomes] == [("g/x", True), ("g/y", False)]
    assert outcomes[1].as_json() == {
        "workload": "w", "metric": "m", "variant": "g/y", "passed": False,
        "reason": "w.m is 9 ns, expected at most 5 ns",
    }  # fmt: skip


def test_no_figure_is_a_failure() -> None:
    """An expectation that matches nothing has failed, and says what it looked for."""
    (outcome,) = evaluate([Expectation("w", "m", at_most=Bound(5, "ns"))], [record(1, metric="other")])
    assert not outcome.passed
    assert outcome.reason == "no figure w.m in a variant like '*'"


def test_theory_alone_is_no_answer() -> None:
    """A closed form is not what the run found; a modelled figure is, where nothing was measured."""
    expectation = Expectation("w", "m", at_most=Bound(5, "ns"))
    assert passed(expectation, record(1, kind=Kind.THEORY)) == [False]
    assert passed(expectation, record(1, kind=Kind.MODELLED)) == [True]
    assert passed(expectation, record(1, kind=Kind.MODELLED), record(9, kind=Kind.MEASURED)) == [False]
