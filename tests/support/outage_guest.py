"""Tests of what faults cost, that run inside a virtual-time kernel; `tests/system/test_faults_virtual.py` boots it.

Packets leave at times that are known, links take as long as they say, faults strike at their nanosecond: which packets
are lost, and when the first one arrives again, is computed and compared one by one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from network_guest import nothing_is_left

from emulator.errors import EmulatorError, WorkloadError
from emulator.experiment.faults import FaultDriver
from emulator.experiment.together import run_together
from emulator.model.fabric import Fabric
from emulator.model.fault import Action, Fault
from emulator.model.profile import profile
from emulator.model.workload import Ping, Probe, TcpBulk, Workload
from emulator.network import Network, build
from emulator.workloads import Context
from emulator.workloads.probe import offsets_ns
from topologies import chain

__all__ = ["nothing_is_left"]

MS = 1_000_000
CLOCKS_NS = 2
"""Packets are stamped by another clock than departures are set by; reading one after the other takes this long."""

FRAME_BYTES = 14 + 20 + 8 + 64
RATE_BPS = 80 * 10**9
"""At which a frame takes 13 ns on the line, a whole number: nothing is rounded."""


@contextmanager
def wired(fabric: Fabric) -> Iterator[Network]:
    """A chain whose switches pass everything from one side to the other, whatever they learn."""
    with build(fabric, fail_mode="secure") as network:
        pass_on(network, [switch.name for switch in fabric.switches])
        yield network


def pass_on(network: Network, switches: Sequence[str]) -> None:
    """Give switches with two ports the two flows that they need."""
    for name in switches:
        for here, there in ((1, 2), (2, 1)):
            network.switches.ofctl("add-flow", name, f"in_port={here},actions=output:{there}")


def context_of(network: Network, folder: Path) -> Context:
    """A cell on a chain: every path is the whole chain."""
    specs = [link.spec for link in network.fabric.links]
    hosts = {host.name: host for host in network.hosts}
    return Context("test", "cell", hosts, lambda _source, _target: specs, profile("documents"), 1, folder)


class Found:
    """What some workloads found while faults struck."""

    def __init__(
        self, network: Network, folder: Path, group: Sequence[Workload], faults: Sequence[tuple[float, str, str]] = ()
    ) -> None:
        driver = FaultDriver(
            network, [Fault(int(at * MS), Action(what), target, group[0].name) for at, what, target in faults]
        )
        with context_of(network, folder) as context:
            with driver:
                records, spans = run_together(group, context, driver)
            self.start_ns = spans[0].start_ns
            self.happened = driver.happened()
        self.figures = {(one.workload, one.metric, one.kind.value): one.value for one in records}

    def __getitem__(self, metric: str) -> Any:
        return self.figures["probes", metric, "measured"]

    def struck(self, number: int) -> int:
        """When a fault struck, from the start, in ns."""
        return self.happened[number].at_ns - self.start_ns


def probes(**changes: Any) -> Probe:
    """Probes both ways, a packet a microsecond each."""
    given: dict[str, Any] = {"pairs": (("h0", "h1"), ("h1", "h0")), "interval_ns": 1_000, "duration_ns": 12 * MS}
    return Probe("probes", **{**given, **changes})


def crossing_ns(fabric: Fabric, links: int) -> int:
    """Time that an unloaded packet takes over some of the chain's links."""
    return sum(link.spec.delay_ns + link.spec.serialization_ns(FRAME_BYTES) for link in fabric.links[:links])


def met(workload: Probe, fabric: Fabric, link: int, broken: tuple[int, int], *, vanish: bool) -> list[list[int]]:
    """Numbers of each flow's packets that a broken link takes.

    Args:
        workload: Probes h0 to h1 and back.
        fabric: A chain of equal links.
        link: Which is broken, counted from h0.
        broken: From when to when, counted from the start.
        vanish: Only what arrives at its far end is lost; otherwise everything that is on it at any moment.
    """
    taken = []
    for flow, offsets in enumerate(offsets_ns(workload)):
        before = link if flow == 0 else len(fabric.links) - 1 - link
        enters = offsets + crossing_ns(fabric, before)
        leaves = offsets + crossing_ns(fabric, before + 1)
        hit = (leaves > broken[0]) & ((leaves < broken[1]) if vanish else (enters < broken[1]))
        taken.append(hit.nonzero()[0].tolist())
    return taken


