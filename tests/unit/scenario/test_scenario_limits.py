"""Whether the emulated time that a scenario allows is enough is said before anything runs."""

from __future__ import annotations

import pytest

from emulator.errors import ScenarioError
from emulator.scenario import loads

TEXT = """\
scenario: limits
question: Is there time?
topology: {{kind: single, hosts: 3}}
workloads:
- {{name: first, kind: tcp, sources: h1, targets: h2, duration: {first}}}
- {{name: second, kind: tcp, sources: h2, targets: h3, duration: {second}{more}}}
- {{name: amount, kind: tcp, sources: h2, targets: h3, size: 1 GB}}
limits: {{virtual: {limit}}}
"""
MATRIX = "matrix: {limits.virtual: [60 s, 10 s]}\n"


def text(first: str, second: str, limit: str, more: str = "") -> str:
    return TEXT.format(first=first, second=second, limit=limit, more=more)


@pytest.mark.parametrize(
    ("said", "line", "reason"),
    [
        (text("9999999 s", "1 s", "60 s"), 5, "'first' cannot end before 9999999 s, and limits.virtual is 60 s"),
        (text("40 s", "21 s", "60 s"), 6, "'second' cannot end before 61 s, and limits.virtual is 60 s"),
        (text("40 s", "61 s", "60 s", ", alongside: first"), 6, "'second' cannot end before 61 s"),
        (text("11 s", "1 s", "60 s") + MATRIX, 5, "'first' cannot end before 11 s, and limits.virtual is 10 s"),
    ],
)
def test_too_short(said: str, line: int, reason: str) -> None:
    """One after the other lengths add up, of those that start together the longest counts; a matrix may make it so."""
    with pytest.raises(ScenarioError) as raised:
        loads(said)
    assert raised.value.line == line
    assert reason in raised.value.reason
    assert (raised.value.key or "").startswith("workloads[")


@pytest.mark.parametrize("said", [text("40 s", "20 s", "60 s"), text("60 s", "60 s", "60 s", ", alongside: first")])
def test_just_enough(said: str) -> None:
    """Exactly the limit is not above it; what an amount of data takes is not known and not counted."""
    assert loads(said).variants
