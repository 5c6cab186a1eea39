"""Results folders with made-up figures, for tests of reading and reporting. Nothing in them was ever measured.

``python tests/support/synthetic_results.py FOLDER`` writes one of each kind and their reports, to look at.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from emulator.model.codec import fabric_to_json
from emulator.model.distribution import Distribution
from emulator.model.fabric import Fabric
from emulator.model.profile import PROFILES
from emulator.model.theory import ping_rtt_ns
from emulator.report.evidence import VISITED_ROLES, path_through
from emulator.results import (
    CellInfo,
    Counters,
    Kind,
    Manifest,
    Measured,
    PortCounters,
    Record,
    ResultsFolder,
    Revision,
    Series,
    canonical_json,
    counters_to_json,
    distributions_to_json,
    series_to_json,
    write_part,
    write_side_file,
)
from emulator.scenario import Scenario, loads, resolve
from emulator.scenario.codec import workload_to_json
from topologies import FABRICS

NOTICE = "these figures are synthetic: they were drawn from a random generator for a test"

DEMO = """\
scenario: synthetic_demo
question: Does the report show a demo as it should? (synthetic figures)
topology: {kind: icgw, gpus: 4, compute: 2, gateways: 1, storage: 2}
designs: [conventional, gateway]
profiles: [documents]
workloads:
  - {name: traversal, kind: ping, source: g1, target: s1}
  - {name: random_read, kind: nvme, initiators: g1, target: s1, queue_depths: [1, 16, 64]}
  - {name: cross_zone, kind: ping, source: g1, target: s2}
  - {name: small_packets, kind: small_packets, source: g1, target: s1}
  - {name: training_read, kind: nvme, initiators: [g1, g2], target: s1, pattern: read, queue_depths: [8]}
  - {name: checkpoint, kind: checkpoint, initiators: [g1, g2], target: s1, size: 64 MiB, full_size: 1 TB}
"""

LINE_RATE = """\
scenario: synthetic_line_rate
question: Does the report show a matrix as it should? (synthetic figures)
topology: {kind: chain, hops: 1, rate: 100 Gbit/s}
matrix:
  topology.rate: [25 Gbit/s, 100 Gbit/s, 400 Gbit/s]
  topology.hops: [1, 3, 5]
workloads:
  - {name: rtt, kind: ping, source: h0, target: h1}
  - {name: bulk, kind: tcp, sources: h0, targets: h1, size: 1 MB}
expect:
  - {workload: bulk, metric: goodput, at_least: 99 %, of: theory}
