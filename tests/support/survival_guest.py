"""Tests of controllers that die under load, in a virtual-time kernel; `tests/system/test_tenants_virtual.py` boots it.

Two tenants' probes and streams cross the fabric all the time, and not one packet may be lost, doubled or late enough to
be overtaken.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.experiment.dataplane import data_plane
from emulator.linux.timer import Timer
from emulator.model.profile import profile
from emulator.network import Network, build
from tests.support import tenants_servers as servers
from tests.support.controller_process import RunningController, running_controller
from tests.support.steady_load import Flow, SteadyLoad, Stream
from tests.support.switch_tables import Entry, Tables
from tests.support.tenants_bed import (
    FABRIC,
    GATES,
    MEMBERS,
    NODE_PORT,
    SERVICES,
    Api,
    address,
    join_vpcs,
)

OPENFLOW = ("127.0.0.1:6653", "127.0.0.1:6654")
ONE, TWO = Api("127.0.0.1:8080"), Api("127.0.0.1:8081")
DESIGN = "gateway"
LOOK_NS, LOOKS = 50_000_000, 400
LONG_NS = 10_000_000_000
"""After which switches look for a lost controller every second again; the sooner one is lost, the longer they wait."""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """One network for all tests, with gateways and servers, whose switches know two controllers."""
    targets = [f"tcp:{one}" for one in OPENFLOW]
    sysctls = {"net.ipv4.tcp_syn_retries": "1"}
    with build(FABRIC, controller=targets, checksum_offload=False, sysctls=sysctls) as made:
        join_vpcs(made)
        hosts = {host.name: host for host in made.hosts}
        with ExitStack() as stack:
            place = Path(tempfile.mkdtemp())
            stack.enter_context(data_plane(FABRIC, hosts, DESIGN, profile("documents"), place))
            for vpc, node in MEMBERS:
                stack.enter_context(servers.object_server(hosts[node], NODE_PORT, f"{vpc}/{node}", place))
            behind = SERVICES["red", "object"]
            stack.enter_context(servers.object_server(hosts[behind.node], behind.port, "red/object", place))
            yield made


@pytest.fixture
def folder() -> Path:
    """A folder in the kernel's own memory."""
    return Path(tempfile.mkdtemp())


def start(stack: ExitStack, folder: Path, api: Api, *more: str) -> RunningController:
    """Start a controller on the store of that folder."""
    listen = OPENFLOW[0] if api is ONE else OPENFLOW[1]
    store = ("--store", str(folder / "store.db"))
    own = Path(tempfile.mkdtemp(dir=folder))
    return stack.enter_context(running_controller(own, FABRIC, DESIGN, (), *store, *more, listen=listen, rest=api.rest))


def loaded(stack: ExitStack, network: Network) -> SteadyLoad:
    """Start the load: between nodes of both VPCs, and to a service of each."""
    hosts = {host.name: host for host in network.hosts}
    wait(LONG_NS)
    flows = [
        Flow(hosts[source], hosts[target], address(number))
        for source, target, number in (("g0", "g1", 11), ("g1", "g0", 10), ("g3", "g2", 11))
    ]
    streams = []
    for vpc, kind, source in (("red", "block", "g0"), ("blue", "file", "g2")):
        behind, (number, port) = SERVICES[vpc, kind], GATES[kind]
        streams.append(Stream(hosts[source], hosts[behind.node], address(number), port, behind.port))
    load = stack.enter_context(SteadyLoad(flows, streams))
    load.begin()
    return load


def wait(duration_ns: int) -> None:
    """Let time pass."""
    with Timer() as timer:
        timer.wait(duration_ns)


def judged_as_before(network: Network) -> None:
    """New connections are judged by the policies, whether there is a controller or not."""
    number, port = GATES["object"]
    assert servers.read_object(network.host("g0"), address(number), port) == "red/object"
    assert servers.read_object(network.host("g3"), address(11), NODE_PORT) == "blue/g2"
    number, port = GATES["file"]
    assert not servers.opens(network.host("g1"), address(number), port)


def meddle(network: Network, tables: Tables) -> list[Entry]:
    """Change a switch behind the controller's back, in every way; returns the entries that are no longer as they were.

    What the load needs is left alone.
    """
    switch = "l0"

    def entry(*words: str) -> str:
        [found] = [text for name, text in tables.age_ns if name == switch and all(word in text for word in words)]
        return found

    deleted, altered = (entry("table=2", f"icmp,in_port={port},", "nw_dst=") for port in (3, 4))
    cookie, _, rest = entry("table=2", "udp,in_port=4,", "nw_dst=").partition(", ")
    stale = rest.replace("nw_dst=192.168.0.11", "nw_dst=192.168.0.12").replace("udp", "tcp")
    ofctl = network.switches.ofctl
    ofctl("add-flow", switch, f"{cookie},{stale}")
    ofctl("add-flow", switch, "table=0,priority=65000,udp,in_port=5,tp_dst=9,actions=drop")
    ofctl("add-flow", switch, "table=77,actions=in_port")
    ofctl("add-group", switch, "group_id=4711,type=all,bucket=actions=in_port")
    ofctl("add-meter", switch, "meter=9,kbps,band=type=drop,rate=1")
    ofctl("--strict", "del-flows", switch, _matched(deleted))
    ofctl("--strict", "mod-flows", switch, f"{_matched(altered)},actions=drop")
    return [(switch, deleted), (switch, altered)]


