"""When ranks have what they need, and when links and cards are free again, as a schedule goes on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulator.collectives.messages import Messages, runs
from emulator.collectives.schedule import Integers
from emulator.collectives.ways import Numbers, WayTable


@dataclass(frozen=True)
class Burst:
    """Messages of one step and one part of the buffer.

    Attributes:
        numbers: Which.
        source, target: Their ranks.
        ways: Their ways.
        latency_ns: From when each can be sent until its first byte arrives.
        carried: Bytes of each on the line, headers included.
        compute_ns: How long its target adds up what arrived.
    """

    numbers: Integers
    source: Integers
    target: Integers
    ways: WayTable
    latency_ns: Numbers
    carried: Numbers
    compute_ns: Numbers


class Clocks:
    """The state of a network and its ranks while messages go through it, burst by burst.

    Messages of a burst share their links evenly; a burst waits for those before it, link by link, as packets do in the
    sender's queue.

    Args:
        messages: All of them.
        rates: Bytes per ns of each link and direction; None: transfers take no time but their latency.
    """

    def __init__(self, messages: Messages, rates: Numbers | None) -> None:
        self._rates = rates
        self._free = np.zeros(0 if rates is None else len(rates))
        self._busy = np.zeros(messages.ranks)
        keys = messages.strand * messages.ranks
        known, places = np.unique(np.concatenate([keys + messages.source, keys + messages.target]), return_inverse=True)
        self._before, self._after = np.split(places.reshape(-1), 2)
        self._ready = np.zeros(max(1, len(known)))

    @property
    def end_ns(self) -> float:
        """When the last rank has everything."""
        return float(self._ready.max())

    def advance(self, burst: Burst) -> None:
        """Let a burst of messages go."""
        start = self._ready[self._before[burst.numbers]]
        arrival = start + burst.latency_ns
        if self._rates is not None:
            arrival = self._carry(burst, start, self._rates) + burst.latency_ns
            self._compute(burst, arrival)
        np.maximum.at(self._ready, self._after[burst.numbers], arrival)

    def _carry(self, burst: Burst, start: Numbers, rates: Numbers) -> Numbers:
        """When the last byte of each message would arrive if its way had no latency."""
        ways = burst.ways
        used, which = ways.used, ways.which
        begin = np.full(len(used), np.inf)
        np.minimum.at(begin, which, start[ways.pairs])
        loads = np.bincount(which, weights=ways.shares * burst.carried[ways.pairs], minlength=len(used))
        ends = np.maximum(begin, self._free[used]) + loads / rates[used]
        self._free[used] = ends
        # Who can start only later is through later, too: by as long as its own bytes take on links that idle.
        own = ways.shares * burst.carried[ways.pairs] / rates[ways.passages]
        through = np.maximum(ends[which], start[ways.pairs] + own)
        return np.asarray(np.maximum.reduceat(through, ways.begins))

    def _compute(self, burst: Burst, arrival: Numbers) -> None:
        """Let cards add up what arrived, in the order of arrival, and count it as arrived when that is done."""
        adding = np.flatnonzero(burst.compute_ns)
        order = adding[np.lexsort((arrival[adding], burst.target[adding]))]
        starts = np.flatnonzero(runs(burst.target[order]))
        turn = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        for number in range(int(turn.max(initial=-1)) + 1):
            now = order[turn == number]
            rank = burst.target[now]
            self._busy[rank] = np.maximum(self._busy[rank], arrival[now]) + burst.compute_ns[now]
            arrival[now] = self._busy[rank]
