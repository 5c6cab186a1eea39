"""Rates from counters that stand still and leap."""

from __future__ import annotations

import pytest

from controller.core.rates import WINDOW_NS, PairRates

MS = 10**6
PAIR = ("a", "b")


def readings(rates: PairRates, poll_ms: int, update_ms: int, bps: float, until_ms: int) -> list[float | None]:
    """Readings of a counter that the switch brings up to date every so often."""
    found = []
    for now_ms in range(0, until_ms, poll_ms):
        updated_ms = max(0, now_ms - 37) // update_ms * update_ms
        found.append(rates.seen(PAIR, round(bps * updated_ms / 8000), now_ms * MS))
    return found


@pytest.mark.parametrize(("poll_ms", "within"), [(10, 0.01), (100, 0.12), (700, 0.26), (3000, 0.17)])
def test_a_counter_that_moves_every_half_second_tells_the_rate(poll_ms: int, within: float) -> None:
    """However often it is read; a reading that only waits for the switch is no rate of zero.

    Verify: nothing is said before two changes; afterwards the rate is right but for when within the reading's interval
    the switch counted, which is at most the given part.
    """
    found = readings(PairRates(), poll_ms, 500, 80e6, 30_000)
    known = [rate for rate in found if rate is not None]
    assert found[0] is found[1] is None
    assert len(found) - len(known) <= max(3, 1600 // poll_ms)
    # What waits for the switch at both ends of the window is at most an update's worth.
    settled = known[len(known) // 2 :]
    assert settled == pytest.approx([80e6] * len(settled), rel=within)


def test_a_counter_that_stands_still_for_long_counts_nothing() -> None:
    """Until then the last rate holds; and what comes afterwards is not spread over the pause."""
    rates = PairRates()
    for now_ms, count in ((0, 0), (500, 1000), (1000, 2000)):
        rate = rates.seen(PAIR, count, now_ms * MS)
    assert rate == 16_000
    assert rates.seen(PAIR, 2000, 1000 * MS + WINDOW_NS) == 16_000
    assert rates.seen(PAIR, 2000, 1000 * MS + WINDOW_NS + 1) == 0
    assert rates.seen(PAIR, 5000, 9000 * MS) is None
    assert rates.seen(PAIR, 6000, 9500 * MS) == 16_000


def test_a_reset_counter_and_a_clock_that_stands_start_afresh() -> None:
    """A rule that replaces another one counts from zero: nothing negative comes of it, nor a division by no time."""
    rates = PairRates()
    assert rates.seen(PAIR, 100, 0) is None
    assert rates.seen(PAIR, 200, 0) is None
    assert rates.seen(PAIR, 300, 0) is None
    assert rates.seen(PAIR, 1300, 8 * MS) == 1_000_000
    assert rates.seen(PAIR, 10, 9 * MS) is None
    rates.keep(frozenset())
    assert rates.seen(PAIR, 20, 10 * MS) is None
