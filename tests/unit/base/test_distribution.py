"""Distributions: exact percentiles against a definition, and drawings that never flatter the tail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model.distribution import Distribution

samples = st.lists(st.integers(-1000, 10**12), min_size=1, max_size=300)


@given(samples, st.floats(0, 100))
def test_a_percentile_is_the_nearest_rank(sample: list[int], percent: float) -> None:
    """It is the smallest value that enough of the sample does not exceed."""
    value = Distribution.of(sample).percentile(percent)
    needed = round(percent / 100 * len(sample), 9)
    assert value in sample
    assert sum(one <= value for one in sample) >= needed
    smaller = [one for one in sample if one < value]
    assert not smaller or len(smaller) < max(needed, 1)


@given(samples)
def test_it_summarizes_the_sample(sample: list[int]) -> None:
    """Size, extremes and mean are those of the sample."""
    found = Distribution.of(sample)
    assert (found.size, found.minimum, found.maximum) == (len(sample), min(sample), max(sample))
    assert found.mean == pytest.approx(sum(sample) / len(sample))
    assert found.deviation >= 0
    assert (found.percentile(0), found.percentile(100)) == (min(sample), max(sample))


@given(samples, st.integers(2, 40), st.integers(-1000, 10**12))
def test_a_drawing_never_understates_the_tail(sample: list[int], points: int, threshold: int) -> None:
    """Merging keeps the size and the largest value, and the share above any value does not shrink."""
    whole = Distribution.of(sample)
    drawn = whole.at_most(points)
    assert len(drawn.values) <= points
    assert drawn.size == whole.size
    assert drawn.maximum == whole.maximum

    def above(one: Distribution) -> int:
        return sum(count for value, count in zip(one.values, one.counts, strict=True) if value > threshold)

    assert above(drawn) >= above(whole)


@given(samples)
def test_histogram_counts_everything_within_its_edges(sample: list[int]) -> None:
    """Bins are half open but for the last; what is outside is not counted."""
    edges = [-1000, 0, 5, 10**6, 10**12]
    bins = Distribution.of(sample).histogram(edges)
    assert sum(bins) == len(sample)
    assert bins[1] == sum(0 <= one < 5 for one in sample)
    assert Distribution.of(sample).histogram([0, 5]) == [sum(0 <= one <= 5 for one in sample)]


@pytest.mark.parametrize(
    ("values", "counts"),
    [((), ()), ((1,), ()), ((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1,), (0,)), ((1, 2), (1,))],
)
def test_nonsense_is_refused(values: tuple[int, ...], counts: tuple[int, ...]) -> None:
    """Empty, unordered, repeated or uncounted values are no distribution."""
    with pytest.raises(ValueError):
        Distribution(values, counts)


def test_a_share_that_floats_miss() -> None:
    """7 % of 100 is the 7th value, though 0.07 * 100 is above 7 in floating point."""
    assert Distribution.of(range(1, 101)).percentile(7) == 7
