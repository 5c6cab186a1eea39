"""Scenarios on supernodes as ``icgw run`` runs them: no controller, real traffic between cards, the middle filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.experiment.run import RunOutcome
from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual

SCENARIO = """
scenario: supernodes
question: Do cards of supernodes have what the formulas say?
topology: {kind: torus3d, x: 4, y: 2, z: 2}
matrix:
  fabric:
    torus:
      topology: {kind: torus3d, x: 4, y: 2, z: 2}
    tree:
      topology: {kind: tree, fanouts: 2x8, oversubscription: "4", routing: static}
      workloads.rtt.source: c0_0
      workloads.rtt.target: c1_7
      workloads.bulk.sources: [c0_0]
      workloads.bulk.targets: [c1_7]
workloads:
  - {name: rtt, kind: ping, source: c0_0_0, target: c2_1_1, count: 3}
  - {name: bulk, kind: tcp, sources: [c0_0_0], targets: [c2_1_1], size: 200 MiB}
  - {name: halves, kind: bisection, duration: 200 us, warm_up: 100 us}
  - {name: both, kind: bisection, both_ways: true, duration: 200 us, warm_up: 100 us}
limits: {virtual: 60 s, wall: 300 s, memory: 768 MiB}
"""
VARIANTS = ("fabric=torus", "fabric=tree")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """Sixteen cards in a torus and in a tree."""
    return run_text(SCENARIO, tmp_path_factory.mktemp("supernodes"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_cards_ping_each_other_as_the_formula_says(outcome: RunOutcome, variant: str) -> None:
    """The round trip over four links is their delays and serializations, to a few ns."""
    expected = figure(outcome, "rtt", "rtt_mean", variant, "theory")
    assert expected >= 4 * 2 * 800
    assert figure(outcome, "rtt", "rtt_min", variant) == pytest.approx(expected, abs=10)
    assert figure(outcome, "rtt", "rtt_max", variant) == pytest.approx(expected, abs=10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_iperf3_between_cards_fills_the_line(outcome: RunOutcome, variant: str) -> None:
    """One flow has a line of 160 GB/s to itself, less headers."""
    assert figure(outcome, "bulk", "utilization", variant) == pytest.approx(1, abs=0.02)
    assert figure(outcome, "bulk", "retransmits", variant) == 0


@pytest.mark.parametrize(("variant", "links"), [(VARIANTS[0], 8), (VARIANTS[1], 2)])
def test_the_middle_has_what_the_formula_says(outcome: RunOutcome, variant: str, links: int) -> None:
    """Bandwidth between the halves is that of 8 links in the torus and of 2 in the tree, to half a percent.

    Verify: a flow for each card of a half; nothing is sent again; with both ways at once there is a flow more for each,
    and each way gets less, as acknowledgements wait behind data, and never more.
    """
    assert figure(outcome, "halves", "bisection_line", variant, "theory") == links * 1.28e12
    assert figure(outcome, "halves", "bisection_share", variant) == pytest.approx(1, abs=0.005)
    assert figure(outcome, "halves", "flows", variant) == 8
    assert figure(outcome, "halves", "retransmits", variant) == 0
    assert figure(outcome, "both", "flows", variant) == 16
    assert 0.7 < figure(outcome, "both", "bisection_share", variant) < 1.005


def test_no_controller_runs(outcome: RunOutcome) -> None:
    """A fabric that routes by itself has no controller, and nothing is dropped."""
    logs = [path.name for path in Path(outcome.folder).rglob("*.log")]
    assert "controller.log" not in logs
    for variant in VARIANTS:
        assert figure(outcome, "fabric", "packets_dropped", variant) == 0
