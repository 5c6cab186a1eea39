"""Figures of a job: its rounds, what interruptions cost it, what is left of its speed, and what changes cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from emulator.model.workload import CollectiveJob
from emulator.results.records import Record
from emulator.workloads.context import Context, Findings

_SOURCE = "kernel clock, when the last rank was through with a round"
_MODEL = "cost model on the routes in force"


@dataclass(frozen=True)
class Era:
    """Rounds that were done by the same ranks with the same schedule.

    Attributes:
        names: Hosts by rank.
        algorithm: The schedule.
        predicted_ns: What a round among others should take.
        began_ns: When the first one began.
        ends_ns: When each was over.
    """

    names: tuple[str, ...]
    algorithm: str
    predicted_ns: float
    began_ns: int
    ends_ns: tuple[int, ...]

    @property
    def round_ns(self) -> float | None:
        """What a round takes on average: from one end to the next, without the first, if there are enough."""
        if len(self.ends_ns) > 1:
            return (self.ends_ns[-1] - self.ends_ns[0]) / (len(self.ends_ns) - 1)
        return float(self.ends_ns[0] - self.began_ns) if self.ends_ns else None


@dataclass(frozen=True)
class Interruption:
    """Something broke and was gone around.

    Attributes:
        detected_ns: When the job noticed.
        resumed_ns: When it could go on.
        era: Number of the era that began then.
        broken: Names of the links that have no carrier.
        routes: Routes that were changed.
    """

    detected_ns: int
    resumed_ns: int
    era: int
    broken: tuple[str, ...]
    routes: int


def figures(
    workload: CollectiveJob,
    context: Context,
    start_ns: int,
    eras: Sequence[Era],
    interruptions: Sequence[Interruption],
    wrong: int,
) -> list[Record]:
    """Make records, and leave ``collective-job-<workload>.json`` in the cell's folder."""
    findings = Findings(context, workload)
    ends = [end for era in eras for end in era.ends_ns]
    findings.measured("rounds", len(ends), "1", "rounds that all ranks were through with")
    findings.measured("wrong", wrong, "1", "every number of every rank against the truth, all rounds")
    longest = max(later - earlier for earlier, later in pairwise([start_ns, *ends]))
    findings.measured("longest_gap", longest, "ns", f"{_SOURCE}; between two rounds' ends")
    if eras and eras[0].round_ns:
        findings.measured("round", eras[0].round_ns, "ns", f"{_SOURCE}; before anything happened")
        findings.theory("round", eras[0].predicted_ns, "ns", f"{_MODEL}; {eras[0].algorithm}")
    _interrupted(findings, context, eras, interruptions)
    _changed(findings, eras, interruptions)
    findings.modelled("detect", workload.detect_ns, "ns", "stated: time without an arrival until ranks give up")
    findings.modelled("react", workload.react_ns, "ns", "stated: time of the manager and the job to go on")
    content = {
        "workload": workload.name,
        "start_ns": start_ns,
        "eras": [
            {
                "ranks": len(era.names),
                "algorithm": era.algorithm,
                "predicted_ns": era.predicted_ns,
                "began_ns": era.began_ns - start_ns,
                "ends_ns": [end - start_ns for end in era.ends_ns],
            }
            for era in eras
        ],
        "interruptions": [
            {
                "detected_ns": one.detected_ns - start_ns,
                "resumed_ns": one.resumed_ns - start_ns,
                "broken": list(one.broken),
                "routes": one.routes,
            }
            for one in interruptions
        ],
    }
    path = context.work_dir / f"collective-job-{workload.name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return findings.records


def _interrupted(
    findings: Findings, context: Context, eras: Sequence[Era], interruptions: Sequence[Interruption]
) -> None:
    findings.measured("interruptions", len(interruptions), "1", "times that the job stopped and went on")
    happened = [one.at_ns for one in context.occasion.happened()]
    for number, one in enumerate(interruptions):
        before = [at for at in happened if at <= one.detected_ns]
        if before:
            struck = before[-1]
            findings.measured(f"detected_{number}", one.detected_ns - struck, "ns", "from the last fault before")
            findings.measured(f"resumed_{number}", one.resumed_ns - struck, "ns", "the same, until the job went on")
        findings.measured(f"routes_{number}", one.routes, "1", "routes that the fabric's manager changed")
        if one.era >= len(eras):
            continue
        era, first = eras[one.era], eras[0]
        findings.measured(f"ranks_{number}", len(era.names), "1", "ranks that went on")
        if before and era.ends_ns:
            findings.measured(f"recovered_{number}", era.ends_ns[0] - before[-1], "ns", "until a round was over again")
        if era.round_ns and first.round_ns:
            findings.measured(f"round_{number}", era.round_ns, "ns", _SOURCE)
            findings.theory(f"round_{number}", era.predicted_ns, "ns", f"{_MODEL}; {era.algorithm}")
            findings.measured(f"left_{number}", first.round_ns / era.round_ns, "1", "bandwidth of that before")
            findings.theory(f"left_{number}", first.predicted_ns / era.predicted_ns, "1", _MODEL)


def _changed(findings: Findings, eras: Sequence[Era], interruptions: Sequence[Interruption]) -> None:
    """Eras that began because cards joined or left."""
    repaired = {one.era for one in interruptions}
    changes = [number for number in range(1, len(eras)) if number not in repaired]
    for count, number in enumerate(changes):
        before, era = eras[number - 1], eras[number]
        if not before.ends_ns or not era.ends_ns or era.round_ns is None:
            continue
        findings.measured(f"members_{count}", len(era.names), "1", "ranks after the change")
        findings.measured(f"member_round_{count}", era.round_ns, "ns", _SOURCE)
        findings.theory(f"member_round_{count}", era.predicted_ns, "ns", f"{_MODEL}; {era.algorithm}")
        gap = era.began_ns - before.ends_ns[-1]
        findings.measured(f"change_{count}", gap, "ns", "from the last round's end until the next one began")
