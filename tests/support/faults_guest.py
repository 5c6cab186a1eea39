"""Tests of faults that run inside a virtual-time kernel; `tests/system/test_faults_virtual.py` boots it.

Here computing takes no time, so what a fault costs is compared with a formula to the packet and the nanosecond.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from network_guest import mn, nothing_is_left, round_trips

from emulator.errors import LinkError, NodeError
from emulator.model.fabric import Aqm, Fabric, FabricBuilder, LinkSpec
from emulator.network import Network, build
from topologies import chain, dumbbell

__all__ = ["nothing_is_left"]

GBIT = 10**9
REST_S = 0.01
"""Open vSwitch has taken notice by then, and what was under way has arrived."""


def carrier(network: Network, interface: str) -> bool:
    """Whether the kernel says that an interface has a carrier; one that is down has none."""
    node = interface.partition("-")[0]
    argv = ["ip", "-json", "link", "show", interface]
    if node.startswith("h"):
        text = network.host(node).run(argv).stdout
    else:
        text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    [found] = json.loads(text)
    return "LOWER_UP" in found["flags"]


def openflow_state(network: Network, switch: str, port: int) -> str:
    """What a switch tells its controller of a port: config and state lines of ``ovs-ofctl show``."""
    text = network.switches.ofctl("dump-ports-desc", switch)
    part = text[text.index(f" {port}(") :]
    return part[part.index("config:") : part.index("speed:")]


def lost_echoes(network: Network, count: int = 3) -> int:
    """Echoes of h0 that h1 does not answer."""
    host = network.host("h0")
    done = host.run(
        ["ping", "-n", "-q", "-c", str(count), "-i", "0.01", "-W", "0.1", network.host("h1").ip], check=False
    )
    return count - int(done.stdout.split(" received")[0].rpartition(" ")[2])


@pytest.mark.parametrize("link", ["s1-s2", "s2-s1", "h0-s1", "h1-s2"])
def test_a_cut_takes_the_carrier_of_both_ends_and_restoring_gives_all_back(link: str) -> None:
    """Cut and restore, twice, any link of a chain, named either way round.

    Verify: neither end has a carrier, the switch says so in OpenFlow, nothing arrives; then the kernel has the planned
    shaping, hosts have their routes and neighbours, and echoes take exactly as long as before.
    """
    with build(chain(hops=3)) as network:
        network.verify()
        before = round_trips(network, 2)
        [pair] = [one for one in network.links if {one[0].node, one[1].node} == set(link.split("-"))]
        for _ in range(2):
            network.cut(link)
            for end in pair:
                assert not carrier(network, end.interface)
                if end.node.startswith("s"):
                    assert "LINK_DOWN" in openflow_state(network, end.node, end.number)
            assert lost_echoes(network) == 3
            network.restore(link)
            network.check()
            for end in pair:
                assert carrier(network, end.interface)
                if end.node.startswith("s"):
                    assert "LINK_DOWN" not in openflow_state(network, end.node, end.number)
            network.verify()
            assert round_trips(network, 2) == before


def test_hosts_that_are_wired_together_keep_routes_and_neighbours() -> None:
    """A cut takes a host's own interface down, and the kernel then forgets: what was there comes back."""
    with build(chain(hops=1)) as network:
        host = network.host("h1")
        host.run(["ip", "route", "add", "192.0.2.0/24", "via", network.host("h0").ip, "metric", "7"])

        def known() -> list[str]:
            found = host.run(["ip", "route"]).stdout + host.run(["ip", "neigh", "show", "nud", "permanent"]).stdout
            return sorted(line.replace(" linkdown", "").strip() for line in found.splitlines())

        before, trips = known(), round_trips(network, 2)
        assert len(before) == 3
        network.cut("h0-h1")
        assert known() != before
        assert lost_echoes(network) == 3
        network.restore("h0-h1")
        network.check()
        assert known() == before
        assert round_trips(network, 2) == trips


def _marking() -> Fabric:
    builder = FabricBuilder("marking")
    builder.add_host("h0", "10.0.0.1/8")
    builder.add_host("h1", "10.0.0.2/8")
    builder.add_switch("s1")
    for host in ("h0", "h1"):
        builder.add_link(host, "s1", LinkSpec(GBIT, 0, aqm=Aqm.ECN_THRESHOLD))
    return builder.build()


