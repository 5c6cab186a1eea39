"""How each claim is judged: pure functions from a run's evidence under one profile to what was found.

A stated figure counts as met when the measured one, rounded to the last digit that the claim is written with, is equal
or better (for the conventional design: equal or worse, since the claim is how bad that is). Nothing here was chosen
by looking at results; where there is no figure, nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emulator.report.evidence import CellEvidence, Evidence
from emulator.report.figures import percent, ratio, with_unit
from emulator.report.judgement import Criterion, Figure, Finding, rounded
from emulator.results.records import Kind, Record

TRAVERSAL, RANDOM_READ, CROSS_ZONE = "traversal", "random_read", "cross_zone"
SMALL_PACKETS, TRAINING_READ, CHECKPOINT = "small_packets", "training_read", "checkpoint"
FABRIC = "fabric"
"""Names of the workloads that the judgements look at, as in scenarios/demo.yaml."""

_US, _MS, _S, _MIN = 1e3, 1e6, 1e9, 60e9


def _shown(record: Record | None) -> Figure | None:
    return Figure(with_unit(record.value, record.unit), record.kind) if record else None


def _share(record: Record | None) -> Figure | None:
    return Figure(percent(record.value), record.kind) if record else None


def _look(cell: CellEvidence | None, workload: str, metric: str) -> Record | None:
    return cell.figure(workload, metric) if cell else None


def _gain(worse: Record | None, better: Record | None) -> str:
    return ratio(worse.value, better.value) if worse and better else ""


# G01 ----------------------------------------------------------------------------------------------------------------


def _per_traversal(cell: CellEvidence | None) -> float | None:
    """Time in ns that one crossing of one visited node adds to a ping."""
    rtt = _look(cell, TRAVERSAL, "rtt_mean")
    if cell is None or rtt is None or not cell.visits:
        return None
    links_ns = cell.links_only_rtt_ns(TRAVERSAL)
    return None if links_ns is None else (rtt.value - links_ns) / (2 * len(cell.visits))


def _traversal(evidence: Evidence, design: str, met: Callable[[float], bool]) -> Finding:
    values = {name: _per_traversal(evidence.cells.get(name)) for name in ("conventional", "gateway")}
    figures = {
        name: None if value is None else Figure(with_unit(round(value, 1), "ns"), Kind.MEASURED)
        for name, value in values.items()
    }
    value, before, after = values[design], values["conventional"], values["gateway"]
    gain = ratio(before, after) if before is not None and after is not None else ""
    note = "conventional: mean over router and compute node" if before is not None else ""
    return Finding(None if value is None else met(value), figures["conventional"], figures["gateway"], gain, note)


_TRAVERSAL_HOW = (
    "Mean round trip of the ping '{workload}' less the time of its links (theory), divided by the crossings of visited "
    "nodes, in whole µs: {bound}. The profile's latency is an input, so this checks that packets really pay it."
)


# G02 ----------------------------------------------------------------------------------------------------------------


def read_latency(depth: int, what: str = "mean") -> str:
    """Metric of the random reads at a queue depth."""
    return f"latency_{what}_qd{depth}"


def depths(cell: CellEvidence | None, workload: str = RANDOM_READ, prefix: str = "latency_mean_qd") -> list[int]:
    """Queue depths at which a workload was measured, ascending."""
    names = [record.metric for record in cell.records if record.workload == workload] if cell else []
    return sorted({int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)})


def _read_at_most(metric: str) -> Callable[[Evidence], Finding]:
    def judge(evidence: Evidence) -> Finding:
        before, after = _look(evidence.conventional, RANDOM_READ, metric), _look(evidence.gateway, RANDOM_READ, metric)
        met = None if after is None else rounded(after.value, _US) <= 80
        return Finding(met, _shown(before), _shown(after), _gain(before, after))

    return judge


def _read_all_depths(evidence: Evidence) -> Finding:
    cell = evidence.gateway
    tried = depths(cell)
    if len(tried) < 2:
        return Finding(None)
    values = {depth: _look(cell, RANDOM_READ, read_latency(depth)) for depth in tried}
    good = [depth for depth, record in values.items() if record and rounded(record.value, _US) <= 80]
    slow = [depth for depth in tried if depth not in good]
    deepest = tried[-1]
    note = f"at depths {', '.join(map(str, good)) or 'none'} yes" + (
        f", at {', '.join(map(str, slow))} no" if slow else ""
    )
    return Finding(
        not slow,
        _shown(_look(evidence.conventional, RANDOM_READ, read_latency(deepest))),
        _shown(values[deepest]),
        _gain(_look(evidence.conventional, RANDOM_READ, read_latency(deepest)), values[deepest]),
        note,
    )


def _read_gain(evidence: Evidence) -> Finding:
    metric = read_latency(1)
    before, after = _look(evidence.conventional, RANDOM_READ, metric), _look(evidence.gateway, RANDOM_READ, metric)
    if before is None or after is None or after.value <= 0:
        return Finding(None, _shown(before), _shown(after))
    met = rounded(before.value / after.value, 1) >= 12
    return Finding(met, _shown(before), _shown(after), _gain(before, after))


# G03, G04, G05 ------------------------------------------------------------------------------------------------------


def _cross_zone(evidence: Evidence) -> Finding:
    cell = evidence.conventional
    before, after = _look(cell, CROSS_ZONE, "rtt_mean"), _look(evidence.gateway, CROSS_ZONE, "rtt_mean")
    links_ns = cell.links_only_rtt_ns(CROSS_ZONE) if cell else None
    note = f"{with_unit(links_ns, 'ns')} of it are links, whatever the design" if links_ns is not None else ""
    return Finding(before.value >= _MS if before else None, _shown(before), _shown(after), _gain(before, after), note)


def _small_packets(evidence: Evidence) -> Finding:
    before = _look(evidence.conventional, SMALL_PACKETS, "useful_share")
    after = _look(evidence.gateway, SMALL_PACKETS, "useful_share")
    return Finding(before.value < 0.30 if before else None, _share(before), _share(after), _gain(after, before))


def _training_share(cell: CellEvidence | None) -> Record | None:
    tried = depths(cell, TRAINING_READ, "bandwidth_share_qd")
    return _look(cell, TRAINING_READ, f"bandwidth_share_qd{tried[-1]}") if tried else None


def _utilization(design: str, met: Callable[[float], bool]) -> Callable[[Evidence], Finding]:
    def judge(evidence: Evidence) -> Finding:
        found = {name: _training_share(evidence.cells.get(name)) for name in ("conventional", "gateway")}
        record = found[design]
        return Finding(
            met(record.value) if record else None,
            _share(found["conventional"]),
            _share(found["gateway"]),
            _gain(found["gateway"], found["conventional"]),
        )

    return judge


# G09, G10 -----------------------------------------------------------------------------------------------------------


def _around_compute(evidence: Evidence) -> Finding:
    before, after = (
        _look(cell, FABRIC, "storage_bytes_through_compute") for cell in (evidence.conventional, evidence.gateway)
    )
    stored = _look(evidence.gateway, FABRIC, "storage_bytes")
    if after is None or stored is None or stored.value <= 0:
        return Finding(None, _shown(before), _shown(after))
    if before is None or before.value <= 0:
        # A counter that never counted proves nothing by staying at zero.
        return Finding(
            None, _shown(before), _shown(after), note="nothing crossed them in the conventional design either"
        )
    note = f"of {with_unit(stored.value, 'B')} in and out of storage nodes"
    return Finding(after.value == 0, _shown(before), _shown(after), note=note)


def _same_fabric(evidence: Evidence) -> Finding:
    before = evidence.conventional.cell.fabric if evidence.conventional else None
    after = evidence.gateway.cell.fabric if evidence.gateway else None
    if before is None or after is None:
        return Finding(None)
    shown = [
        Figure(f"{len(fabric.hosts)} hosts, {len(fabric.switches)} switches, {len(fabric.links)} links", Kind.MODELLED)
        for fabric in (before, after)
    ]
    return Finding((before.nodes, before.links) == (after.nodes, after.links), shown[0], shown[1])


# G15 ----------------------------------------------------------------------------------------------------------------


def _checkpoint(design: str, met: Callable[[float], bool]) -> Callable[[Evidence], Finding]:
    def judge(evidence: Evidence) -> Finding:
        found = {
            name: _look(evidence.cells.get(name), CHECKPOINT, "duration_full") for name in ("conventional", "gateway")
        }
        record = found[design]
        return Finding(
            met(record.value) if record else None,
            _shown(found["conventional"]),
            _shown(found["gateway"]),
            _gain(found["conventional"], found["gateway"]),
        )

    return judge


CRITERIA: Sequence[Criterion] = (
    Criterion(
        "G01",
        "a traversal takes 100 µs in the conventional design",
        _TRAVERSAL_HOW.format(workload=TRAVERSAL, bound="at least 100 in the conventional design"),
        lambda evidence: _traversal(evidence, "conventional", lambda value: rounded(value, _US) >= 100),
    ),
    Criterion(
        "G01",
        "a traversal takes 5 µs at the gateway",
        _TRAVERSAL_HOW.format(workload=TRAVERSAL, bound="at most 5 at the gateway"),
        lambda evidence: _traversal(evidence, "gateway", lambda value: rounded(value, _US) <= 5),
    ),
    Criterion(
        "G02",
        "storage access takes at most 80 µs",
        "Mean latency of 4 KiB random reads at queue depth 1 through the gateway, in whole µs, is at most 80.",
        _read_at_most(read_latency(1)),
    ),
    Criterion(
        "G02",
        "and does so steadily",
        "The 99th percentile of the same reads, in whole µs, is at most 80.",
        _read_at_most(read_latency(1, "p99")),
    ),
    Criterion(
        "G02",
        "also at higher queue depths (not stated; figures shown are of the deepest)",
        "Mean latency at every queue depth that was run, in whole µs, is at most 80.",
        _read_all_depths,
    ),
    Criterion(
        "G02",
        "12 times faster than the conventional design",
        "Mean latency at queue depth 1 in the conventional design divided by that through the gateway, in whole times, "
        "is at least 12.",
        _read_gain,
    ),
    Criterion(
        "G03",
        "a round trip to the other zone takes milliseconds in the conventional design",
        "Mean round trip from a GPU node to a storage node of the other zone in the conventional design is at least 1 "
        "ms.",
        _cross_zone,
    ),
    Criterion(
        "G04",
        "less than 30 % of the bandwidth is useful with small packets in the conventional design",
        "Payload that arrives in the conventional design, as a share of the line rate, is below 30 %.",
        _small_packets,
    ),
    Criterion(
        "G05",
        "32 % of the storage bandwidth is used in the conventional design",
        "Payload rate of the training reads divided by the line rate of the storage node's link in the conventional "
        "design, in whole %, is at most 32.",
        _utilization("conventional", lambda share: rounded(share, 0.01) <= 32),
    ),
    Criterion(
        "G05",
        "92 % is used through the gateway",
        "The same through the gateway, in whole %, is at least 92.",
        _utilization("gateway", lambda share: rounded(share, 0.01) >= 92),
    ),
    Criterion(
        "G09",
        "no storage traffic crosses general compute nodes",
        "Port counters of general compute nodes saw 0 storage bytes in the gateway design while storage nodes sent; "
        "that they saw some in the conventional design shows that they count.",
        _around_compute,
    ),
    Criterion(
        "G10",
        "no extra network: the same links and hosts in both designs",
        "All nodes and links of the two designs' fabrics, with their rates, delays, addresses and ports, are equal.",
        _same_fabric,
    ),
    Criterion(
        "G15",
        "saving 1 TB takes 23 min in the conventional design",
        "Duration of a smaller checkpoint, really written, scaled to 1 TB, in whole minutes, is at least 23 in the "
        "conventional design.",
        _checkpoint("conventional", lambda value: rounded(value, _MIN) >= 23),
    ),
    Criterion(
        "G15",
        "saving 1 TB takes 90 s through the gateway",
        "The same through the gateway, in whole seconds, is at most 90.",
        _checkpoint("gateway", lambda value: rounded(value, _S) <= 90),
    ),
)
