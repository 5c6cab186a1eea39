"""Tables of figures: measured beside theory, and all figures of a workload over the variants. Data only, no look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emulator.report.figures import figure, significant, with_unit
from emulator.results.reader import Results
from emulator.results.records import Kind, Record


@dataclass(frozen=True)
class TheoryRow:
    """A measured figure beside its closed form.

    Attributes:
        variant, workload, metric: Which.
        measured, theory: As text with units.
        difference: Measured less theory.
        relative: The same in per cent of theory; empty where theory is zero.
        formula: What the theory record's source says.
    """

    variant: str
    workload: str
    metric: str
    measured: str
    theory: str
    difference: str
    relative: str
    formula: str


@dataclass(frozen=True)
class FigureRow:
    """One metric of one kind over the variants: a text for each, empty where there is none."""

    metric: str
    kind: Kind
    cells: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class FigureTable:
    """Figures of one workload: its title, the variants, and a row for each metric and kind."""

    title: str
    variants: tuple[str, ...]
    rows: tuple[FigureRow, ...]


_PER_FLOW = re.compile(r".*_flow\d+")
_PER_FAULT = re.compile(r".*_fault\d+")


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key by which ``qd4`` comes before ``qd16``."""
    parts = re.split(r"(\d+)", text)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part)


def theory_rows(results: Results) -> list[TheoryRow]:
    """Every measured figure that has a theory record beside it, by workload, metric and variant."""
    rows = []
    for workload in workloads_of(results):
        records = [record for record in results.records if record.workload == workload]
        theory = {(r.metric, r.variant): r for r in records if r.kind is Kind.THEORY}
        for metric in sorted({metric for metric, _ in theory}, key=natural):
            for variant in results.by_variant:
                measured = _find(records, metric, variant, Kind.MEASURED)
                foretold = theory.get((metric, variant))
                if measured and foretold and measured.unit == foretold.unit:
                    rows.append(_theory_row(measured, foretold))
    return rows


def _theory_row(measured: Record, theory: Record) -> TheoryRow:
    difference = measured.value - theory.value
    share = difference / theory.value * 100 if theory.value else None
    return TheoryRow(
        measured.variant,
        measured.workload,
        measured.metric,
        figure(measured),
        figure(theory),
        signed(with_unit(difference, measured.unit), difference),
        "" if share is None else signed(f"{significant(round(share, 4))} %", share),
        theory.source,
    )


def signed(text: str, value: float) -> str:
    """A text with a plus sign if the value is above zero, and a true minus sign if it is below."""
    return f"+{text}" if value > 0 else text.replace("-", "\N{MINUS SIGN}", 1)


def figure_tables(results: Results) -> list[FigureTable]:
    """All figures, a table for each workload, in the order in which workloads ran."""
    variants = tuple(results.by_variant)
    tables = []
    for workload in workloads_of(results):
        records = [record for record in results.records if record.workload == workload]
        order = {kind: position for position, kind in enumerate(Kind)}
        keys = sorted({(r.metric, r.kind) for r in records}, key=lambda key: (natural(key[0]), order[key[1]]))
        rows = [_figure_row(records, metric, kind, variants) for metric, kind in keys]
        # Figures of single flows and faults are many and rarely looked at: they get tables of their own.
        apart = {
            f"{workload}, {title}": [row for row in rows if pattern.fullmatch(row.metric)]
            for title, pattern in (("flow by flow", _PER_FLOW), ("fault by fault", _PER_FAULT))
        }
        elsewhere = [row for rows_apart in apart.values() for row in rows_apart]
        tables.append(FigureTable(workload, variants, tuple(row for row in rows if row not in elsewhere)))
        tables += [FigureTable(title, variants, tuple(rows_apart)) for title, rows_apart in apart.items() if rows_apart]
    return tables


def _figure_row(records: Sequence[Record], metric: str, kind: Kind, variants: Sequence[str]) -> FigureRow:
    found = [_find(records, metric, variant, kind) for variant in variants]
    sources = dict.fromkeys(record.source for record in found if record)
    return FigureRow(metric, kind, tuple(figure(record) if record else "" for record in found), "; ".join(sources))


def workloads_of(results: Results) -> list[str]:
    """Names of all workloads with records: in the order in which they ran, then those that are not in the manifest."""
    ran = [str(entry.get("name")) for cell in results.cells for entry in cell.info.workloads]
    recorded = sorted({record.workload for record in results.records})
    return [name for name in dict.fromkeys([*ran, *recorded]) if name in recorded]


def _find(records: Iterable[Record], metric: str, variant: str, kind: Kind) -> Record | None:
    return next((r for r in records if (r.metric, r.variant, r.kind) == (metric, variant, kind)), None)
