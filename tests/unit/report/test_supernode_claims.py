"""How the claim about a torus's bisection bandwidth is judged: which tree it is held against decides."""

from __future__ import annotations

import pytest

from emulator.report.evidence import CellEvidence, Evidence
from emulator.report.judgement import Finding
from emulator.report.supernode_criteria import SUPERNODE_CRITERIA
from emulator.results import CellInfo, CellResults, Kind, Record, Side
from topologies import torus3d, tree

TORUS = torus3d(8, 8, 8)
TREE = tree("8x8x8")
SMALL = torus3d(4, 4, 4)
TBIT = 10**12


def cell(name: str, topology: str, tbps: float, oversubscription: str = "", **more: object) -> CellEvidence:
    parameters = {"oversubscription": oversubscription} if oversubscription else {}
    workload = {"kind": "bisection", "name": "halves", **more}
    info = CellInfo(f"fabric={name}", "shortest-path", "p", topology, parameters, [workload])
    fabric = {"torus3d": TORUS, "tree": TREE, "small": SMALL}[topology]
    record = Record("s", info.variant, "halves", "bisection", tbps * TBIT, "bit/s", Kind.MEASURED, "test")
    return CellEvidence(CellResults(0, info, fabric, Side()), (record,))


def judged(*cells: CellEvidence) -> list[Finding]:
    evidence = Evidence("p", variants={one.cell.info.variant: one for one in cells})
    return [criterion.judge(evidence) for criterion in SUPERNODE_CRITERIA if criterion.claim == "S04"]


@pytest.mark.parametrize(
    ("tree_tbps", "good"), [(71.0, True), (69.1, True), (72.0, True), (72.1, False), (68.9, False), (324.0, False)]
)
def test_some_tree_is_beaten_2_3_times(tree_tbps: float, good: bool) -> None:
    """In tenths the ratio is 2.3: neither a better nor a worse tree makes the claim true."""
    some, _ = judged(cell("torus", "torus3d", 162.0), cell("tree", "tree", tree_tbps, "1x32/7"))
    assert some.met is good


def test_the_nearest_tree_decides_and_all_are_named() -> None:
    """Of several trees that one is shown whose ratio is nearest; one without oversubscription has a line of its own."""
    some, plain = judged(
        cell("tree 1 to 1", "tree", 324.0),
        cell("torus", "torus3d", 162.0),
        cell("tree 32 to 7", "tree", 71.0, "1x32/7"),
        cell("tree 8 to 1", "tree", 40.5, "2x4"),
    )
    assert some.met is True
    assert some.gain == "2.28×"
    assert some.note.startswith("the nearest is tree 32 to 7; of tree 1 to 1: 0.50×; tree 32 to 7: 2.28×")
    assert plain.met is False
    assert plain.gain == "0.50×"


def test_without_torus_or_tree_nothing_is_concluded() -> None:
    """One fabric alone, other sizes, and both ways at once are no figure."""
    torus, whole = cell("torus", "torus3d", 162.0), cell("tree", "tree", 70.0, "1x1")
    for cells in ((), (torus,), (whole,), (cell("small", "small", 162.0), whole)):
        assert [finding.met for finding in judged(*cells)] == [None, None]
    assert judged(torus, cell("tree", "tree", 70.0, both_ways=True))[0].met is None
    assert [finding.met for finding in judged(torus, cell("tree", "tree", 70.0, "1x2"))] == [True, None]
    assert [finding.met for finding in judged(torus, whole)] == [True, True]


def broken(name: str, measured: float, most: float) -> CellEvidence:
    """A torus with faults: what was measured, and what its links carry."""
    one = cell(name, "torus3d", 100.0)
    records = [
        Record("s", one.cell.info.variant, "halves", "bisection_left", value, "bit/s", kind, "test")
        for value, kind in ((measured, Kind.MEASURED), (most, Kind.THEORY))
    ]
    return CellEvidence(one.cell, (*one.records, *records))


@pytest.mark.parametrize(("worst", "good"), [(69.0, True), (66.5, True), (66.4, False)])
def test_the_worst_of_the_broken_tori_decides(worst: float, good: bool) -> None:
    """At least 95 % of what is left in every one; without faults, or in other fabrics, nothing is concluded."""
    [criterion] = [one for one in SUPERNODE_CRITERIA if one.claim == "S05"]
    cells = [broken("one link", 87.4, 87.5), broken("three", worst, 70.0), cell("whole", "torus3d", 100.0)]
    finding = criterion.judge(Evidence("p", variants={one.cell.info.variant: one for one in cells}))
    assert finding.met is good
    assert finding.note.startswith("the least of 2: three, 9")
    for others in ([cells[2]], [cell("tree", "tree", 70.0)], []):
        assert criterion.judge(Evidence("p", variants={one.cell.info.variant: one for one in others})).met is None
