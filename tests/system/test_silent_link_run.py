"""A link that loses everything while both ends see carrier: found by LLDP, and routed around, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.discovery import MOST_MISSED
from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual

MS = 10**6
SCENARIO = """\
scenario: silence
question: How soon is a link avoided that only loses packets?
topology: {kind: icgw, gpus: 2, compute: 1, storage: 1, rate: 100 Gbit/s, delay: 500 ns}
controller: {lldp_interval: 1 ms}
workloads:
  - {name: probes, kind: probe, all_to_all: [gpu, c1, s1], interval: 20 us, duration: 12 ms}
faults:
  - {at: 4 ms, silence: la1-spa1}
"""


def test_a_silent_link_is_routed_around_after_some_rounds_of_lldp(tmp_path: Path) -> None:
    """Nothing but missing LLDP tells; every pair meets again, on the other spine, before the link is whole.

    Verify: pairs are cut off for the rounds that a frame may be missed, and at most one more; then nothing is lost.
    """
    outcome = run_text(SCENARIO, tmp_path)
    assert figure(outcome, "probes", "pairs_hit_fault0") > 0
    assert figure(outcome, "probes", "unrecovered_fault0") == 0
    longest_ns = figure(outcome, "probes", "recovery_max_fault0")
    assert (MOST_MISSED - 1) * MS <= longest_ns <= (MOST_MISSED + 1) * MS
    assert figure(outcome, "probes", "lost_without_fault") == 0
