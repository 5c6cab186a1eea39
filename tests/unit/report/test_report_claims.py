"""How claims are judged: each criterion at the edge of what it accepts, and what missing figures mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from emulator.model.theory import ping_rtt_ns
from emulator.report.claims import Verdict, all_claims, examined, judge, judge_evidence, not_examined, overall
from emulator.report.criteria import CRITERIA
from emulator.report.evidence import VISITED_ROLES, CellEvidence, Evidence, evidence_of, path_through
from emulator.report.judgement import Finding, rounded
from emulator.results import CellInfo, CellResults, Kind, Record, Side, read_results
from tests.support.synthetic_results import write_demo
from topologies import FABRICS

FABRIC = FABRICS["icgw"]()
WORKLOADS = [
    {"kind": "ping", "name": "traversal", "source": "g1", "target": "s1", "payload_bytes": 56},
    {"kind": "ping", "name": "cross_zone", "source": "g1", "target": "s2", "payload_bytes": 56},
]

Figures = Mapping[str, float]
"""``workload.metric`` to value."""


def cell(design: str, figures: Figures, kinds: Mapping[str, Kind] | None = None) -> CellEvidence:
    info = CellInfo(f"{design}/p", design, "p", "icgw", workloads=WORKLOADS)
    records = tuple(
        Record("s", info.variant, *name.split("."), value, "ns", (kinds or {}).get(name, Kind.MEASURED), "test")  # type: ignore[arg-type]
        for name, value in figures.items()
    )
    return CellEvidence(CellResults(0, info, FABRIC, Side()), records)


def verdicts(claim: str, conventional: Figures, gateway: Figures) -> list[bool | None]:
    """What each criterion of a claim says of two cells' figures."""
    evidence = Evidence("p", {"conventional": cell("conventional", conventional), "gateway": cell("gateway", gateway)})
    return [criterion.judge(evidence).met for criterion in CRITERIA if criterion.claim == claim]


def links_ns(design: str, target: str = "s1") -> int:
    return ping_rtt_ns(path_through(FABRIC, "g1", target, VISITED_ROLES[design]))


@pytest.mark.parametrize(
    ("before_us", "after_us", "good"),
    [
        (100, 5, [True, True]),
        (99.5, 5.4, [True, True]),
        (99.4, 5.5, [False, False]),
        (50, 1, [False, True]),
        (250, 30, [True, False]),
    ],
)
def test_g01_traversal(before_us: float, after_us: float, good: list[bool]) -> None:
    """The added time of each crossing is what counts: two nodes before, one after, both ways."""
    before = {"traversal.rtt_mean": links_ns("conventional") + 4 * before_us * 1000}
    after = {"traversal.rtt_mean": links_ns("gateway") + 2 * after_us * 1000}
    assert verdicts("G01", before, after) == good


@pytest.mark.parametrize(
    ("before", "after", "good"),
    [
        ({1: 960e3}, {1: 80e3, 64: 80.4e3}, [True, True, True, True]),
        ({1: 960e3}, {1: 80.5e3, 64: 90e3}, [False, False, False, True]),
        ({1: 500e3}, {1: 60e3, 64: 300e3}, [True, True, False, False]),
        ({1: 690e3}, {1: 60e3, 64: 60e3}, [True, True, True, True]),
        ({1: 689e3}, {1: 60e3, 64: 60e3}, [True, True, True, False]),
        ({}, {1: 60e3}, [True, True, None, None]),
        ({1: 1e6}, {}, [None, None, None, None]),
    ],
)
def test_g02_storage_latency(before: dict[int, float], after: dict[int, float], good: list[bool | None]) -> None:
    """Absolute latency, steadiness, depth and gain are judged apart; 11.5 times rounds to 12, 11.48 does not."""

    def figures(means: dict[int, float]) -> dict[str, float]:
        found = {f"random_read.latency_mean_qd{depth}": value for depth, value in means.items()}
        return {**found, **({"random_read.latency_p99_qd1": means[1]} if 1 in means else {})}

    assert verdicts("G02", figures(before), figures(after)) == good


def test_g02_steadiness_is_the_tail() -> None:
    """A good mean with a long tail is not steady."""
    after = {"random_read.latency_mean_qd1": 50e3, "random_read.latency_p99_qd1": 200e3}
    assert verdicts("G02", {}, after)[:2] == [True, False]


@pytest.mark.parametrize(("rtt_ns", "good"), [(1e6, True), (999_999, False), (30e6, True)])
def test_g03_cross_zone(rtt_ns: float, good: bool) -> None:
    """'Milliseconds' begin at one."""
    assert verdicts("G03", {"cross_zone.rtt_mean": rtt_ns}, {}) == [good]


@pytest.mark.parametrize(("share", "good"), [(0.2999, True), (0.30, False), (0.0, True)])
def test_g04_small_packets(share: float, good: bool) -> None:
    """'Less than 30 %' excludes 30 %."""
    assert verdicts("G04", {"small_packets.useful_share": share}, {}) == [good]


@pytest.mark.parametrize(
    ("before", "after", "good"),
    [(0.324, 0.915, [True, True]), (0.325, 0.914, [False, False]), (0.1, 0.99, [True, True])],
)
def test_g05_utilization(before: float, after: float, good: list[bool]) -> None:
    """Both figures are rounded to whole per cent, as they are stated."""
    assert (
        verdicts("G05", {"training_read.bandwidth_share_qd8": before}, {"training_read.bandwidth_share_qd8": after})
        == good
    )


