"""Rates of pairs of hosts, from counters of rules that switches bring up to date only now and then.

Open vSwitch forwards by cached flows and adds what these counted to its rules every half second; until then a rule's
counter stands still. So what counts is when a counter changes: a rate is what came between two changes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from controller.paths.ways import Pair

WINDOW_NS = 2 * 10**9
"""A rate is taken over at most this time. A counter that stands still for longer counts nothing."""


@dataclass
class _Counter:
    count: int
    since_ns: int
    marks: deque[tuple[int, int]] = field(default_factory=deque)
    """When it changed, and to what."""


class PairRates:
    """What is known of each pair's counter."""

    def __init__(self) -> None:
        self._counters: dict[Pair, _Counter] = {}

    def clear(self) -> None:
        """Forget everything: packets take other paths, or other rules count them."""
        self._counters.clear()

    def keep(self, pairs: frozenset[Pair]) -> None:
        """Forget all other pairs."""
        self._counters = {pair: counter for pair, counter in self._counters.items() if pair in pairs}

    def seen(self, pair: Pair, count: int, now_ns: int) -> float | None:
        """Take a reading.

        Args:
            pair: Whose counter.
            count: Bytes that it has counted.
            now_ns: When it said so; must not go back.

        Returns:
            The rate in bit/s; None: not known yet.
        """
        counter = self._counters.get(pair)
        if counter is None or count < counter.count:  # a counter that went back was reset
            self._counters[pair] = _Counter(count, now_ns)
            return None
        if count > counter.count:
            counter.count, counter.since_ns = count, now_ns
            if counter.marks and counter.marks[-1][0] == now_ns:
                counter.marks.pop()
            counter.marks.append((now_ns, count))
            while len(counter.marks) > 2 and now_ns - counter.marks[1][0] >= WINDOW_NS:
                counter.marks.popleft()
        elif now_ns - counter.since_ns > WINDOW_NS:
            counter.marks.clear()
            return 0.0
        if len(counter.marks) < 2:
            return None
        (first_ns, first), (last_ns, last) = counter.marks[0], counter.marks[-1]
        return (last - first) * 8e9 / (last_ns - first_ns)
