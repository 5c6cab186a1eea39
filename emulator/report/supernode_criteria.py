"""How the claims about the bandwidth of supernodes, whole and broken, are judged; see `emulator.report.criteria`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.report.evidence import CellEvidence, Evidence
from emulator.report.figures import percent, ratio, with_unit
from emulator.report.judgement import Criterion, Figure, Finding, rounded
from emulator.results.records import Kind, Record

_CARDS = 512
_CLAIMED, _STEP = 2.3, 0.1
_TORUS, _TREE = "torus3d", "tree"
_WHOLE = ("1", "1:1")
_LEFT = 0.95


@dataclass(frozen=True)
class _Middle:
    """Bandwidth between the halves of one fabric, measured."""

    name: str
    topology: str
    oversubscription: str
    record: Record

    @property
    def figure(self) -> Figure:
        return Figure(with_unit(self.record.value, self.record.unit), self.record.kind)

    @property
    def plain(self) -> bool:
        """Whether no level of the tree has fewer links up than down."""
        return all(part in _WHOLE for part in self.oversubscription.split("x"))


def _middles(evidence: Evidence) -> list[_Middle]:
    """Of all variants with 512 cards, in their order."""
    found = [_middle(name, cell) for name, cell in evidence.variants.items()]
    return [one for one in found if one is not None]


def _middle(name: str, cell: CellEvidence) -> _Middle | None:
    workloads = [
        entry["name"]
        for entry in cell.cell.info.workloads
        if entry.get("kind") == "bisection" and not entry.get("both_ways")
    ]
    record = next((record for one in workloads if (record := cell.figure(one, "bisection")) is not None), None)
    if record is None or cell.cell.fabric is None or len(cell.cell.fabric.ends) != _CARDS:
        return None
    oversubscription = str(cell.cell.info.parameters.get("oversubscription", "1"))
    return _Middle(name.rpartition("=")[2], cell.cell.info.topology, oversubscription, record)


def _compared(evidence: Evidence) -> tuple[_Middle | None, list[tuple[_Middle, float]]]:
    """The torus, and how many times the bandwidth of each tree it has."""
    middles = _middles(evidence)
    torus = next((one for one in middles if one.topology == _TORUS), None)
    trees = [one for one in middles if one.topology == _TREE and one.record.value > 0]
    return torus, [(tree, torus.record.value / tree.record.value) for tree in trees] if torus else []


def _some_tree(evidence: Evidence) -> Finding:
    torus, trees = _compared(evidence)
    if torus is None or not trees:
        return Finding(None)
    nearest, gain = min(trees, key=lambda entry: abs(entry[1] - _CLAIMED))
    others = "; ".join(f"{tree.name}: {ratio(torus.record.value, tree.record.value)}" for tree, _ in trees)
    met = rounded(gain, _STEP) == rounded(_CLAIMED, _STEP)
    shown = ratio(torus.record.value, nearest.record.value)
    return Finding(met, nearest.figure, torus.figure, shown, f"the nearest is {nearest.name}; of {others}")


def _plain_tree(evidence: Evidence) -> Finding:
    torus, trees = _compared(evidence)
    plain = [(tree, gain) for tree, gain in trees if tree.plain]
    if torus is None or not plain:
        return Finding(None)
    tree, gain = plain[0]
    met = rounded(gain, _STEP) >= rounded(_CLAIMED, _STEP)
    note = "a card has six ports in the torus and one in the tree"
    return Finding(met, tree.figure, torus.figure, ratio(torus.record.value, tree.record.value), note)


def _all_that_is_left(evidence: Evidence) -> Finding:
    shares = []
    for name, cell in evidence.variants.items():
        if cell.cell.info.topology == _TORUS:
            for workload in cell.cell.info.workloads:
                measured, most = (
                    cell.figure(workload["name"], "bisection_left", kind) for kind in (Kind.MEASURED, Kind.THEORY)
                )
                if measured and most and most.value:
                    shares.append((measured.value / most.value, name.rpartition("=")[2], measured, most))
    if not shares:
        return Finding(None)
    share, name, measured, most = min(shares, key=lambda entry: entry[0])
    before, after = (Figure(with_unit(one.value, one.unit), one.kind) for one in (most, measured))
    return Finding(share >= _LEFT, before, after, note=f"the least of {len(shares)}: {name}, {percent(share)}")


SUPERNODE_CRITERIA: Sequence[Criterion] = (
    Criterion(
        "S04",
        "a torus of 512 cards has 2.3 times the bisection bandwidth of some tree",
        "Payload that crosses the middle of the torus, divided by that of a tree of as many cards with links of the "
        "same rate, in tenths, is 2.3 for one of the trees that were measured; the figures are those of a tree and the "
        "torus.",
        _some_tree,
    ),
    Criterion(
        "S04",
        "and so of a tree without oversubscription",
        "The same for a tree whose every level has as many links up as down is at least 2.3.",
        _plain_tree,
    ),
    Criterion(
        "S05",
        "and faults cost no more bandwidth than the links they break",
        "Payload between the halves of a torus with broken links and cards is at least 95 % of what the links that are "
        "left can carry, by whatever ways (max-flow); the figures are the latter and what was measured.",
        _all_that_is_left,
    ),
)
