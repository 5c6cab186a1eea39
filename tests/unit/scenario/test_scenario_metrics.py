"""The figures that expectations may name are those that are described, and those that the scenarios here expect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emulator.model.workload import WORKLOADS
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
        ("collective", "busbw_16MiB", True),
        ("collective", "time_512B", True),
        ("collective", "busbw", False),
        ("collective", "busbw_16", False),
        ("collective", "busbw_16 MiB", False),
        ("collective", "busband_16MiB", False),
        ("collective_job", "recovered_0", True),
        ("collective_job", "recovered", False),
        ("bisection", "bisection_share", True),
        ("bisection", "bandwidth", False),
    ],
)
def test_numbers_stand_for_any(kind: str, metric: str, known: bool) -> None:
    """A name with a number in it is known with any number, and only with one."""
    assert has_metric(kind, metric) is known


def test_every_kind_is_known() -> None:
    """None is left out, so that no expectation goes unchecked."""
    assert set(KINDS) == set(WORKLOADS)


@pytest.mark.parametrize("file", sorted((ROOT / "scenarios").rglob("*.yaml")), ids=lambda file: file.stem)
def test_scenarios_expect_what_there_is(file: Path) -> None:
    """Every scenario here passes the check."""
    assert load(file).variants
