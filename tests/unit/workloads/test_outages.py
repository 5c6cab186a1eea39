"""What faults cost, told from what was sent and what arrived: runs of lost packets, causes, recoveries, disorder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model.workload import Probe
from emulator.workloads.outages import FlowLog, Outage, cause, outages, tolls
from emulator.workloads.probe import offsets_ns

TRANSIT_NS = 30


def log(arrivals: list[tuple[int, int]], sent: int = 10, gap_ns: int = 100) -> FlowLog:
    """A flow of which packets arrive with these numbers and delays beyond the transit, in this order."""
    departures = gap_ns * np.arange(sent, dtype=np.int64)
    numbers = np.array([number for number, _ in arrivals], dtype=np.int64)
    extra = np.array([late for _, late in arrivals], dtype=np.int64)
    return FlowLog(departures, numbers, departures[numbers] + TRANSIT_NS + extra, TRANSIT_NS)


def arriving(*numbers: int) -> list[tuple[int, int]]:
    return [(number, 0) for number in numbers]


def test_nothing_lost() -> None:
    """All packets in their order: no outage, no disorder, and the longest gap is that between packets."""
    flow = log(arriving(*range(10)))
    assert outages(0, flow) == []
    assert (flow.duplicated, flow.reordered, flow.longest_gap_ns) == (0, 0, 100)
    assert set(flow.delays_ns.tolist()) == {TRANSIT_NS}


def test_runs_of_lost_packets() -> None:
    """Runs in the middle, at the start and at the end, each with when it was over."""
    flow = log(arriving(1, 2, 5, 6))
    assert outages(3, flow) == [
        Outage(3, 1, 0, TRANSIT_NS, 130),
        Outage(3, 2, 300, 300 + TRANSIT_NS, 530, 200),
        Outage(3, 3, 700, 700 + TRANSIT_NS, None, 600),
    ]
    assert flow.longest_gap_ns == 300


def test_nothing_arrives() -> None:
    """A flow that is cut off all along: one outage without an end, and a gap as long as the flow."""
    flow = log([])
    assert outages(0, flow) == [Outage(0, 10, 0, TRANSIT_NS, None)]
    assert flow.longest_gap_ns == 900
    assert len(flow.delays_ns) == 0


def test_a_later_packet_may_end_an_outage() -> None:
    """What was sent after the lost ones may arrive out of order: the first arrival counts, whichever it is."""
    flow = log([(0, 0), (1, 0), (5, 0), (4, 500), (6, 0), (7, 0), (8, 0), (9, 0)])
    assert [(one.packets, one.over_ns) for one in outages(0, flow)] == [(2, 530)]
    # Before the run nothing took longer than the slowest packet: its first could still have been under way for that.
    assert outages(0, flow)[0].latest_ns == 200 + TRANSIT_NS + 500


def test_disorder_and_copies() -> None:
    """RFC 4737 counts packets behind a higher number; a second copy is a duplicate, not disorder."""
    assert log([(0, 0), (2, 0), (1, 150), (3, 0), (3, 20), (1, 400)], sent=4).reordered == 1
    flow = log([(0, 0), (2, 0), (1, 150), (3, 0), (3, 20), (1, 400)], sent=4)
    assert flow.duplicated == 2
    assert not flow.lost.any()
    assert flow.first_ns.tolist() == [30, 280, 230, 330], "the first copy counts"


@pytest.mark.parametrize(
    ("struck", "number"),
    [([], None), ([500], None), ([430], 0), ([330], 0), ([0, 400], 1), ([0, 431], 0), ([400, 400], 1)],
)
def test_causes(struck: list[int], number: int | None) -> None:
    """An outage belongs to the last fault that struck while its first packet could be under way, or before."""
    assert cause(Outage(0, 5, 400, 430, None), struck) == number


def test_what_strikes_when_an_outage_is_over_is_not_its_cause() -> None:
    """However long packets took elsewhere in the flow: after the end of an outage nothing can have caused it."""
    assert cause(Outage(0, 5, 400, 90_000, 1000), [300, 1000, 2000]) == 0
    assert cause(Outage(0, 5, 400, 90_000, 1000), [1000]) is None


def test_tolls() -> None:
    """Packets add up; a flow recovers with the end of its first outage; flows without an end are counted apart."""
    found = [
        Outage(0, 5, 100, 130, 630),
        Outage(0, 2, 700, 730, 930),
        Outage(1, 9, 110, 140, None),
        Outage(2, 1, 2000, 2030, 2130),
        Outage(3, 4, 20, 50, 150),
    ]
    [first, second], without = tolls(found, [100, 1500])
    assert (first.lost, first.recoveries_ns, first.unrecovered, first.flows) == (16, (530,), 1, 2)
    assert (second.lost, second.recoveries_ns, second.unrecovered, second.flows) == (1, (630,), 0, 1)
    assert without == 4
    assert tolls([], [5]) == ([type(first)(0, (), 0)], 0)


@pytest.mark.parametrize(("after_ns", "recovery_ns"), [(None, 530), (90, 530), (100, 130), (400, 130)])
def test_a_flow_that_had_a_path_counts_from_its_first_loss(after_ns: int | None, recovery_ns: int) -> None:
    """A fault at 100, packets lost from 500 on, the next arrives at 630: what arrived before decides what is counted.

    A packet that left before the fault may have passed the place in time; if one that left later arrived, there was
    a way.
    """
    [toll], without = tolls([Outage(0, 2, 500, 530, 630, after_ns)], [100])
    assert (toll.recoveries_ns, without) == ((recovery_ns,), 0)


@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.lists(st.integers(0, 7000), max_size=6).map(sorted),
)
def test_every_lost_packet_counts_once(arrived: list[bool], struck: list[int]) -> None:
    """Whatever is lost and whenever faults strike: runs hold each lost packet once, and so do faults' tolls."""
    flow = log(arriving(*(number for number, there in enumerate(arrived) if there)), sent=len(arrived))
    runs = outages(0, flow)
    numbers = [one.began_ns // 100 + index for one in runs for index in range(one.packets)]
    assert numbers == [number for number, there in enumerate(arrived) if not there]
    costs, without = tolls(runs, struck)
    assert sum(toll.lost for toll in costs) + without == arrived.count(False)
    for toll in costs:
        assert all(time_ns > 0 for time_ns in toll.recoveries_ns)
        assert toll.flows <= 1


@given(st.integers(1, 40), st.integers(100, 5000), st.integers(1, 50))
def test_flows_leave_evenly(pairs: int, interval_ns: int, rounds: int) -> None:
    """Every flow sends once an interval; flows start one after the other within the first one."""
    names = tuple((f"a{n}", f"b{n}") for n in range(pairs))
    workload = Probe("p", pairs=names, interval_ns=interval_ns, duration_ns=interval_ns * rounds)
    offsets = offsets_ns(workload)
    assert [len(one) for one in offsets] == [rounds] * pairs
    firsts = [int(one[0]) for one in offsets]
    assert firsts == sorted(firsts)
    assert 0 <= firsts[0] <= firsts[-1] < interval_ns
    assert all((np.diff(one) == interval_ns).all() for one in offsets)