@pytest.mark.parametrize(
    ("before", "after", "stored", "good"),
    [(400, 0, 420, True), (400, 1, 420, False), (0, 0, 420, None), (400, 0, 0, None), (None, 0, 420, None)],
)
def test_g09_around_compute(before: float | None, after: float, stored: float, good: bool | None) -> None:
    """One byte is too much; a counter that saw nothing anywhere, or no traffic at all, proves nothing."""
    conventional = {} if before is None else {"fabric.storage_bytes_through_compute": before}
    gateway = {"fabric.storage_bytes_through_compute": after, "fabric.storage_bytes": stored}
    assert verdicts("G09", conventional, gateway) == [good]


def test_g10_same_fabric() -> None:
    """A slower link, or a missing fabric, is noticed."""
    (criterion,) = [one for one in CRITERIA if one.claim == "G10"]
    same = Evidence("p", {name: cell(name, {}) for name in ("conventional", "gateway")})
    assert criterion.judge(same).met is True
    other = cell("gateway", {})
    slower = replace(other, cell=replace(other.cell, fabric=FABRICS["icgw"](rate_bps=10**9)))
    assert criterion.judge(Evidence("p", {**same.cells, "gateway": slower})).met is False
    unknown = replace(other, cell=replace(other.cell, fabric=None))
    assert criterion.judge(Evidence("p", {**same.cells, "gateway": unknown})).met is None


@pytest.mark.parametrize(
    ("before_s", "after_s", "good"),
    [(1350, 90.4, [True, True]), (1349, 90.5, [False, False]), (3000, 30, [True, True])],
)
def test_g15_checkpoint(before_s: float, after_s: float, good: list[bool]) -> None:
    """22.5 minutes round to 23; a scaled duration is shown as modelled."""
    evidence = Evidence(
        "p",
        {
            name: cell(name, {"checkpoint.duration_full": value * 1e9}, {"checkpoint.duration_full": Kind.MODELLED})
            for name, value in (("conventional", before_s), ("gateway", after_s))
        },
    )
    findings = [criterion.judge(evidence) for criterion in CRITERIA if criterion.claim == "G15"]
    assert [finding.met for finding in findings] == good
    assert findings[0].gateway is not None
    assert findings[0].gateway.kind is Kind.MODELLED


def test_nothing_is_concluded_from_nothing() -> None:
    """Without records every criterion says so, and none fails or holds."""
    for evidence in (Evidence("p"), Evidence("p", {name: cell(name, {}) for name in ("conventional", "gateway")})):
        found = judge_evidence([evidence])
        without_fabric = [one for one in found if one.claim.id != "G10"]
        assert {one.verdict for one in without_fabric} == {"no figure"}
    assert {verdict.verdict for verdict in judge_evidence([])} == {"no figure"}


def test_rounding_is_half_up() -> None:
    """Halves go up, also where Python's round would go to the even number."""
    assert [rounded(value, 1) for value in (0.5, 1.5, 2.5, 2.4999)] == [1, 2, 3, 2]


@pytest.mark.parametrize(
    ("met", "text"),
    [
        ({}, "no figure"),
        ({"a": None}, "no figure"),
        ({"a": True, "b": True}, "holds"),
        ({"a": False, "b": False}, "does not hold"),
        ({"a": True, "b": False}, "holds under profile a"),
        ({"a": True}, "holds under profile a"),
        ({"a": False}, "does not hold"),
        ({"a": True, "b": None}, "holds under profile a"),
        ({"a": True, "b": True, "c": False}, "holds under profile a and b"),
    ],
)
def test_one_verdict_from_several_profiles(met: dict[str, bool | None], text: str) -> None:
    """A claim holds as such only if it does under at least two profiles and fails under none."""
    assert overall({profile: Finding(value) for profile, value in met.items()}) == text


def test_all_claims_are_listed_once() -> None:
    """The packaged list has both documents' claims, each once; every criterion belongs to one."""
    ids = [claim.id for claim in all_claims()]
    assert ids == [f"G{n:02}" for n in range(1, 33)] + [f"S{n:02}" for n in range(1, 25)]
    assert {criterion.claim for criterion in CRITERIA} == {"G01", "G02", "G03", "G04", "G05", "G09", "G10", "G15"}
    assert len({criterion.how for criterion in CRITERIA}) == len(CRITERIA)


def test_judging_looks_at_the_workloads_of_the_demo(repository: Path) -> None:
    """The names that criteria look for are those in the demo's scenario."""
    from emulator.report import criteria

    demo = yaml.safe_load((repository / "scenarios/demo.yaml").read_text(encoding="utf-8"))
    names = {entry["name"] for entry in demo["workloads"]}
    assert names == {
        criteria.TRAVERSAL, criteria.RANDOM_READ, criteria.CROSS_ZONE, criteria.SMALL_PACKETS, criteria.TRAINING_READ,
        criteria.CHECKPOINT,
    }  # fmt: skip


def _of(found: list[Verdict], claim: str) -> list[str]:
    return [one.verdict for one in found if one.claim.id == claim]


def test_a_whole_folder(tmp_path: Path) -> None:
    """Two profiles that disagree give verdicts that name the profile; the rest is listed as not examined."""
    results = read_results(write_demo(tmp_path / "r", profiles=("documents", "other")).path)
    assert [one.profile for one in evidence_of(results)] == ["documents", "other"]
    found = judge(results)
    assert _of(found, "G01") == ["holds under profile documents", "holds"]
    assert _of(found, "G09") == ["holds"]
    assert _of(found, "G15") == ["does not hold", "holds"]
    assert examined(found) == [one for one in found if one.claim.id in {criterion.claim for criterion in CRITERIA}]
    assert [claim.id for claim in not_examined(found)][:4] == ["G06", "G07", "G08", "G11"]
    data = found[0].as_json()
    assert data["findings"]["documents"]["conventional"] == {"text": "100 µs", "kind": "measured"}