def _matched(entry: str) -> str:
    """Table, priority and match of an entry."""
    return entry.partition(", ")[2].partition(" actions=")[0].replace(" ", "")


def test_a_controller_killed_under_load_comes_back_without_a_trace(network: Network, folder: Path) -> None:
    """Kill -9, time without any controller, a new one on the same store: not a packet is lost, not an entry made anew.

    Steps: under load, kill the controller; let new connections be judged; change a switch by hand, in every way; start
    a controller on the same store.
    Verify: everything that was sent has arrived, once and in order; flows, groups and meters are as before and none of
    them is younger than it should be, but for what was changed by hand.
    """
    with ExitStack() as stack:
        first = start(stack, folder, ONE)
        ONE.wait_ready()
        ONE.declare()
        load = loaded(stack, network)
        judged_as_before(network)
        before = Tables.read(network)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        wait(50_000_000)
        judged_as_before(network)
        assert Tables.read(network).age_ns.keys() == before.age_ns.keys()
        changed = meddle(network, before)
        assert len(Tables.read(network).age_ns.keys() ^ before.age_ns.keys()) == 9

        start(stack, folder, ONE)
        ONE.wait_ready()
        after = Tables.read(network)
        assert after.age_ns.keys() == before.age_ns.keys()
        assert after.made_since(before, changed) == []
        judged_as_before(network)
        assert load.finish() > 10_000


def test_the_standby_takes_over_under_load(network: Network, folder: Path) -> None:
    """Kill -9 of the controller that decides: the other one takes over all switches, and changes are carried out.

    Steps: under load, permit something and kill the active one at once; wait for the other; forbid something; start the
    first one again.
    Verify: everything that was sent has arrived, once and in order; no entry is made anew; what was declared holds,
    and so does what is declared then; every switch has one master; who comes back stands by.
    """
    with ExitStack() as stack:
        first = start(stack, folder, ONE, "--redundant")
        ONE.wait_ready()
        start(stack, folder, TWO, "--redundant")
        ONE.declare()
        network.wait_connected()
        until_roles(network, "master", "slave")
        load = loaded(stack, network)
        judged_as_before(network)
        assert servers.read_object(network.host("g2"), address(10), NODE_PORT) == ""
        before = Tables.read(network)
        ONE.put("policies/blue-back", {"vpc": "blue", "action": "allow", "source": {"nodes": ["g2"]}})
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        wait(50_000_000)
        judged_as_before(network)
        until_active(TWO)
        TWO.wait_ready()
        assert servers.read_object(network.host("g2"), address(10), NODE_PORT) == "blue/g3"
        after = Tables.read(network)
        superseded = before.age_ns.keys() - after.age_ns.keys()
        assert {switch for switch, _ in superseded} <= {"l2"}
        assert after.made_since(before, superseded) == []

        no_more = {"vpc": "red", "action": "deny", "priority": 3000, "protocol": "tcp"}
        TWO.put("policies/red-no-more", {**no_more, "destination": {"nodes": ["g1"]}})
        TWO.wait_ready()
        assert servers.read_object(network.host("g0"), address(11), NODE_PORT) == ""
        changed = Tables.read(network)
        [(_, forbidden)] = after.age_ns.keys() - changed.age_ns.keys()
        assert "tcp,in_port=3,nw_dst=192.168.0.11" in forbidden
        assert changed.made_since(after, [("l0", forbidden)]) == []
        assert load.finish() > 20_000

        start(stack, folder, ONE, "--redundant")
        network.wait_connected()
        assert ONE.get("health")["controller"]["active"] is False
        assert TWO.get("health")["controller"]["active"] is True
        assert Tables.read(network).made_since(changed) == []
        until_roles(network, "slave", "master")


def until_roles(network: Network, *wanted: str) -> None:
    """Wait until the controllers have these roles at all switches; Open vSwitch tells them every 5 s."""
    expected = {f"tcp:{target}": {role} for target, role in zip(OPENFLOW, wanted, strict=True)}
    for _ in range(LOOKS):
        if network.switches.roles() == expected:
            return
        wait(LOOK_NS)
    assert network.switches.roles() == expected


def until_active(api: Api) -> None:
    """Wait until a controller decides."""
    for _ in range(LOOKS):
        if api.get("health")["controller"]["active"]:
            return
        wait(LOOK_NS)
    raise AssertionError(api.get("health"))
