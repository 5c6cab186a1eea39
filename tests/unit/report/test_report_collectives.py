"""Plots and judgements of collectives, from made-up figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from emulator.model.fabric import Fabric
from emulator.report.collective_criteria import COLLECTIVE_CRITERIA
from emulator.report.collectives import collective_charts, times_of, torus_charts, torus_loads
from emulator.report.evidence import CellEvidence, Evidence
from emulator.results import CellInfo, Counters, Kind, PortCounters, Record, Revision
from emulator.results.events import Events, FaultMark
from emulator.results.manifest import Manifest
from emulator.results.reader import CellResults, Results
from emulator.results.side import Side
from topologies import dual_plane, torus3d, tree

MIB = 1 << 20


def cell(
    fabric: Fabric, workload: str, measured: Mapping[str, float], foretold: Mapping[str, float] | None = None,
    design: str = "shortest-path", side: Side | None = None,
) -> CellEvidence:  # fmt: skip
    ranks = [node.name for node in fabric.ends]
    info = CellInfo(
        f"{design}/p", design, "p", fabric.name, workloads=[{"kind": "collective", "name": workload, "ranks": ranks}]
    )
    records = [
        Record("s", info.variant, workload, metric, value, "ns", kind, "test")
        for kind, figures in ((Kind.MEASURED, measured), (Kind.THEORY, foretold or {}))
        for metric, value in figures.items()
    ]
    return CellEvidence(CellResults(0, info, fabric, side or Side()), tuple(records))


def found(claim: str, *cells: CellEvidence) -> list[bool | None]:
    evidence = Evidence("p", {one.cell.info.design: one for one in cells})
    return [one.judge(evidence).met for one in COLLECTIVE_CRITERIA if one.claim == claim]


def test_times_are_found_by_size() -> None:
    """Sizes as records write them, in order; other figures and other kinds are left alone."""
    one = cell(torus3d(2, 2, 2), "x", {"time_4MiB": 9.0, "time_512B": 2.0, "algbw_4MiB": 1.0}, {"time_1GiB": 7.0})
    assert list(times_of(one.records).measured.items()) == [(512, 2.0), (4 * MIB, 9.0)]
    assert times_of(one.records).foretold == {1 << 30: 7.0}


@pytest.mark.parametrize(
    ("measured", "foretold", "met"),
    [
        # 64 MiB at the links' rate take 422 us.
        ({"time_1KiB": 4e4, "time_4MiB": 7e4}, {"time_64MiB": 4.6e5, "time_128MiB": 8.8e5}, [True, True]),
        ({"time_1KiB": 4e4, "time_4MiB": 6e5}, {"time_64MiB": 4.6e5}, [False, True]),
        ({"time_1KiB": 4e4, "time_4MiB": 4.9e5}, {"time_64MiB": 2.6e6}, [True, False]),
        ({}, {}, [None, None]),
    ],
)
def test_s06(measured: Mapping[str, float], foretold: Mapping[str, float], met: list[bool | None]) -> None:
    """Under 500 us what was measured, and at full bandwidth the largest size that is known to be."""
    assert found("S06", cell(dual_plane(32, 8), "allreduce", measured, foretold)) == met


def test_s06_is_about_256_cards() -> None:
    """Fewer cards prove nothing."""
    assert found("S06", cell(dual_plane(4, 8), "allreduce", {"time_4MiB": 1e4}, {"time_4MiB": 1e4})) == [None, None]


@pytest.mark.parametrize(("chosen", "met"), [(4e4, True), (9e5, False)])
def test_s14(chosen: float, met: bool) -> None:
    """The chosen schedule against a flat ring, at the sizes that both have."""
    ring = cell(torus3d(2, 2, 2), "ring", {"time_1MiB": 6e5})
    torus = cell(torus3d(2, 2, 2), "torus", {"time_1MiB": chosen, "time_1KiB": 1e4})
    both = CellEvidence(ring.cell, ring.records + torus.records)
    assert found("S14", both) == [met]
    assert found("S14", ring) == [None]


@pytest.mark.parametrize(("before", "met"), [(1.2e6, False), (15e6, True)])
def test_g14(before: float, met: bool) -> None:
    """The gain of the gateway design, whatever the size."""
    cells = [
        cell(torus3d(2, 2, 2), "allreduce", {"time_8MiB": time, "time_1MiB": 1e5}, design=design)
        for design, time in (("conventional", before), ("gateway", 1.2e6))
    ]
    assert found("G14", *cells) == [met, met]
    assert found("G14", cells[0]) == [None, None]


def test_a_torus_as_a_heat_map() -> None:
    """What each card sent in each direction is where the card is; a dimension of two cards has one link."""
    fabric = torus3d(4, 2, 3)
    ports = tuple(
        PortCounters(link.a, link.a_interface, 1000 + number, 0, 0, 0) for number, link in enumerate(fabric.links)
    ) + tuple(PortCounters(link.b, link.b_interface, 5, 0, 0, 0) for link in fabric.links)
    one = cell(fabric, "x", {}, side=Side(counters=Counters(ports, None))).cell
    loads = torus_loads(one)
    assert loads is not None
    assert loads.shape == (6, 4, 2, 3)
    assert np.isnan(loads[3]).all(), "down in y is the same link as up"
    assert not np.isnan(np.delete(loads, 3, axis=0)).any()
    assert np.nansum(loads) == sum(port.tx_bytes for port in ports)
    [chart] = torus_charts([one])
    assert "5 B to" in chart.caption
    assert chart.svg == torus_charts([one])[0].svg
    assert torus_charts([cell(dual_plane(2, 2), "x", {}, side=Side(counters=Counters(ports, None))).cell]) == []


def test_bandwidth_over_size() -> None:
    """One chart a workload, one line a variant; a single size makes none."""
    one = cell(torus3d(2, 2, 2), "x", {"time_1KiB": 5e3, "time_1MiB": 1e4}, {"time_1KiB": 5e3, "time_1GiB": 5e6})
    manifest = Manifest(
        scenario="s", question="?", scenario_file="s.yaml", scenario_text="", seed=1, engine="virtual",
        cells=(one.cell.info,), profiles={}, revision=Revision(None, False), kernel={}, tools={}, host={},
    )  # fmt: skip
    [chart] = collective_charts(Results(Path(), manifest, one.records, (one.cell,)))
    assert "104.9 GB/s" in chart.alt
    few = tuple(record for record in one.records if record.metric != "time_1KiB")
    assert collective_charts(Results(Path(), manifest, few, (one.cell,))) == []


def test_s05_and_g22() -> None:
    """A job that did all its rounds right, and changes of members that cost less than a round."""
    fabric = torus3d(2, 2, 2)
    good = {"rounds": 9, "wrong": 0, "recovered_0": 2e6, "recovered_1": 3e6, "left_0": 0.5, "left_1": 0.4}
    one = cell(fabric, "job", good)
    one.cell.info.workloads[0]["rounds"] = 9
    assert found("S05", one) == [True]
    assert found("G22", one) == [None, None]
    bad = cell(fabric, "job", {**good, "wrong": 1})
    bad.cell.info.workloads[0]["rounds"] = 9
    assert found("S05", bad) == [False]
    assert found("S05", cell(fabric, "job", {"rounds": 9, "wrong": 0})) == [None]
    assert found("S05", cell(tree("2x4"), "job", good)) == [None], "the claim is about the torus"
    stop = FaultMark("job", 0, "stop c0_0_1", 5, 6, repairs=False)
    for ranks, faults, met in ((8, (), True), (7, (), False), (7, (stop,), True), (6, (stop,), False)):
        one = cell(fabric, "job", {**good, "ranks_1": ranks, "ranks_0": 8}, side=Side(events=Events(faults=faults)))
        one.cell.info.workloads[0]["rounds"] = 9
        assert found("S05", one) == [met], (ranks, faults)
    changed = {"wrong": 0, "change_0": 5e3, "member_round_0": 9e3, "members_0": 8}
    assert found("G22", cell(fabric, "job", changed)) == [True, None]
    assert found("G22", cell(fabric, "job", {**changed, "change_0": 1e4})) == [False, None]
    assert found("G22", cell(fabric, "job", {**changed, "members_0": 10_000})) == [True, True]


def test_g32() -> None:
    """Only cards of different kinds prove something."""
    one = cell(torus3d(2, 2, 2), "mixed", {"time_1MiB": 1e5, "wrong_1MiB": 0})
    assert found("G32", one) == [None]
    one.cell.info.workloads[0]["cards"] = [[["c0_0_0"], 1, 0, 0]]
    assert found("G32", one) == [True]
