"""What judging a claim means: findings under one profile, and how a measured figure meets a stated one. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from emulator.report.evidence import Evidence
from emulator.results.records import Kind


@dataclass(frozen=True)
class Figure:
    """One figure of a finding as text, and where it comes from."""

    text: str
    kind: Kind


@dataclass(frozen=True)
class Finding:
    """What was found under one profile.

    Attributes:
        met: Whether it is as claimed; None: no figure.
        conventional, gateway: The figure of either design; None: not looked at, or no figure.
        gain: How the two compare, as text.
        note: One clause that helps to read the figures.
    """

    met: bool | None
    conventional: Figure | None = None
    gateway: Figure | None = None
    gain: str = ""
    note: str = ""


@dataclass(frozen=True)
class Criterion:
    """One thing that a claim says and that can be judged.

    Attributes:
        claim: The claim's number.
        statement: What it says, in full.
        how: How it is judged, one sentence.
        judge: The judgement.
    """

    claim: str
    statement: str
    how: str
    judge: Callable[[Evidence], Finding]


def rounded(value: float, step: float) -> int:
    """A value in whole steps, halves upwards."""
    return math.floor(value / step + 0.5)
