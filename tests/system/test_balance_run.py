"""Large flows that meet on one path while another one is idle: the controller moves one, once, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual

S = 10**9
UPDATE_NS = S // 2
"""How often Open vSwitch brings its rules' counters up to date."""
INTERVAL_NS = S // 10
SCENARIO = """\
scenario: balance
question: How soon do two flows stop sharing a path?
topology: {kind: icgw, gpus: 2, compute: 2, storage: 1, spines: 2, rate: 200 Mbit/s, queue: 100 packets}
matrix: {controller.balance: [0 s, 100 ms]}
workloads:
  - {name: one, kind: tcp, sources: g1, targets: c1, duration: 3 s, warm_up: 2 s}
  - {name: two, kind: tcp, alongside: one, sources: g2, targets: c2, duration: 3 s, warm_up: 2 s}
"""


def test_one_of_two_large_flows_moves_to_the_idle_path(tmp_path: Path) -> None:
    """The sum of their goodputs doubles from one link's to two links', and the controller moves nothing any more.

    Verify against theory, with and without the balancer; the move comes when the link was full for two rounds and the
    flows' counters have changed three times, and with it some rounds of looking.
    """
    outcome = run_text(SCENARIO, tmp_path)
    link_bps = figure(outcome, "one", "goodput", "balance=0 s", kind="theory")
    alone, balanced = (
        figure(outcome, "one", "goodput", variant) + figure(outcome, "two", "goodput", variant)
        for variant in ("balance=0 s", "balance=100 ms")
    )
    assert alone == pytest.approx(link_bps, rel=0.02)
    assert balanced == pytest.approx(2 * link_bps, rel=0.05)
    assert figure(outcome, "fabric", "balance_moves") == 1
    assert figure(outcome, "fabric", "balance_first_move") <= 3 * UPDATE_NS + 5 * INTERVAL_NS
    assert not [one for one in outcome.records if one.variant == "balance=0 s" and "balance" in one.metric]
