"""A scenario's own verdict: its expectations held against the records of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from emulator.results.records import Kind, Record
from emulator.scenario.model import Bound, Expectation

_PERCENT = 100.0


@dataclass(frozen=True)
class Outcome:
    """What became of one expectation in one variant.

    Attributes:
        expectation: What was expected.
        variant: Where; the expectation's own pattern if no record matched.
        passed: Whether it is so.
        reason: One line with the figures.
    """

    expectation: Expectation
    variant: str
    passed: bool
    reason: str

    def as_json(self) -> dict[str, object]:
        """The outcome as a JSON object for the manifest."""
        return {
            "workload": self.expectation.workload,
            "metric": self.expectation.metric,
            "variant": self.variant,
            "passed": self.passed,
            "reason": self.reason,
        }


def evaluate(expectations: Iterable[Expectation], records: Iterable[Record]) -> list[Outcome]:
    """Hold expectations against records, one outcome for each expectation and matching variant, in their order.

    An expectation looks at measured records; if there is none but a modelled one, at that. One that matches no record
    has failed: an answer that was not given is not the expected one.
    """
    index: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        index.setdefault((record.workload, record.metric, record.variant), []).append(record)
    outcomes: list[Outcome] = []
    for expectation in expectations:
        outcomes += _evaluate_one(expectation, index)
    return outcomes


def _evaluate_one(expectation: Expectation, index: dict[tuple[str, str, str], list[Record]]) -> list[Outcome]:
    outcomes = []
    for (workload, metric, variant), records in index.items():
        if (workload, metric) != (expectation.workload, expectation.metric):
            continue
        if not fnmatchcase(variant, expectation.variant):
            continue
        figure = _first(records, Kind.MEASURED) or _first(records, Kind.MODELLED)
        if figure is not None:
            outcomes.append(_judge(expectation, figure, records))
    if not outcomes:
        reason = f"no figure {expectation.workload}.{expectation.metric} in a variant like {expectation.variant!r}"
        return [Outcome(expectation, expectation.variant, False, reason)]
    return outcomes


def _first(records: Sequence[Record], kind: Kind) -> Record | None:
    return next((record for record in records if record.kind is kind), None)


def _judge(expectation: Expectation, figure: Record, records: Sequence[Record]) -> Outcome:
    name = f"{figure.workload}.{figure.metric} is {_figure(figure.value, figure.unit)}"
    reference: float | None = None
    if expectation.of is not None:
        record = _first(records, Kind(expectation.of))
        if record is None or record.unit != figure.unit:
            reason = f"{name}, and there is no {expectation.of} record to compare with"
            return Outcome(expectation, figure.variant, False, reason)
        reference = record.value
        name += f" ({expectation.of}: {_figure(reference, figure.unit)})"
    passed, bounds = True, []
    for words, bound in (
        ("at least", expectation.at_least),
        ("at most", expectation.at_most),
        ("within", expectation.within),
    ):
        if bound is None:
            continue
        limit = _limit(bound, figure.unit, reference)
        if limit is None:
            reason = f"{name}, which cannot be compared with a bound in {bound.unit}"
            return Outcome(expectation, figure.variant, False, reason)
        bounds.append(f"{words} {_figure(bound.value, bound.unit)}")
        if words == "within":
            passed &= reference is not None and abs(figure.value - reference) <= limit
        else:
            passed &= figure.value >= limit if words == "at least" else figure.value <= limit
    expected = " and ".join(bounds) + (f" of {expectation.of}" if expectation.of else "")
    return Outcome(expectation, figure.variant, bool(passed), f"{name}, expected {expected}")


def _limit(bound: Bound, unit: str, reference: float | None) -> float | None:
    """The bound in the figure's unit; None if they do not go together."""
    if bound.unit == "%":
        if reference is not None:
            return bound.value / _PERCENT * abs(reference)
        return bound.value / _PERCENT if unit == "1" else None
    return bound.value if bound.unit == unit else None


def _figure(value: float, unit: str) -> str:
    """A figure with six digits; rates in Gbit/s, so that no powers of ten have to be counted."""
    if unit == "bit/s":
        value, unit = value / 1e9, "Gbit/s"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if unit == "1" else f"{text} {unit}"
