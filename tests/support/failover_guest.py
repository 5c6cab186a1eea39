"""Tests of what failing links and switches cost with the controller, that run inside a virtual-time kernel.

`tests/system/test_faults_virtual.py` boots it. Every link between switches is cut and every switch stopped. Computing
takes no time, so what may be lost follows from what is on the broken lines, and is compared packet by packet.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from network_guest import nothing_is_left
from outage_guest import FRAME_BYTES, MS, RATE_BPS, Found

from controller.client import ControllerClient, wait_ready
from emulator.experiment.routes import Routes
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Fabric, Link
from emulator.model.fault import short_name
from emulator.model.workload import Probe, TcpBulk
from emulator.network import Network, build
from emulator.workloads.probe import offsets_ns
from tests.support.controller_process import running_controller
from topologies import icgw

__all__ = ["nothing_is_left"]

OPENFLOW, REST = "127.0.0.1:6653", "127.0.0.1:8080"
QUEUE = 200
"""Packets that may wait for a line."""
REACTION_NS = 5_000
"""Every reading of the clock costs some ns, and a new set of paths takes some hundreds of them."""
REVALIDATOR_NS = 5 * MS
"""Open vSwitch looks at its cached flows at most this often."""
FORGIVEN_S = 5
"""By then the controller has forgotten that a link failed."""
SECOND_NS = 10**9

PROBES = Probe(
    "probes", tuple(permutations(("g1", "c1", "s1"), 2)), interval_ns=4_000, duration_ns=4 * MS, alongside=""
)
"""A host at each leaf; any two of them meet."""
LOAD = TcpBulk("bulk", ("g2",), ("r1",), duration_ns=2 * MS)
"""As much as a line carries, over the uplinks of two leaves."""


def fabric_of(spines: int = 2) -> Fabric:
    """Three leaves; lines take a whole number of ns for a probe."""
    return icgw(gpus=3, compute=1, storage=1, spines=spines, rate_bps=RATE_BPS, delay_ns=1_700, queue_packets=QUEUE)


@dataclass
class Steered:
    """A running fabric with its controller."""

    network: Network
    client: ControllerClient

    def events(self, kind: str, after: int = 0) -> list[dict[str, Any]]:
        """What the controller noted."""
        return list(self.client.get("/v1/events", kind=kind, after=after, limit=1000)["events"])

    @property
    def last(self) -> int:
        """Number of the controller's last event."""
        return int(self.client.get("/v1/events")["last"])


@contextmanager
def steered(folder: Path, fabric: Fabric, spread: str) -> Iterator[Steered]:
    """The fabric with a controller, both ready."""
    with (
        running_controller(folder, fabric, "shortest-path", (), "--spread", spread, listen=OPENFLOW, rest=REST),
        build(fabric, controller=f"tcp:{OPENFLOW}") as network,
    ):
        yield Steered(network, wait_ready(f"http://{REST}", len(fabric.switches), 60 * SECOND_NS))


def inner_links(fabric: Fabric) -> list[Link]:
    """The links between switches."""
    return [link for link in fabric.links if all(fabric.by_name[end].is_switch for end in (link.a, link.b))]


def hit_by(fabric: Fabric, broken: Sequence[Link], struck_ns: int, until_ns: int) -> list[int]:
    """How many packets of each flow are on broken links at any moment of an outage; all hosts' paths are known."""
    routes = Routes(fabric, "shortest-path", "hosts")
    counts = []
    for (source, target), offsets in zip(PROBES.pairs, offsets_ns(PROBES), strict=True):
        at = offsets.copy()
        hit = np.zeros(len(offsets), dtype=bool)
        for a, b in pairwise(routes.route(source, target).there):
            link = next(one for one in fabric.links_of(a) if b in (one.a, one.b))
            leaves = at + link.spec.delay_ns + link.spec.serialization_ns(FRAME_BYTES)
            if link in broken:
                hit |= (leaves > struck_ns) & (at < until_ns)
            at = leaves
        counts.append(int(hit.sum()))
    return counts


def four_links_ns(fabric: Fabric, queued: int = 0) -> int:
    """Time of a probe over as many links as there are between any two of the hosts, behind full-size packets."""
    spec = fabric.links[0].spec
    wait_ns = queued * spec.serialization_ns(spec.mtu_bytes + ETHERNET_HEADER_BYTES)
    return 4 * (spec.delay_ns + spec.serialization_ns(FRAME_BYTES) + wait_ns)


def test_each_link_and_each_switch_costs_what_is_on_its_lines(tmp_path: Path) -> None:
    """Cut every link between switches and stop every spine: lost is what was on broken lines, no packet more.

    Steps: one after the other, at 1 ms of probes among hosts at all leaves; mended at 2.5 ms.
    Verify: each fault costs at least the packets on its lines at that moment and at most those that meet them in the
    next 5 us; every pair meets again by then; being whole again costs nothing; and nothing is lost before.
    """
    fabric = fabric_of()
    with steered(tmp_path, fabric, "hosts") as here:
        faults: list[tuple[str, str, str, Sequence[Link]]]
        faults = [("cut", "restore", short_name(link), (link,)) for link in inner_links(fabric)]
        spines = [node.name for node in fabric.switches if node.name.startswith("sp")]
        faults += [("stop", "start", name, fabric.links_of(name)) for name in spines]
        for kind, repair, target, broken in faults:
            found = Found(here.network, tmp_path, [PROBES], [(1, kind, target), (2.5, repair, target)])
            struck_ns = found.struck(0)
            least = sum(hit_by(fabric, broken, struck_ns, struck_ns))
            most = sum(hit_by(fabric, broken, struck_ns, struck_ns + REACTION_NS))
            what = f"{kind} {target}"
            assert least <= found["lost_fault0"] <= most, what
            assert (found["unrecovered_fault0"], found["lost_fault1"], found["lost_without_fault"]) == (0, 0, 0), what
            if found["lost_fault0"]:
                latest_ns = REACTION_NS + PROBES.interval_ns + four_links_ns(fabric)
                assert found["recovery_max_fault0"] <= latest_ns, what
            time.sleep(FORGIVEN_S)
        assert here.client.health()["ready"] is True


