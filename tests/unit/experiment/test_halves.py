"""Bisection workloads before they run: who sends to whom, what the formula says, what is foretold, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.experiment.prepare import PreparedCell, prepare
from emulator.experiment.routes import Routes
from emulator.model.profile import profile
from emulator.model.workload import Bisection
from emulator.scenario.predict import needed_flows, predict

SCENARIO = """\
scenario: middle
question: How wide?
topology: {kind: torus3d, x: 4, y: 4, z: 2}
workloads:
  - {name: halves, kind: bisection}
"""


def cells(folder: Path, text: str) -> list[PreparedCell]:
    file = folder / "f.yaml"
    file.write_text(text, encoding="utf-8")
    return prepare(file)[1]


def test_the_topology_says_who_sends_to_whom(tmp_path: Path) -> None:
    """Each card of one half has a partner in the other; the bandwidth between them is the closed form's."""
    [one] = cells(tmp_path, SCENARIO)
    [workload] = one.cell.workloads
    assert isinstance(workload, Bisection)
    assert workload.pairs[0] == ("c0_0_0", "c2_0_0")
    assert len(workload.pairs) == len(workload.flows) == 16
    [both] = cells(tmp_path, SCENARIO.replace("kind: bisection", "kind: bisection, both_ways: true"))
    [workload] = both.cell.workloads
    assert isinstance(workload, Bisection)
    assert len(set(workload.flows)) == 32
    assert workload.least_bps == workload.most_bps == 16 * 1_280_000_000_000


@pytest.mark.parametrize(
    ("topology", "links"),
    [
        ("{kind: torus3d, x: 4, y: 4, z: 2}", 16),
        ('{kind: tree, fanouts: 4x8, oversubscription: "2"}', 8),
        ('{kind: tree, fanouts: 4x8, oversubscription: "4", routing: static}', 4),
        ("{kind: fat_tree, k: 4}", 8),
    ],
)
def test_what_is_foretold_is_the_formula(tmp_path: Path, topology: str, links: int) -> None:
    """The capacity of all flows, also where they are spread over equal paths, is that of the links."""
    [one] = cells(tmp_path, SCENARIO.replace("{kind: torus3d, x: 4, y: 4, z: 2}", topology))
    routes = Routes(one.fabric, one.cell.design).routes(needed_flows(one.cell.workloads))
    found = predict(one.fabric, profile("documents"), routes, one.cell.workloads[0])
    assert found.capacity_bps == pytest.approx(links * 1.28e12 * 8948 / 9038)


def test_a_single_flow_has_no_more_than_a_line(tmp_path: Path) -> None:
    """However many equal paths there are, one flow is on one of them."""
    text = SCENARIO.replace("{kind: torus3d, x: 4, y: 4, z: 2}", "{kind: dual_plane, nodes: 2, rails: 2}")
    text = text.replace("kind: bisection", "kind: tcp, sources: c0_0, targets: c1_1, size: 1 MB")
    [one] = cells(tmp_path, text)
    routes = Routes(one.fabric, one.cell.design).routes(needed_flows(one.cell.workloads))
    found = predict(one.fabric, profile("documents"), routes, one.cell.workloads[0])
    assert found.capacity_bps == pytest.approx(1.28e12 * 8948 / 9038)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{kind: torus3d, x: 4, y: 4, z: 2}", "{kind: chain}", "f.yaml:5: workloads[0].kind: no halves are known"),
        ("x: 4, y: 4, z: 2", "x: 16, y: 16, z: 2", "these are 65536 flows, 20000 at most"),
        ("kind: bisection", "kind: bisection, duration: 1 us, warm_up: 1 us", "'warm_up' is not shorter"),
        (
            "torus3d, x: 4, y: 4, z: 2}\nworkloads:\n  - {name: halves, kind: bisection",
            "tree}\nworkloads:\n  - {name: halves, kind: ping, source: t0, target: c0_0_0",
            "'t0' is a switch, a host is meant here",
        ),
    ],
)
def test_refusals(tmp_path: Path, old: str, new: str, words: str) -> None:
    """What cannot be is one line with its place."""
    text = SCENARIO.replace(old, new)
    if "flows" in words:
        text = text.replace("kind: bisection", "kind: bisection, partners: 0")
    with pytest.raises(ScenarioError) as caught:
        cells(tmp_path, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
