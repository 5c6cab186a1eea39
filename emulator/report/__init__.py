"""From a results folder to verdicts, tables, plots and one page. Reads results folders and nothing else."""

from emulator.report.claims import Claim, Verdict, all_claims, examined, judge, not_examined
from emulator.report.html import render_html, write_report
from emulator.report.tables import print_results
from emulator.report.timeline import write_timeline

__all__ = [
    "Claim",
    "Verdict",
    "all_claims",
    "examined",
    "judge",
    "not_examined",
    "print_results",
    "render_html",
    "write_report",
    "write_timeline",
]