def test_no_black_hole_under_load(tmp_path: Path) -> None:
    """Beside TCP that fills a line, with flows spread by switches: cut every link and stop every switch.

    Verify: as above, where what waits for the broken line counts as on it; a leaf's own hosts are apart as long as it
    is without power and at most 5 ms more, and nobody else notices.
    """
    fabric = fabric_of()
    spec = fabric.links[0].spec
    queue_ns = QUEUE * spec.serialization_ns(spec.mtu_bytes + ETHERNET_HEADER_BYTES)
    per_pair = 2 + (queue_ns + spec.delay_ns + REACTION_NS) // PROBES.interval_ns
    latest_ns = REACTION_NS + PROBES.interval_ns + four_links_ns(fabric, QUEUE)
    leaves = {"la1": "g1", "la2": "c1", "la3": "s1"}
    with steered(tmp_path, fabric, "flows") as here:
        faults = [("cut", "restore", short_name(link)) for link in inner_links(fabric)]
        faults += [("stop", "start", node.name) for node in fabric.switches]
        for kind, repair, target in faults:
            mended, duration_ns = (7, 13 * MS) if target in leaves else (2.5, 4 * MS)
            group = [LOAD, replace(PROBES, alongside=LOAD.name, duration_ns=duration_ns)]
            found = Found(here.network, tmp_path, group, [(1, kind, target), (mended, repair, target)])
            what = f"{kind} {target}"
            # What comes before the rules of a switch that starts, Open vSwitch goes on dropping until its next look.
            apart_ns, late_ns = (6 * MS, REVALIDATOR_NS) if target in leaves else (0, 0)
            pairs = 4 if target in leaves else len(PROBES.pairs)
            assert (found["unrecovered_by_faults"], found["lost_without_fault"]) == (0, 0), what
            assert found["pairs_hit_fault0"] <= pairs, what
            most = pairs * (per_pair + (apart_ns + late_ns) // PROBES.interval_ns)
            assert found["lost_fault0"] + found["lost_fault1"] <= most, what
            if found["lost_fault0"]:
                assert apart_ns <= found["recovery_max_fault0"] <= apart_ns + late_ns + latest_ns, what
            if target not in leaves:
                assert found["lost_fault1"] == 0, what
            time.sleep(FORGIVEN_S)
        assert here.client.health()["ready"] is True


def uplink(fabric: Fabric, source: str, target: str) -> str:
    """The first link between switches on the way from one host to another."""
    leaf, spine = Routes(fabric, "shortest-path", "hosts").route(source, target).there[1:3]
    return f"{leaf}-{spine}"


def test_open_vswitch_rests_between_two_failures(tmp_path: Path) -> None:
    """A link that fails 1 ms after another is repaired 5 ms after that one: Open vSwitch rests as long.

    Steps: cut uplinks of two leaves, one 1 ms after the other.
    Verify: the first costs what is on the line, the second exactly the rest of the 5 ms.
    """
    fabric = fabric_of(spines=4)
    links = [uplink(fabric, *pair) for pair in (("g1", "c1"), ("c1", "s1"))]
    probes = replace(PROBES, interval_ns=1_000, duration_ns=10 * MS)  # there is always one on each line
    with steered(tmp_path, fabric, "hosts") as here:
        faults = [(at, "cut", link) for at, link in zip((1, 2), links, strict=True)]
        found = Found(here.network, tmp_path, [probes], faults)
    at_once_ns = REACTION_NS + probes.interval_ns + four_links_ns(fabric)
    assert 0 < found["recovery_max_fault0"] <= at_once_ns
    assert 0 <= found["recovery_max_fault1"] - (REVALIDATOR_NS - MS) <= at_once_ns


def test_a_flapping_link_changes_paths_a_few_times(tmp_path: Path) -> None:
    """Thirty failures in 15 ms: paths change until the third one, then the link is left alone, and in the end used.

    Verify: five changes; no packet is lost from the fourth failure on; when the penalty has decayed, one more change.
    """
    fabric = fabric_of()
    flaps = [(1 + n / 2 + wait, what, "la1-spa1") for n in range(30) for wait, what in ((0, "cut"), (0.25, "restore"))]
    probes = replace(PROBES, duration_ns=18 * MS)
    with steered(tmp_path, fabric, "hosts") as here:
        first = here.last
        found = Found(here.network, tmp_path, [probes], flaps)
        changes = here.events("paths", first)
        assert len(changes) == 5
        assert [found[f"lost_fault{number}"] for number in range(6, 60)] == [0] * 54
        assert found["unrecovered_by_faults"] == 0
        assert here.events("link")[-1]["message"].endswith("is avoided: it flaps")
        time.sleep(2 * FORGIVEN_S)
        assert len(here.events("paths", first)) == 6
        assert here.events("link")[-1]["message"].endswith("is used again")
