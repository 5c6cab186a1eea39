"""When things happen in a scenario: which workloads run together, when faults strike, and whether time is enough.

What can be said without a fabric is checked here; `emulator.scenario.resolve` checks links and switches.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.errors import ScenarioError
from emulator.model.fault import Fault
from emulator.model.workload import Workload, grouped
from emulator.scenario.document import Document
from emulator.scenario.fault import MOST_FAULTS
from emulator.scenario.problems import hint
from emulator.scenario.source import KeyPath, dotted, line_of
from emulator.units import format_time

_TIMED = ("poisson", "small_packets", "probe")
"""Kinds whose packets have departure times; a sending host has one place that holds them."""


def schedule_problems(document: Document, file: str, lines: Mapping[KeyPath, int]) -> list[ScenarioError]:
    """What is wrong with workloads that start together and, if that is well, with faults and with time itself."""
    return _together_problems(document, file, lines) or [
        *_fault_problems(document, file, lines),
        *_limit_problems(document, file, lines),
    ]


def _together_problems(document: Document, file: str, lines: Mapping[KeyPath, int]) -> list[ScenarioError]:
    """What is wrong with the workloads that start together."""
    problems = []
    names = [entry.name for entry in document.workloads]
    for index, entry in enumerate(document.workloads):
        path: KeyPath = ("workloads", index, "alongside")
        if entry.alongside and entry.alongside not in names[:index]:
            later = entry.alongside in names
            reason = (
                f"{entry.alongside!r} does not come before it: name an earlier workload"
                if later
                else f"there is no earlier workload {entry.alongside!r}{hint(entry.alongside, names[:index])}"
            )
            problems.append(_error(file, lines, path, reason))
    if problems:
        return problems
    for group in grouped([entry.build() for entry in document.workloads]):
        timed = [workload.name for workload in group if workload.kind in _TIMED]
        if len(timed) > 1:
            path = ("workloads", names.index(timed[1]), "alongside")
            reason = f"{timed[0]!r} and {timed[1]!r} both have packets with departure times: one at a time is possible"
            problems.append(_error(file, lines, path, reason))
    return problems


def faults_of(document: Document) -> tuple[Fault, ...]:
    """All faults of a document, in the order in which they happen."""
    workloads = [entry.build() for entry in document.workloads]
    found = [
        fault
        for index, entry in enumerate(document.faults)
        for fault in entry.faults(entry.during or workloads[0].name, index)
    ]
    return tuple(sorted(found, key=lambda fault: fault.at_ns))


def _fault_problems(document: Document, file: str, lines: Mapping[KeyPath, int]) -> list[ScenarioError]:
    """What is wrong with the faults' times, and with the workloads that they name."""
    problems = []
    workloads = [entry.build() for entry in document.workloads]
    groups = grouped(workloads)
    names = [workload.name for workload in workloads]
    for index, entry in enumerate(document.faults):
        path: KeyPath = ("faults", index)
        if entry.during is not None and entry.during not in names:
            reason = f"there is no workload {entry.during!r}{hint(entry.during, names)}"
            problems.append(_error(file, lines, (*path, "during"), reason))
        elif entry.during is None and len(groups) > 1:
            reason = f"workloads run one after the other: say which one's start counts, 'during' {' or '.join(names)}"
            problems.append(_error(file, lines, path, reason))
        elif late := _too_late(entry.faults(entry.during or names[0], index), groups):
            problems.append(_error(file, lines, (*path, "at"), late))
    if len(faults_of(document)) > MOST_FAULTS:
        problems.append(_error(file, lines, ("faults",), f"there are more than {MOST_FAULTS}"))
    return problems


def _too_late(faults: list[Fault], groups: list[list[Workload]]) -> str:
    """A reason, if the last of some faults comes when its workload has ended."""
    last = max(faults, key=lambda fault: fault.at_ns)
    group = next(one for one in groups if last.during in [workload.name for workload in one])
    lengths = [workload.length_ns for workload in group]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths) or last.at_ns < max(known):
        return ""
    who = f"{last.during!r} ends" if len(group) == 1 else "the workloads that start together end"
    return f"'{last.title}' comes at {format_time(last.at_ns)}, and {who} after {format_time(max(known))}"


def _limit_problems(document: Document, file: str, lines: Mapping[KeyPath, int]) -> list[ScenarioError]:
    """The first workload that cannot end within the limit on emulated time, by the lengths that are known."""
    limit_ns, needed_ns = document.limits.virtual_ns, 0
    names = [entry.name for entry in document.workloads]
    for group in grouped([entry.build() for entry in document.workloads]):
        longest = max(group, key=lambda workload: workload.length_ns or 0)
        needed_ns += longest.length_ns or 0
        if needed_ns > limit_ns:
            reason = (
                f"{longest.name!r} cannot end before {format_time(needed_ns)}, "
                f"and limits.virtual is {format_time(limit_ns)}"
            )
            return [_error(file, lines, ("workloads", names.index(longest.name)), reason)]
    return []


def _error(file: str, lines: Mapping[KeyPath, int], path: KeyPath, reason: str) -> ScenarioError:
    return ScenarioError(reason, file=file, line=line_of(lines, path), key=dotted(path))
