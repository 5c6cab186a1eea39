"""Figures of a collective: records, and the same in the words of nccl-tests in a side file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emulator.collectives import Collective
from emulator.collectives.cost import bandwidths, bound_ns
from emulator.collectives.nccl_format import Line, Timing, to_json
from emulator.collectives.payload import DATA_TYPES
from emulator.model.workload import CollectiveRun
from emulator.results.records import Record
from emulator.units import format_size
from emulator.workloads.collective.choice import Choice
from emulator.workloads.context import Context, Findings

_SOURCE = "ranks over TCP, from the common start until the last rank has the result, by iterations"
_MODEL = "cost model, message by message"
_ESTIMATE = "cost model, step by step"
_BOUND = "what every rank has to send at least, over all of its links at once"
_ROOTED = (Collective.BROADCAST, Collective.REDUCE)


@dataclass(frozen=True)
class Measured:
    """One size.

    Attributes:
        ranking: The schedule that was carried out, and those that should take longer.
        size_bytes: The size.
        time_ns: From the start until the last rank is done, by iterations.
        first_ns: The same until the first rank is done.
        wrong: Numbers that were not what they should be, warm-up included.
    """

    ranking: tuple[Choice, ...]
    size_bytes: int
    time_ns: float
    first_ns: float
    wrong: int


def figures(
    workload: CollectiveRun, context: Context, measured: Sequence[Measured], foretold: Sequence[tuple[int, Choice]]
) -> list[Record]:
    """Make records, and leave ``collective-<workload>.json`` in the cell's folder.

    Args:
        workload: What was done.
        context: Where.
        measured: What came of it.
        foretold: Sizes that were predicted only, with the schedules that should be quickest.
    """
    findings = Findings(context, workload)
    kind, ranks = Collective(workload.collective), len(workload.ranks)
    details = []
    for one in measured:
        word = format_size(one.size_bytes).replace(" ", "")
        prediction = one.ranking[0].prediction
        algbw, busbw = bandwidths(kind, ranks, one.size_bytes, one.time_ns)
        bound = _bound_ns(workload, context, one.size_bytes)
        findings.measured(f"time_{word}", one.time_ns, "ns", _SOURCE)
        findings.measured(f"algbw_{word}", algbw * 8e9, "bit/s", f"{_SOURCE}; size by time")
        findings.measured(f"busbw_{word}", busbw * 8e9, "bit/s", f"{_SOURCE}; as nccl-tests define it")
        findings.measured(f"wrong_{word}", one.wrong, "1", "every number of every rank against the truth")
        model = _model(one.ranking[0])
        findings.theory(f"time_{word}", prediction.time_ns, "ns", f"{model}: {one.ranking[0].schedule.name}")
        findings.measured(
            f"model_error_{word}", prediction.time_ns / one.time_ns - 1, "1", f"{model}, relative to what was measured"
        )
        if bound:
            findings.theory(f"bound_{word}", bound, "ns", _BOUND)
            findings.measured(f"of_bound_{word}", bound / one.time_ns, "1", f"{_BOUND}; part of the bandwidth used")
        details.append(_detail(workload, one, bound))
    if len(measured) > 1:
        errors = [abs(one.ranking[0].prediction.time_ns / one.time_ns - 1) for one in measured]
        findings.measured(
            "model_error_mean", sum(errors) / len(errors), "1", "cost model, mean over all sizes, unsigned"
        )
        findings.measured("model_error_worst", max(errors), "1", "cost model, worst size, unsigned")
    for size, choice in foretold:
        word = format_size(size).replace(" ", "")
        source = f"{_model(choice)}: {choice.schedule.name}; not measured"
        findings.theory(f"time_{word}", choice.prediction.time_ns, "ns", source)
    findings.modelled("reduce_rate", workload.reduce_bps, "bit/s", "stated: what a card adds up, see docs/workloads.md")
    lines = [_line(workload, one) for one in measured]
    content: dict[str, Any] = {
        "scenario": context.scenario,
        "variant": context.variant,
        "workload": workload.name,
        "collective": kind.value,
        "ranks": list(workload.ranks),
        "shape": list(workload.grid),
        "topology": context.ways.fabric.name if context.ways else "",
        "settings": {
            "factor": workload.factor,
            "iterations": workload.iterations,
            "warm_up": workload.warm_up,
            "datatype": workload.datatype,
            "item_bytes": DATA_TYPES[workload.datatype].dtype.itemsize,
            "operation": workload.operation,
            "congestion": workload.congestion,
            "buffer_bytes": workload.buffer_bytes,
            "reduce_bps": workload.reduce_bps,
            "message_ns": workload.message_ns,
        },
        "sizes": details,
        "foretold": [
            {"size_bytes": size, "algorithm": one.schedule.name, "predicted_ns": one.prediction.time_ns}
            for size, one in foretold
        ],
        "nccl": to_json(lines),
    }
    path = context.work_dir / f"collective-{workload.name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return findings.records


def _model(choice: Choice) -> str:
    return _MODEL if choice.prediction.followed else _ESTIMATE


def _bound_ns(workload: CollectiveRun, context: Context, size_bytes: int) -> float | None:
    kind = Collective(workload.collective)
    if context.ways is None or kind in _ROOTED:
        return None
    ports = [[link.spec for link in context.ways.fabric.links_of(name)] for name in workload.ranks]
    return max(bound_ns(kind, len(workload.ranks), size_bytes, one) for one in ports)


def _line(workload: CollectiveRun, one: Measured) -> Line:
    return Line(
        Collective(workload.collective),
        len(workload.ranks),
        one.size_bytes,
        out_of_place=Timing(one.time_ns, one.wrong),
        item_bytes=DATA_TYPES[workload.datatype].dtype.itemsize,
        type_name=workload.datatype,
        reduced_by=workload.operation,
        root=one.ranking[0].schedule.root,
    )


def _detail(workload: CollectiveRun, one: Measured, bound: float | None) -> dict[str, Any]:
    chosen = one.ranking[0]
    algbw, busbw = bandwidths(Collective(workload.collective), len(workload.ranks), one.size_bytes, one.time_ns)
    return {
        "size_bytes": one.size_bytes,
        "algorithm": chosen.schedule.name,
        "root": chosen.schedule.root,
        "steps": len(chosen.schedule),
        "time_ns": one.time_ns,
        "first_rank_ns": one.first_ns,
        "algbw_gbyte_s": algbw,
        "busbw_gbyte_s": busbw,
        "wrong": one.wrong,
        "predicted_ns": chosen.prediction.time_ns,
        "followed": chosen.prediction.followed,
        "bound_ns": bound,
        "busiest_link": chosen.prediction.busiest,
        "busiest_bytes": chosen.prediction.busiest_bytes,
        "others_ns": {other.schedule.name: other.prediction.time_ns for other in one.ranking[1:]},
    }