@pytest.mark.parametrize("shaped", [True, False])
@pytest.mark.parametrize("link", ["h0-s1", "s1-h1"])
def test_a_silent_link_loses_everything_and_shows_nothing(link: str, shaped: bool) -> None:
    """Silence any link, with whatever shaping: carriers stay, ports say they run, packets leave and do not arrive.

    Verify: sent packets are counted on the sending end; a packet socket on the receiving end sees none; restoring
    brings everything back.
    """
    with build(_marking(), shaped=shaped) as network:
        network.verify()
        network.silence(link)
        ends = ("h0-eth0", "s1-eth1", "s1-eth2", "h1-eth0")
        assert all(carrier(network, end) for end in ends)
        assert "LINK_DOWN" not in openflow_state(network, "s1", 1) + openflow_state(network, "s1", 2)
        sender, receiver = ("h0-eth0", "s1-eth1") if link == "h0-s1" else ("s1-eth2", "h1-eth0")
        before = network.counters()[sender].tx_packets
        tap = _tap(network, receiver)
        assert lost_echoes(network) == 3
        assert network.counters()[sender].tx_packets == before + 3
        with tap, pytest.raises(BlockingIOError):
            tap.recv(2048)
        network.restore(link)
        network.check()
        network.verify()
        assert lost_echoes(network) == 0


def _tap(network: Network, interface: str) -> socket.socket:
    def opened() -> socket.socket:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        one.bind((interface, 0x0800))
        one.setblocking(False)
        return one

    node = interface.partition("-")[0]
    if node.startswith("h"):
        with network.host(node).namespace():
            return opened()
    return opened()


def test_a_stopped_switch_is_gone_and_comes_back_empty() -> None:
    """Stop and start the middle switch of three: neighbours lose carrier, and its flows are gone when it comes back.

    Verify: a flow that was put in is there before and not after; port numbers and datapath id are the same; shaping
    is as planned and echoes take as long as before.
    """
    with build(chain(hops=4)) as network:
        network.verify()
        before = round_trips(network, 2)
        network.switches.ofctl("add-flow", "s2", "priority=9,tcp,actions=drop")
        number = network.switches.ofctl("show", "s2").splitlines()[0].rpartition("dpid:")[2]
        network.stop_switch("s2")
        assert not any(carrier(network, one) for one in ("s1-eth2", "s2-eth1", "s2-eth2", "s3-eth1"))
        assert "LINK_DOWN" in openflow_state(network, "s1", 2)
        assert lost_echoes(network) == 3
        network.start_switch("s2")
        network.check()
        network.verify()
        assert "priority=9" not in network.switches.ofctl("dump-flows", "s2")
        assert network.switches.ofctl("show", "s2").splitlines()[0].rpartition("dpid:")[2] == number
        assert round_trips(network, 2) == before


def _trees(network: Network) -> dict[str, str]:
    """Every switch port's qdiscs, classes and filters, as ``tc`` shows them, without counters."""
    found = {}
    for pair in network.links:
        for port in pair:
            if not port.at_host:
                shown = [
                    subprocess.run(
                        ["tc", what, "show", "dev", port.interface], capture_output=True, check=True, text=True
                    )
                    for what in ("qdisc", "class", "filter")
                ]
                found[port.interface] = "".join(one.stdout for one in shown)
    return found


@pytest.mark.parametrize("fault", ["cut", "silence", "stop"])
def test_both_queues_of_a_link_come_back(fault: str) -> None:
    """A link with two queues has the same tree after a failure, and either queue carries packets.

    Steps: twice, break the middle of three links while echoes are under way, and mend it.
    Verify: what ``tc`` shows is the same to the letter, echoes take as long as before and go through the queue that a
    rule names.
    """
    with build(chain(hops=3, rate_bps=GBIT, storage_share=0.3)) as network:
        network.verify()
        before, trips = _trees(network), round_trips(network, 2)
        assert all("ets" in tree and tree.count("pfifo") == 2 for tree in before.values())
        do = {"cut": network.cut, "silence": network.silence, "stop": network.stop_switch}[fault]
        undo = network.start_switch if fault == "stop" else network.restore
        target = "s2" if fault == "stop" else "s1-s2"
        for _ in range(2):
            with network.host("h0").popen(["ping", "-q", "-f", "-c", "2000", network.host("h1").ip]) as load:
                do(target)
                undo(target)
                load.terminate()
            time.sleep(REST_S)
            network.check()
            assert _trees(network) == before
            assert round_trips(network, 3)[1:] == trips  # the first one after a stop is looked up
        for queue, name in ((0, "storage"), (1, "compute")):
            network.switches.ofctl("add-flow", "s1", f"priority=9,icmp,actions=set_queue:{queue},normal")
            time.sleep(REST_S)
            with network.queue_reader(["s1-eth2"]) as reader:
                start = {one.name: one.tx_packets for one in reader.read()[0].classes}
                assert lost_echoes(network) == 0
                end = {one.name: one.tx_packets for one in reader.read()[0].classes}
            assert end[name] - start[name] == 3
            assert sum(end.values()) - sum(start.values()) == 3


