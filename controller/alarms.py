"""Gathers reports of violations, so that an attack neither floods the journal nor goes unnoticed. Pure.

The first report of a port and violation is passed on at once; what follows is counted and passed on once a second.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controller.headers import Headers, read_headers
from controller.tenancy.violations import Violation

PERIOD_NS = 10**9
_MOST_OPEN = 100_000


@dataclass(frozen=True)
class Alarm:
    """Violations of one kind at one port.

    Attributes:
        dpid, port: Where the packets came in.
        violation: What they were.
        count: How many reports; switches pass only some packets on.
        headers: Of the last packet.
    """

    dpid: int
    port: int
    violation: Violation
    count: int
    headers: Headers


@dataclass
class _Open:
    until_ns: int
    count: int = 0
    data: bytes = b""


class Alarms:
    """Reports that wait to be passed on.

    Attributes:
        tallies: All reports so far.
    """

    def __init__(self) -> None:
        self.tallies: Counter[Violation] = Counter()
        self._open: dict[tuple[int, int, Violation], _Open] = {}

    def report(self, dpid: int, port: int, violation: Violation, data: bytes, now_ns: int) -> list[Alarm]:
        """A packet was reported."""
        self.tallies[violation] += 1
        key = (dpid, port, violation)
        waiting = self._open.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.data = data
            return []
        if len(self._open) < _MOST_OPEN:
            self._open[key] = _Open(now_ns + PERIOD_NS)
        return [Alarm(dpid, port, violation, 1, read_headers(data))]

    def due(self, now_ns: int) -> list[Alarm]:
        """What has been counted for a second."""
        found: list[Alarm] = []
        for key, waiting in list(self._open.items()):
            if now_ns < waiting.until_ns:
                continue
            if waiting.count:
                found.append(Alarm(*key, waiting.count, read_headers(waiting.data)))
                self._open[key] = _Open(now_ns + PERIOD_NS)
            else:
                del self._open[key]
        return found

    def next_ns(self) -> int | None:
        """When `due` should be called; None: nothing waits."""
        return min((waiting.until_ns for waiting in self._open.values()), default=None)
