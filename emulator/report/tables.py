"""What a run found, for the terminal: warnings, verdicts on the claims, measured beside theory, and all figures."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emulator.report.claims import Verdict, as_ranges, examined, judge, not_examined
from emulator.report.comparison import figure_tables, theory_rows
from emulator.report.faults import FaultTable, fault_tables
from emulator.report.judgement import Figure, Finding
from emulator.results.reader import Results

_TONES = {"good": "bold green", "bad": "bold red", "mixed": "bold yellow", "none": "dim"}


def print_results(results: Results, console: Console, *, all_figures: bool = False) -> None:
    """Print a run: warnings first, then what answers its question.

    Args:
        results: The run.
        console: Where to.
        all_figures: Print every figure too; else they are printed only if there is nothing to compare them with.
    """
    manifest = results.manifest
    console.print(Text.assemble((f"\n{manifest.scenario}", "bold"), f"  {manifest.question}"))
    for warning in manifest.warnings:
        console.print(Text.assemble(("warning: ", "bold yellow"), warning))
    verdicts = judge(results)
    seen = examined(verdicts)
    if seen:
        console.print(claims_table(seen))
        missing = not_examined(verdicts)
        console.print(Text(f"Not examined by this scenario: {as_ranges(missing)}", style="dim"))
    rows = theory_rows(results)
    if rows:
        console.print(theory_table(results))
    struck = fault_tables(results)
    for faults in struck:
        console.print(faults_table(faults))
    if all_figures or not (seen or rows or struck):
        for table in figure_tables_text(results):
            console.print(table)
    _print_expectations(results, console)


def _print_expectations(results: Results, console: Console) -> None:
    """Those that are met as a number, the others in full."""
    outcomes = results.manifest.expectations
    failed = [outcome for outcome in outcomes if not outcome["passed"]]
    for outcome in failed:
        console.print(Text.assemble(("NOT as expected: ", "bold red"), f"{outcome['variant']}: {outcome['reason']}"))
    if outcomes:
        style = "bold green" if not failed else ""
        console.print(Text(f"{len(outcomes) - len(failed)} of {len(outcomes)} expectations met", style=style))


def claims_table(verdicts: Sequence[Verdict]) -> Table:
    """Claims with what they state, what was measured under each profile, and the verdict."""
    profiles = list(dict.fromkeys(profile for verdict in verdicts for profile in verdict.findings))
    table = _table("Claims: conventional → gateway, measured unless marked")
    table.add_column("claim", no_wrap=True)
    table.add_column("says", overflow="fold", ratio=3)
    for profile in profiles:
        table.add_column(profile, overflow="fold", ratio=2)
    table.add_column("verdict", overflow="fold", ratio=1)
    last = ""
    for verdict in verdicts:
        if last and last != verdict.claim.id:
            table.add_section()
        number = verdict.claim.id if last != verdict.claim.id else ""
        last = verdict.claim.id
        cells = [_finding(verdict.findings.get(profile)) for profile in profiles]
        table.add_row(number, verdict.statement, *cells, Text(verdict.verdict, style=_TONES[verdict.tone]))
    return table


def _finding(finding: Finding | None) -> Text:
    if finding is None:
        return Text("")
    mark = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("– ", "dim")}[finding.met]
    text = Text.assemble(mark, f"{_figure(finding.conventional)} → {_figure(finding.gateway)}")
    if finding.gain:
        text.append(f"  {finding.gain}", style="bold")
    if finding.note:
        text.append(f"\n{finding.note}", style="dim")
    return text


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    return figure.text if figure.kind.value == "measured" else f"{figure.text} ({figure.kind.value})"


def theory_table(results: Results) -> Table:
    """Measured figures beside their closed forms."""
    table = _table("Measured beside theory", box.SIMPLE_HEAD)
    table.add_column("variant", overflow="fold")
    table.add_column("figure", overflow="fold")
    for name in ("measured", "theory", "apart"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in theory_rows(results):
        name = f"{row.workload}.{row.metric}"
        table.add_row(row.variant, name, row.measured, row.theory, row.relative or row.difference)
    return table


def faults_table(faults: FaultTable) -> Table:
    """What each fault cost the probes of one workload."""
    table = _table(f"Faults: {faults.variant}, {faults.workload}", box.SIMPLE_HEAD)
    table.add_column("at", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for name in ("lost", "pairs hit", "recovered, median", "longest", "stayed apart"):
        table.add_column(name, justify="right")
    for row in faults.rows:
        table.add_row(row.at, Text(row.title, style="green" if row.repairs else "red"), *row.figures)
    return table


def figure_tables_text(results: Results) -> list[Table]:
    """All figures, a table for each workload; variants are rows where there are more of them than fit."""
    tables = []
    for data in figure_tables(results):
        table = _table(data.title)
        table.add_column("metric", overflow="fold")
        table.add_column("kind")
        if len(data.variants) <= 4:
            for variant in data.variants:
                table.add_column(variant, justify="right", overflow="fold")
            for row in data.rows:
                table.add_row(row.metric, row.kind.value, *row.cells)
        else:
            table.add_column("variant", overflow="fold")
            table.add_column("figure", justify="right", no_wrap=True)
            for row in data.rows:
                for variant, cell in zip(data.variants, row.cells, strict=True):
                    if cell:
                        table.add_row(row.metric, row.kind.value, variant, cell)
        tables.append(table)
    return tables


def _table(title: str, borders: box.Box = box.HEAVY_HEAD) -> Table:
    return Table(
        title=Text(title), title_justify="left", title_style="bold", header_style="bold", box=borders, pad_edge=False
    )
