"""Busy stretches of a run, so that plots over time show what happened and not the waiting in between. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emulator.results.side import Series

BUSY_SHARE = 0.005
"""An interface is busy in an interval if it sent more than this share of what its line carries."""

_JOIN_SHARE = 0.01
"""Idle stretches below this share of the whole run are kept: cutting them would only add marks."""


@dataclass(frozen=True)
class Spans:
    """Busy stretches, ascending and apart, in ns; times between them are cut out.

    Attributes:
        stretches: Start and end of each.
    """

    stretches: Sequence[tuple[int, int]]

    def place_ns(self, t_ns: int, stretch: int) -> int:
        """Where a time in the given stretch lies on an axis without the idle times."""
        before = sum(end - start for start, end in self.stretches[:stretch])
        return before + t_ns - self.stretches[stretch][0]

    def find_ns(self, t_ns: int) -> int | None:
        """Where a time lies on an axis without the idle times; None: it is cut out."""
        places = (
            self.place_ns(t_ns, index) for index, (start, end) in enumerate(self.stretches) if start <= t_ns <= end
        )
        return next(places, None)

    @property
    def seams_ns(self) -> list[int]:
        """Where idle time was cut out, on the same axis."""
        return [self.place_ns(start, index) for index, (start, _) in enumerate(self.stretches) if index]


def busy_spans(series: Mapping[str, Series], rates_bps: Mapping[str, int]) -> Spans:
    """The stretches in which at least one interface is busy, an interval wider on both sides.

    Without a busy interval, the whole run is one stretch.

    Args:
        series: Samples by interface.
        rates_bps: Line rate in bit/s by interface.
    """
    times = [one.t_ns for one in series.values() if len(one.t_ns) > 1]
    if not times:
        return Spans([])
    first, last = min(t[0] for t in times), max(t[-1] for t in times)
    found: list[tuple[int, int]] = []
    for name, one in series.items():
        rate = rates_bps.get(name)
        if not rate:
            continue
        for (start, end), (before, after) in zip(pairwise(one.t_ns), pairwise(one.tx_bytes), strict=True):
            if (after - before) * 8e9 > BUSY_SHARE * rate * (end - start):
                margin = end - start
                found.append((max(first, start - margin), min(last, end + margin)))
    return Spans(_joined(sorted(found), int((last - first) * _JOIN_SHARE)) or [(first, last)])


def _joined(stretches: Sequence[tuple[int, int]], gap_ns: int) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in stretches:
        if joined and start - joined[-1][1] <= gap_ns:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
