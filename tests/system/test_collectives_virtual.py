"""Collectives on a torus of cards in the virtual-time kernel: right numbers, in the time that the model foretells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator import cli
from emulator.experiment.run import RunOutcome
from tests.support.collective_runs import TORUS
from tests.support.scenario_runs import figure, run_text

pytestmark = pytest.mark.virtual


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """All collectives, in one machine one after the other."""
    return run_text(TORUS, tmp_path_factory.mktemp("collectives"))


def test_every_number_is_right(outcome: RunOutcome) -> None:
    """All sizes, types and operations."""
    wrong = [record for record in outcome.records if record.metric.startswith("wrong_")]
    assert len(wrong) == 3 + 3 + 3
    assert {record.value for record in wrong} == {0}
    assert not outcome.warnings


@pytest.mark.parametrize(
    ("workload", "metric", "within"),
    [
        ("ring", "time_48B", 0.02),
        ("ring", "time_6KiB", 0.02),
        ("ring", "time_768KiB", 0.03),
        ("auto", "time_1KiB", 0.02),
        ("auto", "time_64KiB", 0.03),
        ("auto", "time_4MiB", 0.08),
        ("gather", "time_96KiB", 0.05),
        ("few", "time_64KiB", 0.05),
    ],
)
def test_the_model_is_right(outcome: RunOutcome, workload: str, metric: str, within: float) -> None:
    """What was measured is what was predicted: latency, contention, and cards that take their time."""
    measured, predicted = (figure(outcome, workload, metric, kind=kind) for kind in ("measured", "theory"))
    assert measured == pytest.approx(predicted, rel=within)


def test_large_messages_use_all_links(outcome: RunOutcome) -> None:
    """Nothing is faster than what every card has to send, and with all links in use not much is slower."""
    assert 0.6 < figure(outcome, "auto", "of_bound_4MiB") < 1
    assert figure(outcome, "ring", "of_bound_768KiB") < 0.3


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`icgw collective` prints what nccl-tests print, as text and as JSON, with the prediction beside it."""
    options = ["--topo", "torus3d,x=2,y=2,z=1", "-b", "4K", "-e", "64K", "-f", "16", "-n", "2", "-w", "0", "-q"]
    assert cli.main(["collective", "all_reduce", *options, "--out", str(tmp_path / "a")]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert [row[:5] for row in rows] == [
        ["4096", "1024", "float", "sum", "-1"],
        ["65536", "16384", "float", "sum", "-1"],
    ]
    assert "# Out of bounds values : 0 OK" in lines
    assert cli.main(["collective", "reduce_scatter", *options, "--json", "--out", str(tmp_path / "b")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["size"] for one in answer["results"]] == [4096, 65536]
    assert all(one["out_of_place"]["nwrong"] == 0 for one in answer["results"])
    assert answer["icgw"]["sizes"][0]["predicted_ns"] > 0
