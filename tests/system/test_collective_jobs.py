"""Jobs on a twisted torus in the virtual-time kernel outlive a broken link, a dead card, and changes of members."""

from __future__ import annotations

import pytest

from emulator.experiment.run import RunOutcome
from tests.support.collective_runs import JOBS
from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """Both jobs, in one machine one after the other."""
    return run_text(JOBS, tmp_path_factory.mktemp("jobs"))


def test_rounds_are_right_whatever_happens(outcome: RunOutcome) -> None:
    """All rounds are done, and every number of every rank that was there is right."""
    assert [figure(outcome, job, "rounds") for job in ("faults", "members")] == [24, 12]
    assert [figure(outcome, job, "wrong") for job in ("faults", "members")] == [0, 0]


def test_a_cut_link_and_a_dead_card_are_gone_around(outcome: RunOutcome) -> None:
    """Noticed and repaired in the stated times; with the link all go on, with the card all others.

    What is left of the bandwidth is about what the model says of the new routes.
    """
    assert figure(outcome, "faults", "interruptions") == 2
    for number, ranks in enumerate((16, 15)):
        assert 100_000 <= figure(outcome, "faults", f"detected_{number}") < 130_000
        assert 150_000 <= figure(outcome, "faults", f"recovered_{number}") < 300_000
        assert figure(outcome, "faults", f"ranks_{number}") == ranks
        assert figure(outcome, "faults", f"routes_{number}") > 0
        left = figure(outcome, "faults", f"left_{number}")
        assert left < 1
        assert left == pytest.approx(figure(outcome, "faults", f"left_{number}", kind="theory"), rel=0.2)


def test_cards_leave_and_join_between_two_rounds(outcome: RunOutcome) -> None:
    """The others wait for a few round trips at most; a schedule that is not for so many ranks is replaced."""
    assert figure(outcome, "members", "interruptions") == 0
    assert [figure(outcome, "members", f"members_{number}") for number in (0, 1)] == [14, 13]
    for number in (0, 1):
        assert 0 < figure(outcome, "members", f"change_{number}") < 20_000
