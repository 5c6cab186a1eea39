"""What a numbered flow suffered, from what was sent and what arrived: runs of lost packets, and which fault began them.

Pure. A run is a row of consecutive packets that did not arrive. It belongs, whole, to the last fault that struck while
its first packet could still be under way, or before; so what is lost until a path is found again counts for the fault
that broke it, also when something is repaired meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FlowLog:
    """One flow.

    Attributes:
        departures_ns: When each packet left, by its number.
        numbers: Of the packets that arrived, in the order of their arrival.
        times_ns: When they did.
        transit_ns: Least time that a packet takes.
    """

    departures_ns: Times
    numbers: Times
    times_ns: Times
    transit_ns: int

    @cached_property
    def first_ns(self) -> Times:
        """Arrival of each packet's first copy, by its number; -1 for a lost one."""
        first = np.full(len(self.departures_ns), -1, dtype=np.int64)
        # The last assignment to a place stays: from the end, that is the first copy.
        first[self.numbers[::-1]] = self.times_ns[::-1]
        return first

    @cached_property
    def lost(self) -> npt.NDArray[np.bool_]:
        """Whether each packet is lost."""
        return self.first_ns < 0

    @cached_property
    def delays_ns(self) -> Times:
        """One-way delays of the first copies of packets that arrived."""
        first = self.first_ns
        there = first >= 0
        delays: Times = first[there] - self.departures_ns[there]
        return delays

    @property
    def duplicated(self) -> int:
        """Copies that arrived beside the first."""
        return len(self.numbers) - len(np.unique(self.numbers))

    @property
    def reordered(self) -> int:
        """Packets that arrived after one with a higher number (RFC 4737, 3.3); further copies do not count."""
        numbers = self.numbers[np.sort(np.unique(self.numbers, return_index=True)[1])]
        if len(numbers) < 2:
            return 0
        return int((numbers[1:] < np.maximum.accumulate(numbers)[:-1]).sum())

    @property
    def longest_gap_ns(self) -> int:
        """Longest time without an arrival, between when the first packet and the last one should have arrived."""
        if not len(self.departures_ns):
            return 0
        ends = self.departures_ns[[0, -1]] + self.transit_ns
        return int(np.diff(np.sort(np.concatenate((ends, self.times_ns)))).max(initial=0))


@dataclass(frozen=True)
class Outage:
    """A run of lost packets.

    Attributes:
        flow: Number of the flow.
        packets: How many.
        began_ns: When the first of them left.
        latest_ns: By when that one would have arrived at the latest.
        over_ns: When the first packet that was sent after them arrived; None: none did.
        after_ns: When the packet before them left, which arrived; None: there was none.
    """

    flow: int
    packets: int
    began_ns: int
    latest_ns: int
    over_ns: int | None
    after_ns: int | None = None


def outages(number: int, log: FlowLog) -> list[Outage]:
    """All runs of lost packets of a flow, in order.

    Args:
        number: Of the flow.
        log: The flow.
    """
    first, lost = log.first_ns, log.lost
    if not lost.any():
        return []
    slowest_ns = int(log.delays_ns.max(initial=log.transit_ns))
    never = np.iinfo(np.int64).max
    # The first arrival among each packet and all after it.
    next_ns = np.append(np.minimum.accumulate(np.where(lost, never, first)[::-1])[::-1], never)
    edges = np.diff(np.concatenate(([False], lost, [False])).astype(np.int8))
    found = []
    for begin, end in zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True):
        began_ns = int(log.departures_ns[begin])
        over_ns = int(next_ns[end])
        found.append(
            Outage(
                number, end - begin, began_ns, began_ns + slowest_ns, None if over_ns == never else over_ns,
                int(log.departures_ns[begin - 1]) if begin else None,
            )
        )  # fmt: skip
    return found


def cause(outage: Outage, struck_ns: Sequence[int]) -> int | None:
    """Number of the fault that an outage belongs to; None: it began before any could have mattered.

    Args:
        outage: The outage.
        struck_ns: When each fault struck, ascending.
    """
    end_ns = outage.latest_ns + 1 if outage.over_ns is None else min(outage.latest_ns + 1, outage.over_ns)
    before = [number for number, time_ns in enumerate(struck_ns) if time_ns < end_ns]
    return before[-1] if before else None


@dataclass(frozen=True)
class Toll:
    """What one fault cost.

    Attributes:
        lost: Packets.
        recoveries_ns: For each flow that lost some: from the fault until its first packet arrived again. If one that
            left after the fault had arrived, the flow had a path and lost packets later, as to a queue: from the first
            of those.
        unrecovered: Flows that lost some and of which nothing arrived any more.
    """

    lost: int
    recoveries_ns: tuple[int, ...]
    unrecovered: int

    @property
    def flows(self) -> int:
        """Flows that lost packets."""
        return len(self.recoveries_ns) + self.unrecovered


def tolls(found: Sequence[Outage], struck_ns: Sequence[int]) -> tuple[list[Toll], int]:
    """What each fault cost, and how many packets were lost without one.

    Args:
        found: Outages of all flows.
        struck_ns: When each fault struck, ascending.
    """
    by_fault: list[dict[int, list[Outage]]] = [{} for _ in struck_ns]
    without = 0
    for outage in found:
        number = cause(outage, struck_ns)
        if number is None:
            without += outage.packets
        else:
            by_fault[number].setdefault(outage.flow, []).append(outage)
    return [_toll(struck, flows) for struck, flows in zip(struck_ns, by_fault, strict=True)], without


def _toll(struck_ns: int, flows: dict[int, list[Outage]]) -> Toll:
    # A flow's first outage by this fault says when it was there again; what follows is lost all the same.
    firsts = [min(runs, key=lambda run: run.began_ns) for runs in flows.values()]
    starts = [run.began_ns if run.after_ns is not None and run.after_ns >= struck_ns else struck_ns for run in firsts]
    ends = [run.over_ns for run in firsts]
    return Toll(
        sum(run.packets for runs in flows.values() for run in runs),
        tuple(sorted(end - start for start, end in zip(starts, ends, strict=True) if end is not None)),
        sum(end is None for end in ends),
    )
