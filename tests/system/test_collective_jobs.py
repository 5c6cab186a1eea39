"""Jobs on a twisted torus in the virtual-time kernel outlive a broken link, a dead card, and changes of members."""

from __future__ import annotations

import pytest

from emulator.experiment.run import RunOutcome
from tests.support.collective_runs import APART, JOBS, SILENT
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


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """A job on two planes, which lose a card's link and a leaf, and one on a tree, which loses its root."""
    return run_text(APART, tmp_path_factory.mktemp("apart"))


def test_planes_stand_in_for_each_other(apart: RunOutcome) -> None:
    """Cards that lost a plane go on by the other one; a card that died before it was to join costs nothing."""
    name = "fabric=planes"
    assert [figure(apart, "job", metric, name) for metric in ("rounds", "wrong", "interruptions")] == [24, 0, 2]
    assert [figure(apart, "job", f"ranks_{number}", name) for number in (0, 1)] == [5, 5]
    assert figure(apart, "job", "members_0", name) == 5
    for number in (0, 1):
        assert figure(apart, "job", f"recovered_{number}", name) < 300_000
        assert 0.3 < figure(apart, "job", f"left_{number}", name) < 1


def test_the_larger_part_of_a_tree_goes_on(apart: RunOutcome) -> None:
    """Without its root a tree is two; its single point of failure costs the job half of its cards."""
    name = "fabric=tree"
    assert [figure(apart, "job", metric, name) for metric in ("rounds", "wrong", "interruptions")] == [24, 0, 1]
    assert figure(apart, "job", "ranks_0", name) == 3


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """Nine cards: one link is cut, later two others go silent at once."""
    return run_text(SILENT, tmp_path_factory.mktemp("silent"))


def test_silent_links_are_found_and_gone_around(silent: RunOutcome) -> None:
    """A stall that no carrier explains makes the manager send frames over all links: 1 ms later packets go around.

    Verify: both silent links are found by the same look, all cards stay, every number is right, and what is restored
    afterwards is whole again.
    """
    assert [figure(silent, "job", metric) for metric in ("rounds", "wrong", "interruptions")] == [40, 0, 2]
    assert [figure(silent, "job", f"ranks_{number}") for number in (0, 1)] == [9, 9]
    assert 100_000 <= figure(silent, "job", "detected_1") < 130_000
    looked_ns, reacted_ns = 1_000_000, 50_000
    resumed = figure(silent, "job", "resumed_1") - figure(silent, "job", "detected_1")
    assert looked_ns + reacted_ns <= resumed < looked_ns + reacted_ns + 30_000
    assert figure(silent, "job", "routes_1") > 0
    assert figure(silent, "after", "lost") == 0
    # Nobody is more than two links of 800 ns away.
    assert figure(silent, "after", "delay_max") == pytest.approx(1_600, abs=4)
