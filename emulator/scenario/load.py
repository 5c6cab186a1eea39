"""From a scenario file to validated data: what can be said without looking at the machine or building anything.

Every problem is found in one go. `check` returns all of them; `load` raises the first (in the order of the file)
and says how many more there are.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pydantic import ValidationError

from emulator.errors import ScenarioError
from emulator.scenario.document import Document, ExpectSection
from emulator.scenario.matrix import MAX_COMBINATIONS, Combination, combinations
from emulator.scenario.metrics import METRICS, has_metric
from emulator.scenario.model import Bound, Control, Expectation, Limits, Origin, Scenario, Variant
from emulator.scenario.problems import hint, problems_of
from emulator.scenario.schedule import faults_of, schedule_problems
from emulator.scenario.source import Source, dotted, line_of, parse_source, read_source

FABRIC = "fabric"
"""The workload that figures of links and ports belong to; no workload may be called so."""

_KEPT_LINES = ("topology", "workloads", "faults", "controller", "limits", "sampling", "capture", "designs", "profiles")
"""Parts of the file in which problems may be found later."""


def load(path: str | Path) -> Scenario:
    """Read and validate a scenario file.

    Raises:
        ScenarioError: The first problem of the file, with how many more there are.
    """
    return _one_or_raise(*_examine(read_source(path)))


def loads(text: str, file: str = "<text>") -> Scenario:
    """As `load`, from text; *file* is only named in errors."""
    return _one_or_raise(*_examine(parse_source(text, file)))


def check(path: str | Path) -> list[ScenarioError]:
    """All problems of a scenario file, in the order of the file; empty if it is valid."""
    try:
        return _examine(read_source(path))[1]
    except ScenarioError as error:
        return [error]


def _one_or_raise(scenario: Scenario | None, problems: list[ScenarioError]) -> Scenario:
    if problems:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ScenarioError(first.reason + more, file=first.file, line=first.line, key=first.key)
    if scenario is None:
        raise ScenarioError("says nothing")
    return scenario


def _examine(source: Source) -> tuple[Scenario | None, list[ScenarioError]]:
    # The file must be valid by itself, which is what its JSON schema says; then with every combination of the matrix.
    try:
        document = Document.model_validate(source.data)
    except ValidationError as error:
        return None, problems_of(error, source.file, source.lines)
    problems = _cross_check(document, source)
    if problems:
        return None, problems
    variants: list[Variant] = []
    try:
        for combination in combinations(source):
            try:
                varied = Document.model_validate(combination.data)
                problems += schedule_problems(varied, source.file, combination.lines)
                variants.append(_variant(varied, combination, source.file))
            except ValidationError as error:
                problems += problems_of(error, source.file, combination.lines)
    except ScenarioError as error:
        problems.append(error)
    runs = len(variants) * len(document.designs) * len(document.profiles)
    if runs > MAX_COMBINATIONS:
        problems.append(source.error(("matrix",), f"makes {runs} cells, at most {MAX_COMBINATIONS} are run"))
    problems = _without_repeats(problems)
    return (None if problems else _scenario(document, tuple(variants), source)), problems


def _without_repeats(problems: list[ScenarioError]) -> list[ScenarioError]:
    """A bad value of one axis shows up in every combination: keep one of each."""
    return list({str(problem): problem for problem in problems}.values())


def _cross_check(document: Document, source: Source) -> list[ScenarioError]:
    problems = []
    names = [entry.name for entry in document.workloads]
    kinds = {entry.name: entry.kind for entry in document.workloads}
    for index, name in enumerate(names):
        if name == FABRIC:
            problems.append(
                source.error(("workloads", index, "name"), f"{FABRIC!r} is kept for figures of links and ports")
            )
        if name in names[:index]:
            problems.append(source.error(("workloads", index, "name"), f"duplicate workload name {name!r}"))
    for key, values in (
        ("designs", document.designs),
        ("profiles", document.profiles),
        ("capture", document.capture),
    ):
        problems += [
            source.error((key,), f"{value!r} is given {count} times")
            for value, count in Counter(values).items()
            if count > 1
        ]
    for index, entry in enumerate(document.expect):
        if entry.workload not in (*names, FABRIC):
            reason = f"there is no workload {entry.workload!r}{hint(entry.workload, (*names, FABRIC))}"
            problems.append(source.error(("expect", index, "workload"), reason))
            continue
        kind = kinds.get(entry.workload, FABRIC)
        if not has_metric(kind, entry.metric):
            whose = "links and ports have" if kind == FABRIC else f"workloads of kind {kind} have"
            reason = f"{whose} no figure {entry.metric!r}{hint(entry.metric, METRICS[kind])}"
            problems.append(source.error(("expect", index, "metric"), reason))
    return problems


def _variant(document: Document, combination: Combination, file: str) -> Variant:
    limits = document.limits
    kept = {dotted(path): line for path, line in combination.lines.items() if path and path[0] in _KEPT_LINES}
    return Variant(
        label=combination.label,
        seed=document.seed,
        kind=document.topology.kind,
        parameters=document.topology.parameters(),
        workloads=tuple(entry.build() for entry in document.workloads),
        limits=Limits(limits.virtual_ns, limits.wall_ns, limits.memory_bytes),
        sampling_ns=document.sampling.interval_ns if document.sampling else None,
        origin=Origin(file, kept),
        faults=faults_of(document),
        control=Control(
            document.controller.spread,
            document.controller.balance_ns,
            document.controller.lldp_interval_ns,
            document.controller.detection_ns,
        ),
    )


def _scenario(document: Document, variants: tuple[Variant, ...], source: Source) -> Scenario:
    return Scenario(
        name=document.scenario,
        question=document.question,
        designs=document.designs,
        profiles=document.profiles,
        variants=variants,
        capture=document.capture,
        expectations=tuple(
            _expectation(entry, line_of(source.lines, ("expect", index))) for index, entry in enumerate(document.expect)
        ),
        file=source.file,
        text=source.text,
    )


def _expectation(entry: ExpectSection, line: int | None) -> Expectation:
    def bound(pair: tuple[float, str] | None) -> Bound | None:
        return Bound(*pair) if pair else None

    return Expectation(
        entry.workload,
        entry.metric,
        entry.variant,
        bound(entry.at_least),
        bound(entry.at_most),
        bound(entry.within),
        entry.of,
        line,
    )