def test_faults_may_overlap() -> None:
    """A link that was cut while its switch was stopped stays dark when the switch comes back, until it is restored.

    Verify: in whatever order faults end, carriers are there exactly when nothing is wrong any more; a second fault of
    the same kind, a restore of what is whole, and unknown names are one line each and change nothing.
    """
    with build(chain(hops=3)) as network:
        network.stop_switch("s1")
        network.stop_switch("s2")
        network.cut("s1-s2")
        network.start_switch("s2")
        assert not carrier(network, "s2-eth1")
        assert carrier(network, "s2-eth2")
        network.start_switch("s1")
        assert not carrier(network, "s1-eth2")
        for action, text in (
            (lambda: network.cut("s2-s1"), "link s2-s1 is cut already"),
            (lambda: network.silence("s1-s2"), "link s1-s2 is cut already"),
            (lambda: network.restore("h0-s1"), "link h0-s1 is neither cut nor silent, so it cannot be restored"),
            (lambda: network.disable("h0-s1"), "link h0-s1 is not silent, so it is not to be disabled"),
            (lambda: network.cut("s1-s3"), "there is no link 's1-s3': did you mean 's1-s2' or 'h0-s1' or 's2-h1'?"),
        ):
            with pytest.raises(LinkError, match=f"^{text}"[:45].replace("?", "\\?")):
                action()
        for action, text in (
            (lambda: network.start_switch("s1"), "switch s1 is not stopped"),
            (lambda: network.stop_switch("h0"), "'h0' is a host, only switches are stopped and started"),
            (lambda: network.stop_switch("s9"), "there is no switch 's9'"),
        ):
            with pytest.raises(NodeError, match=f"^{text}"):
                action()
        network.restore("s1-s2")
        network.silence("s1-s2")
        assert carrier(network, "s1-eth2")
        network.disable("s1-s2")
        assert not carrier(network, "s1-eth2")
        network.restore("s1-s2")
        assert carrier(network, "s1-eth2")
        network.check()
        network.verify()
    with build(chain(hops=3)) as network:  # nothing of a network that is taken down while it is broken stays
        network.silence("h0-s1")
        network.cut("s1-s2")
        network.stop_switch("s2")


def test_mininet_link_and_switch_commands() -> None:
    """``configLinkStatus`` and the command line's ``link`` and ``switch`` work on a built network, repeats included."""
    with build(dumbbell()) as network:
        net = network.mininet
        for _ in range(2):
            net.configLinkStatus("s2", "s1", "down")
        assert net.pingAll(timeout="0.1") > 0
        for _ in range(2):
            net.configLinkStatus("s1", "s2", "up")
        network.check()
        assert net.pingAll(timeout="0.1") == 0
        script = Path(tempfile.gettempdir()) / "cli-words"
        script.write_text("link l1 s1 down\nswitch s2 stop\nswitch s2 stop\nlink l1 s1 up\nswitch s2 start\n")
        with Path(os.devnull).open() as nothing:
            net.command_line(script=str(script), stdin=nothing)
        script.unlink()
        network.check()
        network.verify()


def test_link_commands_of_stock_mn(tmp_path: Path) -> None:
    """``link s1 s2 down`` and ``up`` of stock ``mn`` need no tool of the machine's, and delays are as before."""
    ping = "l1 ping -n -c 1 -W 0.5 r1\n"
    lines = [ping]
    for link in ("s1 s2", "l1 s1"):
        lines += [f"link {link} down\n", ping, f"link {link} up\n", "sh sleep 1\n", ping, ping]
    (tmp_path / "words").write_text("".join(lines))
    options = ["--host", "lazy", "--link", "icgw,delay=1ms", "--test", "pingall", "--post", str(tmp_path / "words")]
    result = mn("--topo", "dumbbell,2", *options)
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    received = [line.partition("transmitted, ")[2][0] for line in said.splitlines() if "transmitted, " in line]
    assert received == list("101111"), said
    assert said.count("Network is unreachable") == 1, "a host whose own end is down has no route"
    assert "failed" not in said
    assert re.search(r"rtt min/avg/max/mdev = 6\.0\d\d/", said.rpartition("transmitted")[2]), said


def test_the_far_end_notices_at_once() -> None:
    """From the cut on nothing arrives, and after restoring packets pass at once: no notice is a second late."""
    with build(chain(hops=3)) as network:
        network.verify()
        for link in ("s1-s2", "s2-h1", "h0-s1"):
            start = time.monotonic_ns()
            network.cut(link)
            network.restore(link)
            while lost_echoes(network, 1):
                pass
            assert time.monotonic_ns() - start < 200_000_000
