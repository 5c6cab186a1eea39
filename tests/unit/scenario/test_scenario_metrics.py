"""The figures that expectations may name are those that are described, and those that the scenarios here expect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.scenario import load
from emulator.scenario.metrics import METRICS, has_metric

ROOT = Path(__file__).resolve().parents[3]
KINDS = [kind for kind in METRICS if kind != "fabric"]


def described(kind: str) -> set[str]:
    """Names in the table of a kind; a name that begins with an underscore follows the one before it."""
    text = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    part = text.partition(f"### `{kind}`")[2].partition("\n### ")[0]
    found: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \| (?:measured|modelled|theory)", part, re.M):
        first = ""
        for name in re.findall(r"`([a-z0-9_<>]+)`", row):
            if name.startswith("_"):
                found.add(_following(first, name))
            else:
                found.add(name)
                first = name
    return {re.sub(r"<[a-z]>|(?<=qd)1$", "<n>", name) for name in found}


def _following(first: str, name: str) -> str:
    """``_p50`` after ``delay_min`` is ``delay_p50``; ``_p50_`` after ``latency_min_qd<d>`` is ``latency_p50_qd<d>``."""
    stem, _, tail = first.partition("_min")
    return f"{stem}{name.rstrip('_')}{tail}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_described_and_every_described_one_known(kind: str) -> None:
    """The table of each kind in the documents names the same figures."""
    assert described(kind) == set(METRICS[kind])


@pytest.mark.parametrize(
    ("kind", "metric", "known"),
    [
        ("probe", "lost_fault0", True),
        ("probe", "recovery_max_fault12", True),
        ("probe", "lost_fault", False),
        ("probe", "lost_fault<n>", False),
        ("probe", "lost_faultx", False),
        ("nvme", "latency_p99_qd4", True),
        ("nvme", "latency_p99", False),
        ("tcp", "goodput_flow3", True),
        ("ping", "rtt_mean ", False),
        ("ping", "", False),
        ("something new", "anything", True),
    ],
)
def test_numbers_stand_for_any(kind: str, metric: str, known: bool) -> None:
    """A name with a number in it is known with any number, and only with one."""
    assert has_metric(kind, metric) is known


@pytest.mark.parametrize("file", sorted((ROOT / "scenarios").rglob("*.yaml")), ids=lambda file: file.stem)
def test_scenarios_expect_what_there_is(file: Path) -> None:
    """Every scenario here passes the check."""
    assert load(file).variants
