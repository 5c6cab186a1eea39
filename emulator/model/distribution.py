"""A sample of a quantity: exact percentiles, and a step function small enough to draw."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt


@dataclass(frozen=True)
class Distribution:
    """Values with the number of times that each was seen, in ascending order.

    Attributes:
        values: Distinct values, ascending.
        counts: How often each was seen, all at least 1.

    Raises:
        ValueError: Empty, out of order, or counts that do not match.
    """

    values: tuple[int, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values or len(self.values) != len(self.counts):
            raise ValueError("a distribution needs at least one value, and one count for each")
        if any(count < 1 for count in self.counts):
            raise ValueError("a count is at least 1")
        if any(low >= high for low, high in zip(self.values, self.values[1:], strict=False)):
            raise ValueError("the values are not in ascending order")

    @classmethod
    def of(cls, sample: Iterable[int]) -> Distribution:
        """Make the distribution of a sample.

        Raises:
            ValueError: The sample is empty.
        """
        seen: dict[int, int] = {}
        for value in sample:
            seen[value] = seen.get(value, 0) + 1
        values = tuple(sorted(seen))
        return cls(values, tuple(seen[value] for value in values))

    @property
    def size(self) -> int:
        """Number of values, repetitions included."""
        return sum(self.counts)

    @property
    def minimum(self) -> int:
        """Smallest value."""
        return self.values[0]

    @property
    def maximum(self) -> int:
        """Largest value."""
        return self.values[-1]

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return sum(value * count for value, count in zip(self.values, self.counts, strict=True)) / self.size

    @property
    def deviation(self) -> float:
        """Standard deviation of the sample."""
        mean = self.mean
        square = sum(count * (value - mean) ** 2 for value, count in zip(self.values, self.counts, strict=True))
        return sqrt(square / self.size)

    def percentile(self, percent: float) -> int:
        """The smallest value that at least *percent* of the sample does not exceed (nearest rank, no interpolation).

        Raises:
            ValueError: *percent* is not between 0 and 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"{percent} is not a percentage")
        # A product like 0.07 * 100 is a hair above 7: the rank would be one too high without the rounding.
        rank = max(1, ceil(round(percent / 100 * self.size, 9)))
        seen = 0
        for value, count in zip(self.values, self.counts, strict=True):
            seen += count
            if seen >= rank:
                return value
        return self.maximum

    def at_most(self, points: int) -> Distribution:
        """The same distribution with at most *points* distinct values, for drawing.

        Neighbours are merged into the larger value, so no share above a value is ever understated: in pieces of equal
        share at first and down to single values in the upper tail.

        Raises:
            ValueError: Fewer than 2 points.
        """
        if points < 2:
            raise ValueError("a drawing needs at least 2 points")
        if len(self.values) <= points:
            return self
        tail = points // 2
        body_values, body_counts = self.values[:-tail], self.counts[:-tail]
        piece = ceil(sum(body_counts) / (points - tail))
        values: list[int] = []
        counts: list[int] = []
        gathered = 0
        for value, count in zip(body_values, body_counts, strict=True):
            gathered += count
            if gathered >= piece or value == body_values[-1]:
                values.append(value)
                counts.append(gathered)
                gathered = 0
        return Distribution((*values, *self.values[-tail:]), (*counts, *self.counts[-tail:]))

    def histogram(self, edges: Sequence[int]) -> list[int]:
        """How much of the sample is in each bin ``[edges[i], edges[i + 1])``; the last bin includes its upper edge.

        Raises:
            ValueError: Fewer than two edges, or not ascending.
        """
        if len(edges) < 2 or any(low >= high for low, high in itertools.pairwise(edges)):
            raise ValueError("a histogram needs at least two ascending edges")
        bins = [0] * (len(edges) - 1)
        at = 0
        for value, count in zip(self.values, self.counts, strict=True):
            if value < edges[0] or value > edges[-1]:
                continue
            while at < len(bins) - 1 and value >= edges[at + 1]:
                at += 1
            bins[at] += count
        return bins

    def as_json(self) -> dict[str, list[int]]:
        """A JSON object with ``values`` and ``counts``."""
        return {"values": list(self.values), "counts": list(self.counts)}
