"""Scenarios with faults in supernodes, as ``icgw run`` runs them: a stated time later packets go around them."""

from __future__ import annotations

import pytest

from emulator.experiment.run import RunOutcome
from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual

SCENARIO = """
scenario: broken
question: What is left of the bandwidth between the halves of a torus?
topology: {kind: torus3d, x: 4, y: 2, z: 1, rate: 1 Gbit/s, delay: 1 us, queue: 60 packets}
workloads:
  - {name: first, kind: bisection, partners: 2, duration: 700 ms, warm_up: 500 ms}
  - {name: whole, kind: bisection, partners: 2, duration: 20 ms, warm_up: 10 ms}
faults:
  - {at: 1 ms, cut: c1_0_0-c2_0_0, during: first}
  - {at: 1 ms, stop: c3_1_0, during: first}
controller: {detection: 5 ms}
limits: {virtual: 60 s, wall: 300 s, memory: 512 MiB}
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """Eight cards, one of which fails, as does a link."""
    return run_text(SCENARIO, tmp_path_factory.mktemp("broken"))


def test_what_is_left_is_what_the_remaining_links_carry(outcome: RunOutcome) -> None:
    """Of four links across the middle one is cut and one ends at a dead card: TCP gets what max-flow leaves of two."""
    left = figure(outcome, "first", "bisection_left", kind="theory")
    assert left == pytest.approx(figure(outcome, "first", "bisection", kind="theory") / 2)
    assert figure(outcome, "first", "bisection_left") == pytest.approx(left, rel=0.02)


def test_routes_change_twice(outcome: RunOutcome) -> None:
    """Once around both faults, which are noticed together, and once back; then the torus is whole for the next one."""
    assert figure(outcome, "fabric", "reroutings") == 2
    assert figure(outcome, "fabric", "routes_changed") > 0
    assert figure(outcome, "whole", "bisection_share") == pytest.approx(1, abs=0.03)
