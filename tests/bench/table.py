"""What a benchmark prints: rows of minimum, median and maximum over its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_WIDTH = 54
"""Room for the longest name of a row."""


@dataclass(frozen=True)
class Row:
    """One figure: what it is, (minimum, median, maximum), and a remark."""

    what: str
    values: tuple[float, float, float]
    note: str = ""

    def __str__(self) -> str:
        low, middle, high = self.values
        return f"{self.what:<{_WIDTH}} min {low:9.3f}  median {middle:9.3f}  max {high:9.3f}  {self.note}".rstrip()


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Minimum, median and maximum."""
    return min(values), median(values), max(values)