def first_again(workload: Probe, fabric: Fabric, taken: list[list[int]], struck_ns: int) -> list[int]:
    """For each flow: from the fault until its first packet after those taken arrives."""
    whole = crossing_ns(fabric, len(fabric.links))
    return sorted(
        int(offsets[lost[-1] + 1]) + whole - struck_ns
        for offsets, lost in zip(offsets_ns(workload), taken, strict=True)
    )


def test_probes_that_nothing_befalls(tmp_path: Path) -> None:
    """Without a fault nothing is lost, doubled or late: every figure is what theory says."""
    fabric = chain(hops=3, rate_bps=RATE_BPS, delay_ns=1_700)
    with wired(fabric) as network:
        found = Found(network, tmp_path, [probes(duration_ns=2 * MS)])
    assert (found["sent"], found["lost"], found["duplicated"], found["reordered"]) == (4000, 0, 0, 0)
    assert found.figures["probes", "lost", "theory"] == 0
    assert found["delay_min"] == found["delay_max"]
    assert found["delay_min"] == pytest.approx(found.figures["probes", "delay_min", "theory"], abs=CLOCKS_NS)
    assert found["longest_gap"] == 1000
    assert ("probes", "recovery_max", "measured") not in found.figures


@pytest.mark.parametrize(("link", "name"), [(0, "h0-s1"), (1, "s1-s2"), (2, "h1-s2")])
@pytest.mark.parametrize("silent", [False, True])
def test_an_outage_costs_exactly_its_packets(tmp_path: Path, link: int, name: str, silent: bool) -> None:
    """Cut (or silence) and restore each link of a chain: the packets that the broken link takes are lost, no others.

    Steps: probes both ways, a fault at 3 ms, restored at 7.0003 ms.
    Verify: the fault strikes at its time to the nanosecond; packets lost, gap and time to recover of each direction
    are computed packet by packet.
    """
    fabric = chain(hops=3, rate_bps=RATE_BPS, delay_ns=2_345)
    workload = probes()
    with wired(fabric) as network:
        found = Found(
            network, tmp_path, [workload], [(3.0001, "silence" if silent else "cut", name), (7.0003, "restore", name)]
        )
    assert [found.struck(0) - 3_000_100, found.struck(1) - 7_000_300] == pytest.approx([0, 0], abs=5)
    taken = met(workload, fabric, link, (found.struck(0), found.struck(1)), vanish=silent)
    again = first_again(workload, fabric, taken, found.struck(0))
    assert (found["lost"], found["lost_fault0"], found["lost_fault1"]) == (
        sum(map(len, taken)),
        sum(map(len, taken)),
        0,
    )
    assert found["pairs_hit_fault0"] == 2
    assert [found["recovery_p50_fault0"], found["recovery_max_fault0"]] == pytest.approx(again, abs=CLOCKS_NS)
    assert found["longest_gap"] == 1000 * (max(map(len, taken)) + 1)
    assert (found["duplicated"], found["reordered"], found["lost_without_fault"]) == (0, 0, 0)


def test_a_switch_without_power(tmp_path: Path) -> None:
    """Stop and start a switch: it comes back without flows, so packets pass only once somebody gives it some.

    Verify: what was lost is everything that met the switch's links from the stop until the flows were there.
    """
    fabric = chain(hops=4, rate_bps=RATE_BPS, delay_ns=1_000)
    workload = probes()
    with wired(fabric) as network:
        given: list[int] = []
        start_switch = network.start_switch

        def start_and_teach(name: str) -> None:
            start_switch(name)
            time.sleep(0.001)
            pass_on(network, [name])
            given.append(time.monotonic_ns())

        network.start_switch = start_and_teach  # type: ignore[method-assign]
        found = Found(network, tmp_path, [workload], [(3, "stop", "s2"), (6, "start", "s2")])
    assert found.struck(0) == pytest.approx(3 * MS, abs=5)
    assert given[0] - found.start_ns > 7 * MS

    def lost_until(passes_ns: int) -> int:
        """Links 1 and 2 are the switch's: lost is what is on either when they go, and what arrives before it passes."""
        leaves = [offsets + crossing_ns(fabric, 3) for offsets in offsets_ns(workload)]
        arrives = [offsets + crossing_ns(fabric, 2) for offsets in offsets_ns(workload)]
        hit = [(out > found.struck(0)) & (into < passes_ns) for out, into in zip(leaves, arrives, strict=True)]
        return sum(int(one.sum()) for one in hit)

    taught_ns = given[0] - found.start_ns
    # What the datapath remembers of packets without flows is looked at again 5 ms after the switch was emptied.
    emptied_ns = found.struck(0) + 100_000
    assert lost_until(taught_ns) <= found["lost_fault0"] <= lost_until(emptied_ns + 5 * MS + 20_000)
    assert (found["lost"], found["pairs_hit_fault0"]) == (found["lost_fault0"], 2)


