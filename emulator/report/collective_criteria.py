"""How the claims about collectives are judged; see `emulator.report.criteria`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from emulator.collectives import Collective
from emulator.collectives.cost import bound_ns
from emulator.report.collectives import Times, times_of
from emulator.report.evidence import CellEvidence, Evidence
from emulator.report.figures import percent, ratio, with_unit
from emulator.report.judgement import Criterion, Figure, Finding
from emulator.results.records import Kind

ALL_REDUCE, RING, TORUS, JOB, MIXED = "allreduce", "ring", "torus", "job", "mixed"
"""Names of the workloads that the judgements look at, as in scenarios/supernode."""

_LIMIT_NS = 500_000.0
_FULL_SHARE = 0.9
_BEFORE_NS, _AFTER_NS = 15e6, 1.2e6
_CARDS = 256
_MANY_CARDS = 10_000
_GAIN = _BEFORE_NS / _AFTER_NS


def _only_cell(evidence: Evidence) -> CellEvidence | None:
    return evidence.cells.get("shortest-path")


def _times(cell: CellEvidence | None, workload: str) -> Times:
    return times_of(record for record in (cell.records if cell else ()) if record.workload == workload)


def _ranks(cell: CellEvidence | None, workload: str) -> int:
    return len(cell.workload(workload).get("ranks", ())) if cell else 0


def _size(value: int) -> str:
    return with_unit(value, "B")


def _measured(value: float) -> Figure:
    return Figure(with_unit(value, "ns"), Kind.MEASURED)


# S06 ----------------------------------------------------------------------------------------------------------------


def _under_limit(evidence: Evidence) -> Finding:
    cell = _only_cell(evidence)
    times = _times(cell, ALL_REDUCE)
    if _ranks(cell, ALL_REDUCE) != _CARDS or not times.measured:
        return Finding(None)
    largest = max(times.measured)
    slow = [size for size, time in times.measured.items() if time >= _LIMIT_NS]
    beyond = [size for size, time in times.foretold.items() if time < _LIMIT_NS]
    note = f"measured from {_size(min(times.measured))} to {_size(largest)}"
    if beyond:
        note += f"; by the model up to {_size(max(beyond))} of the sizes that were tried"
    return Finding(not slow, None, _measured(times.measured[largest]), note=note)


def _at_full_bandwidth(evidence: Evidence) -> Finding:
    cell = _only_cell(evidence)
    times = _times(cell, ALL_REDUCE)
    if cell is None or cell.cell.fabric is None or _ranks(cell, ALL_REDUCE) != _CARDS or not times.foretold:
        return Finding(None)
    known = {**times.foretold, **times.measured}
    quick = [size for size, time in known.items() if time < _LIMIT_NS]
    if not quick:
        return Finding(False)
    size = max(quick)
    first = cell.workload(ALL_REDUCE)["ranks"][0]
    ports = [link.spec for link in cell.cell.fabric.links_of(first)]
    share = bound_ns(Collective.ALL_REDUCE, _CARDS, size, ports) / known[size]
    kind = Kind.MEASURED if size in times.measured else Kind.THEORY
    note = f"{percent(share)} of what a card's links carry, with {_size(size)}"
    return Finding(share >= _FULL_SHARE, None, Figure(with_unit(known[size], "ns"), kind), note=note)


# S14 ----------------------------------------------------------------------------------------------------------------


def _aware(evidence: Evidence) -> Finding:
    cell = _only_cell(evidence)
    flat, chosen = _times(cell, RING).measured, _times(cell, TORUS).measured
    sizes = sorted(set(flat) & set(chosen))
    if not sizes:
        return Finding(None)
    size = sizes[-1]
    return Finding(
        all(chosen[one] < flat[one] for one in sizes),
        _measured(flat[size]),
        _measured(chosen[size]),
        ratio(flat[size], chosen[size]),
        f"{_ranks(cell, RING)} cards, {_size(size)}: a flat ring, and the schedule that the cost model chose",
    )


# G14 ----------------------------------------------------------------------------------------------------------------


def _crossing(times: Times, limit_ns: float) -> str:
    """The size that takes a time, between the measured ones on either side of it."""
    points = list(times.measured.items())
    for (small, quick), (large, slow) in pairwise(points):
        if quick <= limit_ns <= slow:
            return _size(round(small + (large - small) * (limit_ns - quick) / (slow - quick)))
    return ""


def _reduced(design: str, met: Callable[[float], bool]) -> Callable[[Evidence], Finding]:
    def judge(evidence: Evidence) -> Finding:
        before, after = (_times(evidence.cells.get(name), ALL_REDUCE) for name in ("conventional", "gateway"))
        sizes = sorted(set(before.measured) & set(after.measured))
        if not sizes:
            return Finding(None)
        size = sizes[-1]
        gains = [before.measured[one] / after.measured[one] for one in sizes]
        own = before if design == "conventional" else after
        where = _crossing(own, _BEFORE_NS if design == "conventional" else _AFTER_NS)
        note = f"figures are of {_size(size)}" + (f"; the stated time is that of {where} here" if where else "")
        return Finding(
            met(max(gains)),
            _measured(before.measured[size]),
            _measured(after.measured[size]),
            ratio(before.measured[size], after.measured[size]),
            note,
        )

    return judge


_GAIN_HOW = (
    "Time of an AllReduce of 8 nodes at 100 Gbit/s in the conventional design divided by that in the gateway design "
    "is, at some size that was measured, at least 15 ms / 1.2 ms = 12.5."
)

# S05, G22, G32 -----------------------------------------------------------------------------------------------------


def _figures(cell: CellEvidence | None, workload: str, prefix: str) -> list[float]:
    """Measured figures that have a number: of the first, of the second, and so on."""
    values: list[float] = []
    while cell is not None and (record := cell.figure(workload, f"{prefix}_{len(values)}", Kind.MEASURED)):
        values.append(float(record.value))
    return values


def _value(cell: CellEvidence | None, metric: str) -> float | None:
    record = cell.figure(JOB, metric, Kind.MEASURED) if cell else None
    return float(record.value) if record else None


def _goes_on(evidence: Evidence) -> Finding:
    cell = _only_cell(evidence)
    recovered, left, wrong = _figures(cell, JOB, "recovered"), _figures(cell, JOB, "left"), _value(cell, "wrong")
    if cell is None or cell.cell.info.topology != "torus3d" or not recovered or wrong is None:
        return Finding(None)
    done = _value(cell, "rounds") == cell.workload(JOB).get("rounds")
    stopped = {mark.title for mark in cell.cell.side.events.faults if mark.title.startswith("stop ")}
    at_first, at_last = _ranks(cell, JOB), _figures(cell, JOB, "ranks")[-1:]
    others = all(at_first - ranks <= len(stopped) for ranks in at_last) or bool(cell.workload(JOB).get("changes"))
    note = f"{len(recovered)} times something broke; {percent(left[-1])} of the bandwidth were left" if left else ""
    return Finding(done and not wrong and others, None, _measured(max(recovered)), note=note)


def _without_break(evidence: Evidence) -> Finding:
    cell = _only_cell(evidence)
    changes, rounds, members = (_figures(cell, JOB, name) for name in ("change", "member_round", "members"))
    if not changes:
        return Finding(None)
    met = all(change < one for change, one in zip(changes, rounds, strict=True)) and not _value(cell, "wrong")
    note = f"longest of {len(changes)} changes, the largest to {max(members):.0f} cards"
    return Finding(met, None, _measured(max(changes)), note=note)


def _to_ten_thousand(evidence: Evidence) -> Finding:
    members = _figures(_only_cell(evidence), JOB, "members")
    if not members or max(members) < _MANY_CARDS:
        return Finding(None)
    return Finding(True, note=f"{max(members):.0f} cards")


def _mixed(evidence: Evidence) -> Finding:
    cell = _only_cell(evidence)
    times = _times(cell, MIXED)
    if cell is None or not cell.workload(MIXED).get("cards") or not times.measured:
        return Finding(None)
    wrong = sum(float(one.value) for one in cell.records if one.metric.startswith("wrong_"))
    largest = max(times.measured)
    return Finding(not wrong, None, _measured(times.measured[largest]), note=f"{_size(largest)}, every number right")


COLLECTIVE_CRITERIA: Sequence[Criterion] = (
    Criterion(
        "S06",
        "an AllReduce of 256 cards takes less than 500 µs",
        "Every size of the AllReduce that was measured takes less than 500 µs; the figure is the largest size's.",
        _under_limit,
    ),
    Criterion(
        "S06",
        "and does so at full bandwidth",
        "At the largest size, measured or foretold by the cost model, that takes less than 500 µs, at least 90 % of "
        "what the links of a card can carry are used.",
        _at_full_bandwidth,
    ),
    Criterion(
        "S14",
        "collectives are scheduled by topology",
        "At every size that was measured with both, the schedule that the cost model chose beats a flat ring.",
        _aware,
    ),
    Criterion(
        "G14",
        "an AllReduce takes 15 ms in the conventional design",
        _GAIN_HOW,
        _reduced("conventional", lambda gain: gain >= _GAIN),
    ),
    Criterion("G14", "1.2 ms in the gateway design", _GAIN_HOW, _reduced("gateway", lambda gain: gain >= _GAIN)),
    Criterion(
        "S05",
        "there is no single point of failure in the torus",
        "A job on a torus, links and cards of which fail, does all its rounds with all cards but the failed ones and "
        "gets every number right; the figure is the longest time from a fault until a round was over again.",
        _goes_on,
    ),
    Criterion(
        "G22",
        "cards join and leave without a break of the others",
        "After each change of members the next round begins sooner than a round takes, and every number is right; the "
        "figure is the longest wait.",
        _without_break,
    ),
    Criterion(
        "G22",
        "from one card to ten thousand",
        "A job has ten thousand members at some time.",
        _to_ten_thousand,
    ),
    Criterion(
        "G32",
        "different accelerators work together in one framework",
        "A collective among cards of different kinds gets every number right; the figure is its time at the last size.",
        _mixed,
    ),
)