"""


def write_demo(folder: Path, *, profiles: Sequence[str] = ("documents",), seed: int = 1) -> ResultsFolder:
    """A folder like that of the demo; under every profile but the first, figures are three times as good."""
    scenario = loads(DEMO.replace("profiles: [documents]", f"profiles: [{', '.join(profiles)}]"), "synthetic.yaml")
    return _write(folder, scenario, profiles, seed)


def write_line_rate(folder: Path, *, seed: int = 1) -> ResultsFolder:
    """A folder like that of a scenario with a matrix."""
    return _write(folder, loads(LINE_RATE, "synthetic.yaml"), ("documents",), seed)


def _write(folder: Path, scenario: Scenario, profiles: Sequence[str], seed: int) -> ResultsFolder:
    results = ResultsFolder.create(folder)
    infos = []
    for index, (info, fabric, records, random_) in enumerate(_cells(scenario, profiles, seed)):
        infos.append(info)
        cell = results.cell(index)
        write_part(cell, records)
        write_side_file(cell, "fabric.json", fabric_to_json(fabric))
        write_side_file(cell, "counters.json", counters_to_json(_counters(fabric, info.design, random_)))
        write_side_file(cell, "series.json", series_to_json(_series(fabric, random_)))
        write_side_file(cell, "distributions.json", distributions_to_json(_distributions(records, random_)))
    results.merge_parts(len(infos))
    results.write_manifest(
        Manifest(
            scenario=scenario.name,
            question=scenario.question,
            scenario_file=scenario.file,
            scenario_text=scenario.text,
            seed=seed,
            engine="virtual",
            cells=tuple(infos),
            profiles={name: asdict(next(iter(PROFILES.values()))) for name in profiles},
            revision=Revision("0" * 40, dirty=True),
            kernel={"version": "7.2 (synthetic)", "clock step": "32 ns"},
            tools={"fio": "fio-3.33"},
            host={"machine": "x86_64", "cpus": "2"},
            warnings=(NOTICE,),
            expectations=(
                {"workload": "x", "metric": "y", "variant": "base", "passed": True, "reason": "x.y is 1, expected 1"},
                {"workload": "x", "metric": "z", "variant": "base", "passed": False, "reason": "x.z is 2, expected 1"},
            ),
            command=("icgw", "run", "synthetic.yaml"),
        )
    )
    return results


def _cells(
    scenario: Scenario, profiles: Sequence[str], seed: int
) -> Iterator[tuple[CellInfo, Fabric, list[Record], random.Random]]:
    known = Scenario(**{**scenario.__dict__, "profiles": ("documents",)})
    for cell in resolve(known):
        for position, profile in enumerate(profiles):
            variant = cell.variant
            if len(scenario.designs) > 1:
                variant = f"{cell.design}/{profile}"
            fabric = FABRICS[cell.kind](**cell.parameters)
            random_ = random.Random(f"{seed} {variant}")
            info = CellInfo(
                variant, cell.design, profile, cell.kind, dict(cell.parameters),
                [workload_to_json(workload) for workload in cell.workloads], cell.seed,
                wall_s=12.5, virtual_ns=3_210_000_000, peak_memory_bytes=1_300_000_000,
            )  # fmt: skip
            better = 3.0 if position else 1.0
            if cell.kind == "icgw":
                records = list(_demo_records(scenario.name, info, fabric, better, random_))
            else:
                records = list(_line_rate_records(scenario.name, info, fabric, random_))
            yield info, fabric, records, random_


def _demo_records(
    scenario: str, info: CellInfo, fabric: Fabric, better: float, random_: random.Random
) -> Iterator[Record]:
    def record(workload: str, metric: str, value: float, unit: str, kind: Kind = Kind.MEASURED) -> Record:
        return Record(scenario, info.variant, workload, metric, value, unit, kind, "synthetic generator")

    gateway = info.design == "gateway"
    visits = VISITED_ROLES[info.design]
    per_node = 5_000 if gateway else 100_000
    for workload, target in (("traversal", "s1"), ("cross_zone", "s2")):
        links = ping_rtt_ns(path_through(fabric, "g1", target, visits))
        yield record(workload, "rtt_mean", round(links + 2 * len(visits) * per_node / better, 3), "ns")
    for depth in (1, 16, 64):
        base = (60_000 if gateway else 600_000) / better * (1 + depth / 40)
        yield record("random_read", f"latency_mean_qd{depth}", round(base, 3), "ns")
        yield record("random_read", f"latency_p99_qd{depth}", round(base * 1.15), "ns")
        yield record("random_read", f"bandwidth_qd{depth}", round(depth * 4096 * 8e9 / base, 3), "bit/s")
    yield record("random_read", "latency_mean_qd1", 58_000 if gateway else 590_000, "ns", Kind.THEORY)
    yield record("random_read", "media_latency", 20_000, "ns", Kind.MODELLED)
    yield record("small_packets", "useful_share", 0.71 if gateway else 0.0205, "1")
    yield record("training_read", "bandwidth_share_qd8", 0.935 if gateway else 0.21, "1")
    rate = (9e10 if gateway else 6e9) * (1 + random_.random() / 100)
    yield record("checkpoint", "duration", round(64 * 2**20 * 8e9 / rate), "ns")
    yield record("checkpoint", "duration_full", round(8e12 * 1e9 / rate), "ns", Kind.MODELLED)
    yield record("fabric", "storage_bytes_through_compute", 0 if gateway else 400_000_000, "B")
    yield record("fabric", "storage_bytes", 420_000_000, "B")


def _line_rate_records(scenario: str, info: CellInfo, fabric: Fabric, random_: random.Random) -> Iterator[Record]:
    spec = fabric.links[0].spec
    links = ping_rtt_ns([link.spec for link in fabric.links])
    goodput = spec.rate_bps * 8948 / 9038
    for workload, metric, value, unit, kind in (
        ("rtt", "rtt_mean", links, "ns", Kind.THEORY),
        ("rtt", "rtt_mean", links + random_.randint(0, 90), "ns", Kind.MEASURED),
        ("rtt", "rtt_error", random_.randint(0, 90), "ns", Kind.MEASURED),
        ("bulk", "goodput", goodput, "bit/s", Kind.THEORY),
        ("bulk", "goodput", goodput * (0.995 + random_.random() / 300), "bit/s", Kind.MEASURED),
    ):
        yield Record(scenario, info.variant, workload, metric, value, unit, kind, f"synthetic {kind.value} source")


def _distributions(records: Sequence[Record], random_: random.Random) -> dict[str, dict[str, Measured]]:
    found: dict[str, dict[str, Measured]] = {}
    for record in records:
        if record.unit == "ns" and "_mean" in record.metric and record.kind is Kind.MEASURED:
            sample = [round(record.value * (0.97 + 0.02 * random_.expovariate(1.0))) for _ in range(800)]
            name = record.metric.replace("_mean", "")
            found.setdefault(record.workload, {})[name] = Measured("ns", Distribution.of(sample))
    return found


def _series(fabric: Fabric, random_: random.Random) -> dict[str, Series]:
    series = {}
    t_ns = tuple(range(10**9, 10**9 + 400 * 100_000, 100_000))
    for link in fabric.links[:12]:
        for interface in (link.a_interface, link.b_interface):
            busy, sent, tx, backlog = random_.random(), 0, [], []
            for position in range(len(t_ns)):
                burst = busy if 80 < position < 300 else busy / 20
                sent += round(link.spec.rate_bps / 8 * 1e-4 * burst * random_.uniform(0.9, 1.0))
                tx.append(sent)
                backlog.append(round(random_.expovariate(1 / (1 + 90 * burst * busy))))
            series[interface] = Series(t_ns, tuple(tx), tuple(backlog))
    return series


def _counters(fabric: Fabric, design: str, random_: random.Random) -> Counters:
    ports = []
    for link in fabric.links:
        quiet = {"gateway": ("c",), "conventional": ("gw",)}.get(design, ())
        idle = any(end.rstrip("0123456789") in quiet for end in (link.a, link.b))
        there, back = (random_.randint(0, 4000) if idle else random_.randint(10**6, 10**9) for _ in range(2))
        for node, interface, tx, rx in (
            (link.a, link.a_interface, there, back),
            (link.b, link.b_interface, back, there),
        ):
            ports.append(PortCounters(node, interface, tx, rx, tx // 9000, rx // 9000, random_.randint(0, 3)))
    return Counters(tuple(ports), {"gateway": 0, "conventional": 400_000_000}.get(design))


def main(folder: Path) -> None:
    """Write folders and reports to look at."""
    from emulator.report import write_report
    from emulator.results import read_results

    write_demo(folder / "demo", profiles=("documents", "synthetic"))
    write_line_rate(folder / "line_rate")
    for name in ("demo", "line_rate"):
        sys.stdout.write(f"{write_report(read_results(folder / name))}\n")
    sys.stdout.write(canonical_json({"notice": NOTICE}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
