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


PROBES = """
scenario: probed
question: What does a broken link cost cards that pass packets on for each other?
topology: {kind: torus3d, x: 4, y: 2, z: 1, rate: 80 Gbit/s, delay: 1 us}
workloads:
  - {name: calm, kind: probe, all_to_all: [gpu], interval: 56 us, duration: 1 ms}
  - {name: probes, kind: probe, pairs: [[c0_0_0, c1_0_0], [c1_0_0, c0_0_0], [c3_1_0, c0_0_0]], interval: 3 us,
     duration: 6 ms}
faults:
  - {at: 1000 us, cut: c0_0_0-c1_0_0, during: probes}
  - {at: 4000 us, restore: c0_0_0-c1_0_0, during: probes}
controller: {detection: 1 ms}
limits: {virtual: 60 s, wall: 300 s, memory: 512 MiB}
"""
HOP_NS = 1_000 + 13
"""A frame of 64 bytes of payload takes 13 ns on a line."""


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """Eight cards with three ports each."""
    return run_text(PROBES, tmp_path_factory.mktemp("probed"))


def test_probes_leave_cards_by_all_ports_in_time(probed: RunOutcome) -> None:
    """Each card sends to each other one, by and into whichever port its routes say; none is late or lost."""
    assert figure(probed, "calm", "sent") > 900
    assert (figure(probed, "calm", "lost"), figure(probed, "calm", "duplicated")) == (0, 0)
    assert figure(probed, "calm", "delay_min") == pytest.approx(HOP_NS, abs=2)
    assert figure(probed, "calm", "delay_max") == pytest.approx(3 * HOP_NS, abs=2)


def test_probes_of_cards_take_new_routes_at_once(probed: RunOutcome) -> None:
    """Lost is what leaves, or is on the line, from the cut until the detour stands 1 ms later, packet by packet."""
    detour_ns, lost, recovered = 2_000_000, 0, []
    for flow in (0, 1):
        leaves = range(flow * 1000, 6_000_000, 3_000)
        lost += sum(1_000_000 - HOP_NS < one < detour_ns for one in leaves)
        # Three hops around, from the first that leaves when the detour stands.
        recovered.append(min(one for one in leaves if one >= detour_ns) + 3 * HOP_NS - 1_000_000)
    assert figure(probed, "probes", "lost") == figure(probed, "probes", "lost_fault0") == lost
    assert figure(probed, "probes", "pairs_hit_fault0") == 2
    assert figure(probed, "probes", "recovery_max_fault0") == pytest.approx(max(recovered), abs=2)
    assert figure(probed, "probes", "lost_fault1") == 0, "who comes back is used at once"