def test_what_is_never_mended_is_said_and_mended_afterwards(tmp_path: Path) -> None:
    """A cut without a restore: no time to recover, two pairs stay apart; afterwards the network is whole again."""
    fabric = chain(hops=3, rate_bps=RATE_BPS)
    with wired(fabric) as network:
        found = Found(network, tmp_path, [probes(duration_ns=4 * MS)], [(1, "cut", "s2-s1")])
        network.check()
        network.verify()
    assert found["unrecovered_fault0"] == 2
    assert ("probes", "recovery_max", "measured") not in found.figures
    assert found["longest_gap"] >= 3 * MS
    series = json.loads((tmp_path / "probe-probes.json").read_text())
    assert sum(series["sent"]) == 8000
    assert sum(series["lost"]) == found["lost"]


def test_flapping(tmp_path: Path) -> None:
    """Ten cuts of 100 us, 200 us apart: each costs what it takes, and all are told apart."""
    fabric = chain(hops=3, rate_bps=RATE_BPS, delay_ns=700)
    workload = probes(duration_ns=4 * MS)
    faults = [(1 + 0.2 * n + wait, what, "s1-s2") for n in range(10) for wait, what in ((0, "cut"), (0.1, "restore"))]
    with wired(fabric) as network:
        found = Found(network, tmp_path, [workload], faults)
    for number in range(0, 20, 2):
        taken = met(workload, fabric, 1, (found.struck(number), found.struck(number + 1)), vanish=False)
        assert found[f"lost_fault{number}"] == sum(map(len, taken))
        again = first_again(workload, fabric, taken, found.struck(number))[-1]
        assert found[f"recovery_max_fault{number}"] == pytest.approx(again, abs=CLOCKS_NS)
        assert found[f"lost_fault{number + 1}"] == 0


def test_tcp_survives_beside_probes(tmp_path: Path) -> None:
    """A TCP flow that starts together with probes loses its link for 2 ms: its bytes all arrive in the end."""
    fabric = chain(hops=3, rate_bps=RATE_BPS, queue_packets=2000)
    bulk = TcpBulk("bulk", ("h0",), ("h1",), size_bytes=100_000_000)
    with wired(fabric) as network:
        group = [bulk, probes(interval_ns=10_000, duration_ns=6 * MS, alongside="bulk")]
        found = Found(network, tmp_path, group, [(2, "cut", "s1-s2"), (4, "restore", "s1-s2")])
    assert found.figures["bulk", "retransmits", "measured"] > 0
    assert found.figures["bulk", "goodput", "measured"] > 0
    assert 2 * 200 - 4 <= found["lost_fault0"] <= 2 * 200 + 40
    assert ("probes", "delay_min", "theory") not in found.figures, "it did not have the fabric for itself"


def test_failures_are_one_line(tmp_path: Path) -> None:
    """A workload that fails before the start lets the others go; an impossible fault ends the run: one line each."""
    with wired(chain(hops=3, rate_bps=RATE_BPS)) as network:
        group = [probes(), Ping("rtt", "h0", "nobody", alongside="probes")]
        with pytest.raises(WorkloadError, match="workload rtt: there is no host 'nobody'"):
            Found(network, tmp_path, group)
        with pytest.raises(EmulatorError, match="link s1-s2 is neither cut nor silent"):
            Found(network, tmp_path, [probes(duration_ns=MS)], [(0.5, "restore", "s1-s2")])
        network.cut("s1-s2")
        with pytest.raises(WorkloadError, match=r"nothing from h0 arrives at h1 \(and 1 more pairs\) before it starts"):
            Found(network, tmp_path, [probes(duration_ns=MS)])
        network.mend()
        assert Found(network, tmp_path, [probes(duration_ns=MS)])["lost"] == 0
