"""Tests of the network package that run inside a virtual-time kernel; `tests/system/test_network_virtual.py` boots it.

Here a clock step is a nanosecond and computing takes no time, so every figure is compared with a formula.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import CommandError, ControllerError, HostError, LinkError, NodeError
from emulator.model import theory
from emulator.model.fabric import Aqm, Fabric, FabricBuilder, LinkSpec
from emulator.network import EmulatedHost, Network, build
from emulator.network.host import end_programs
from emulator.network.namespace import Namespace, processes_in, read_sysctl, write_sysctl
from emulator.network.openvswitch import OpenVSwitch
from emulator.network.probe import echo_request, reply_sequence
from emulator.network.qdisc import Netem
from topologies import chain, dumbbell, icgw, single

GBIT = 10**9
FAST = LinkSpec(1600 * GBIT, 0, queue_packets=1_000_000)
_SO_TIMESTAMPNS = 35
_IP_TOS, _IP_RECVTOS, _IP_RECVERR = 1, 13, 11


def line(*specs: LinkSpec) -> Fabric:
    """Hosts h0 and h1 with a switch between every two of the links."""
    builder = FabricBuilder("line")
    builder.add_host("h0", "10.0.0.1/8")
    builder.add_host("h1", "10.0.0.2/8")
    row = ["h0", *(builder.add_switch(f"s{n}").name for n in range(1, len(specs))), "h1"]
    for left, right, spec in zip(row, row[1:], specs, strict=False):
        builder.add_link(left, right, spec)
    return builder.build()


def round_trips(network: Network, count: int) -> list[int]:
    """Echoes without payload from h0 to h1, in ns: from before sending until the kernel's time stamp of the answer."""
    source, target = network.host("h0"), network.host("h1")
    with source.namespace(), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo:
        echo.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        echo.settimeout(10)
        found = []
        for number in range(count):
            sent = time.clock_gettime_ns(time.CLOCK_REALTIME)
            echo.sendto(echo_request(7, number), (target.ip, 0))
            answer, [(_, _, stamp)], _, _ = echo.recvmsg(2048, 256)
            assert reply_sequence(answer, 7) == number
            seconds, nanoseconds = struct.unpack("=qq", stamp)
            found.append(seconds * 10**9 + nanoseconds - sent)
        return found


@contextmanager
def datagrams(network: Network) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A UDP sender on h0, connected to a receiver on h1; switches know the way already."""
    network.verify()
    with network.host("h0").namespace():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with network.host("h1").namespace():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender, receiver:
        for one in (sender, receiver):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)
        receiver.bind((network.host("h1").ip, 9))
        receiver.settimeout(1.0)
        sender.connect((network.host("h1").ip, 9))
        yield sender, receiver


def burst(network: Network, count: int, size_bytes: int) -> list[int]:
    """Send numbered datagrams all at one moment of virtual time; return the numbers that arrive."""
    with datagrams(network) as (sender, receiver):
        for number in range(count):
            sender.send(struct.pack("!I", number) + bytes(size_bytes - 4))
        arrived = []
        while True:
            try:
                arrived.append(struct.unpack_from("!I", receiver.recv(65_535))[0])
            except TimeoutError:
                return arrived


def bulk(network: Network, source: str, target: str, amount: str, *options: str, port: int = 5201) -> dict[str, Any]:
    """Move an amount by iperf3 and return what it reports."""
    server = network.host(target).popen(["iperf3", "-s", "-1", "-p", str(port)], stdout=subprocess.DEVNULL)
    while f":{port}" not in network.host(target).run(["ss", "-Hltn"]).stdout:
        assert server.poll() is None
    argv = ["iperf3", "-c", network.host(target).ip, "-p", str(port), "-n", amount, "-i", "0", "-Z", "-J", *options]
    report: dict[str, Any] = json.loads(network.host(source).run(argv).stdout)["end"]
    server.wait()
    return report


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test there are the same interfaces, processes, descriptors and temporary files as before."""

    def inventory() -> tuple[set[str], set[str], int, set[str]]:
        links = {entry.name for entry in Path("/sys/class/net").iterdir()}
        programs = {
            entry.name
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal() and (entry / "exe").is_symlink() and _program(entry)
        }
        return (
            links,
            programs,
            len(list(Path("/proc/self/fd").iterdir())),
            {p.name for p in Path(tempfile.gettempdir()).glob("icgw*")},
        )

    before = inventory()
    yield
    assert inventory() == before


def _program(entry: Path) -> str:
    try:
        return str((entry / "exe").readlink())
    except OSError:
        return ""


@pytest.mark.parametrize("hops", [1, 3, 5])
@pytest.mark.parametrize("gbit", [25, 100, 400, 1280])
def test_round_trip_is_exact(gbit: int, hops: int) -> None:
    """The unloaded round trip is the sum of serialization and propagation, to a few ns, also of the first packet.

    Steps: five echoes over chains of 1, 3 and 5 links at four rates, learning bridges between them.
    Verify: each is within 0.1 us and a nanosecond a hop of theory; all five are the same.
    """
    fabric = chain(hops=hops, rate_bps=gbit * GBIT, delay_ns=1_234)
    with build(fabric) as network:
        network.verify()
        found = round_trips(network, 5)
    expected = theory.ping_rtt_ns([link.spec for link in fabric.links], payload_bytes=0)
    assert max(abs(one - expected) for one in found) <= 100 + hops
    assert len(set(found)) == 1


@pytest.mark.parametrize("checksum_offload", [True, False])
def test_goodput_is_what_headers_leave(checksum_offload: bool) -> None:
    """TCP fills 100 Gbit/s with true 9000-byte packets over three hops: at least 99 % of theory, without a loss.

    Verify: goodput; no frame on the line is larger than the MTU; both with and without computed checksums.
    """
    fabric = chain(hops=3)
    with build(fabric, checksum_offload=checksum_offload) as network:
        report = bulk(network, "h0", "h1", "200M")
        with network.queue_reader(["h0-eth0"]) as reader:
            [sent] = reader.read()
    assert report["sum_received"]["bits_per_second"] >= 0.99 * theory.tcp_goodput_bps(fabric.links[0].spec)
    assert report["sum_sent"]["retransmits"] == 0
    assert sent.tx_bytes / sent.tx_packets <= 9014
    assert sent.tx_packets >= report["sum_received"]["bytes"] / 8948


def test_super_packets_are_larger_than_the_mtu() -> None:
    """With super-packets several segments travel as one: the interface counts far fewer packets than segments."""
    with build(chain(hops=2, true_packets=False)) as network:
        before = network.counters()["h0-eth0"].tx_packets
        bulk(network, "h0", "h1", "50M")
        sent = network.counters()["h0-eth0"].tx_packets - before
    assert sent < 50 * 2**20 / 8948 / 2


@pytest.mark.parametrize("size_bytes", [18, 1472, 8972])
@pytest.mark.parametrize("delay_ns", [0, 5_000, 250_000])
@pytest.mark.parametrize("queue", [1, 50])
def test_a_switch_drops_at_the_stated_count(size_bytes: int, delay_ns: int, queue: int) -> None:
    """Of a burst, the packet on the line and exactly the stated number of waiting ones pass, whatever their size.

    Steps: 300 datagrams at once over a line of 1.6 Tbit/s into one of 1 Gbit/s.
    Verify: the first 1 + queue arrive in order, the rest is counted as dropped at the slow port.
    """
    slow = LinkSpec(GBIT, delay_ns, queue_packets=queue)
    with build(line(FAST, slow)) as network:
        arrived = burst(network, 300, size_bytes)
        with network.queue_reader(["s1-eth2"]) as reader:
            [sample] = reader.read()
    assert arrived == list(range(1 + queue))
    assert sample.dropped == 300 - 1 - queue
    assert sample.queued_packets == 0


def test_a_host_drops_at_the_stated_count_and_learns_it() -> None:
    """A host's own port holds the stated number too, and its stack is told at once of what does not fit.

    Steps: 100 datagrams at once into a line of 1 Gbit/s without delay, by a socket that asks for errors.
    Verify: 1 + queue arrive; every other send fails with "no buffer space".
    """
    with build(line(LinkSpec(GBIT, 0, queue_packets=20))) as network, datagrams(network) as (sender, receiver):
        sender.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        refused = 0
        for _ in range(100):
            try:
                sender.send(bytes(8972))
            except OSError:
                refused += 1
        arrived = 0
        while arrived < 21:
            receiver.recv(65_535)
            arrived += 1
        receiver.settimeout(0.1)
        with pytest.raises(TimeoutError):
            receiver.recv(65_535)
    assert refused == 100 - 21


def test_queued_packets_leave_at_line_rate() -> None:
    """Packets of a burst arrive one serialization time after the other, to the nanosecond that the kernel counts in."""
    slow = LinkSpec(10 * GBIT, 700, queue_packets=100)
    with build(line(FAST, slow)) as network, datagrams(network) as (sender, receiver):
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        for _ in range(50):
            sender.send(bytes(1000))
        stamps = []
        for _ in range(50):
            _, [(_, _, stamp)], _, _ = receiver.recvmsg(2048, 256)
            seconds, nanoseconds = struct.unpack("=qq", stamp)
            stamps.append(seconds * 10**9 + nanoseconds)
    gaps = {after - before for before, after in pairwise(stamps)}
    frame_bytes = 14 + 20 + 8 + 1000
    assert gaps <= {slow.serialization_ns(frame_bytes), slow.serialization_ns(frame_bytes) + 1}
    # What each is rounded down by is carried over, so a burst takes as long as it should.
    assert abs(stamps[-1] - stamps[0] - 49 * slow.line_time_ns(frame_bytes)) < 1


def test_losses_are_random_and_repeatable() -> None:
    """A tenth of the packets is lost, the same ones under the same seed and others under another."""

    def lost(seed: int) -> set[int]:
        fabric = line(LinkSpec(100 * GBIT, 500, queue_packets=10_000, loss_ppm=100_000))
        with build(fabric, seed=seed) as network:
            return set(range(3000)) - set(burst(network, 3000, 100))

    first = lost(1)
    assert 3000 * 0.1 - 4 * 16.4 < len(first) < 3000 * 0.1 + 4 * 16.4, "four standard deviations"
    assert lost(1) == first
    assert lost(2) != first


def test_a_marking_link_marks_above_its_threshold_and_nothing_else() -> None:
    """ECN-capable packets that find more than K waiting are marked, others never are, and the queue's end still holds.

    Steps: bursts of 60 full-size datagrams, with and without ECN-capable bits, into a queue of 40 with K = 10.
    Verify: one leaves at once and 40 wait; of these exactly the last 29 are marked, of the others none; 19 are lost,
    and were marked on the way in.
    """
    slow = LinkSpec(GBIT, 5_000, queue_packets=40, aqm=Aqm.ECN_THRESHOLD, ecn_threshold_packets=10)
    with build(line(FAST, slow)) as network:
        for tos in (2, 0):
            with datagrams(network) as (sender, receiver):
                sender.setsockopt(socket.IPPROTO_IP, _IP_TOS, tos)
                receiver.setsockopt(socket.IPPROTO_IP, _IP_RECVTOS, 1)
                for _ in range(60):
                    sender.send(bytes(8972))
                seen = []
                with suppress(TimeoutError):
                    while True:
                        _, [(_, _, bits)], _, _ = receiver.recvmsg(65_535, 256)
                        seen.append(bits[0] & 3)
            # Packet n finds n - 1 waiting: the first has gone, as a token bucket lets it.
            assert seen == ([2] * 12 + [3] * 29 if tos else [0] * 41)
        with network.queue_reader(["s1-eth2"]) as reader:
            [sample] = reader.read()
        assert (sample.marked, sample.dropped) == (29 + 19, 2 * 19)


def test_a_marking_link_is_early_by_one_serialization() -> None:
    """What differs with an ECN threshold, exactly: an unloaded packet does not wait for its own serialization."""
    spec = LinkSpec(10 * GBIT, 3_000)
    marking = replace(spec, aqm=Aqm.ECN_THRESHOLD)
    with build(line(spec, marking)) as network:
        network.verify()
        [found] = set(round_trips(network, 3))
    expected = theory.ping_rtt_ns([spec, spec], payload_bytes=0)
    assert abs(found - (expected - 2 * spec.serialization_ns(42))) <= 2


def test_dctcp_keeps_the_queue_at_the_threshold() -> None:
    """Two DCTCP flows fill the bottleneck with a queue about the threshold and no loss, as theory has it.

    Verify: nothing is dropped or sent again, packets are marked, the queue seen every 100 us is near K = 65.
    """
    fabric = dumbbell(pairs=2, delay_ns=20_000, aqm="ecn-threshold", ecn_threshold_packets=65, queue_packets=1000)
    sysctls = {"net.ipv4.tcp_congestion_control": "dctcp", "net.ipv4.tcp_ecn": "1"}
    allowed = read_sysctl("net.ipv4.tcp_allowed_congestion_control", "here")
    with build(fabric, sysctls=sysctls) as network:
        reports: dict[str, Any] = {}
        flows = [
            threading.Thread(target=lambda n=n: reports.update({n: bulk(network, f"l{n}", f"r{n}", "150M")}))
            for n in "12"
        ]
        for flow in flows:
            flow.start()
        queue = []
        with network.queue_reader(["s1-eth1"]) as reader:
            while any(flow.is_alive() for flow in flows):
                queue.append(reader.read()[0])
                time.sleep(0.0001)
    assert read_sysctl("net.ipv4.tcp_allowed_congestion_control", "here") == allowed
    assert [report["sum_sent"]["retransmits"] for report in reports.values()] == [0, 0]
    assert (queue[-1].dropped, queue[-1].marked > 100) == (0, True)
    busy = sorted(one.queued_packets for one in queue if one.queued_packets > 5)
    assert 30 < busy[len(busy) // 2] < 80


def test_reading_back_finds_what_was_changed() -> None:
    """Whoever changes a link behind our back is found out: rate, queue, offloads, MTU.

    Steps: change one property at a time with the usual tools, check, and put it back.
    Verify: each check is one line with link, interface and both values; at the end all is well again.
    """
    tc = ["tc", "qdisc", "change", "dev", "h0-eth0", "root", "netem"]
    with build(chain(hops=2, rate_bps=100 * GBIT, delay_ns=2_000, queue_packets=20)) as network:
        host = network.host("h0")
        good = [*tc, "limit", "24", "delay", "2us", "rate", "100gbit", "24"]
        for change, restore, said in (
            ([*good[:-2], "99gbit", "24"], good, "rate_bytes_per_s is 12375000000 instead of 12500000000"),
            ([*good[:8], "99", *good[9:]], good, "limit_packets is 99 instead of 24"),
            (["ethtool", "-K", "h0-eth0", "gro", "on"], ["ethtool", "-K", "h0-eth0", "gro", "off"], "generic-receive"),
            (
                ["ip", "link", "set", "h0-eth0", "mtu", "1500"],
                ["ip", "link", "set", "h0-eth0", "mtu", "9000"],
                "MTU is 1500 instead of 9000",
            ),
        ):
            host.run(change)
            with pytest.raises(LinkError, match=f"link h0-eth0--s1-eth1: .* at h0-eth0: .*{re.escape(said)}"):
                network.check()
            host.run(restore)
            network.check()
        subprocess.run(["tc", "qdisc", "del", "dev", "s1-eth2", "root"], check=True)
        with pytest.raises(LinkError, match="a netem qdisc was asked for, there is none"):
            network.check()


def test_what_tc_refuses_is_an_error_and_leaves_nothing() -> None:
    """The kernel's own words reach the user, and what was made before is removed (the fixture looks).

    Steps: one port's plan is given a negative delay by hand.
    """
    network = build(chain(hops=3))
    port = network.links[1][0]
    [delay, *rest] = port.qdiscs
    broken = replace(port, qdiscs=(replace(delay, qdisc=Netem(delay_ns=-5)), *rest))
    network.links[1] = (broken, network.links[1][1])  # type: ignore[index]
    network._made.ports[port.node][-1] = broken
    with pytest.raises(
        LinkError, match=r"link s1-eth2--s2-eth1: netem qdisc at s1-eth2: the kernel says: .*negative latency"
    ):
        network.start()


def test_two_networks_do_not_touch_each_other() -> None:
    """A second network of the same names is refused with one line, and the first goes on working."""
    with build(chain()) as first:
        with pytest.raises(HostError, match="there is an interface 's1"), build(chain()):
            pass
        first.verify()


def test_host_programs_see_configfs_and_their_own_network() -> None:
    """Programs are in the host's network, and ``/sys/kernel/config`` is not hidden from them or from the shell."""
    with build(chain(hops=2)) as network:
        host = network.host("h0")
        assert "h0-eth0" in host.run(["ip", "-br", "link"]).stdout
        config = sorted(entry.name for entry in Path("/sys/kernel/config").iterdir())
        assert config
        assert host.run(["ls", "/sys/kernel/config"]).stdout.split() == config
        assert network.mininet.get("h0").cmd("ls /sys/kernel/config").split() == config
        enter = ["nsenter", f"--net={host.network_namespace.path}", "ip", "-br", "address"]
        assert "10.0.0.1/8" in subprocess.run(enter, capture_output=True, text=True, check=True).stdout
        assert host.sysctl("net.ipv4.tcp_ecn", "1") != "1"


def test_hosts_know_each_other_without_arp() -> None:
    """All hosts have permanent entries of all others: no packet but the user's is on the lines."""
    with build(single(hosts=20)) as network:
        network.verify()
        entries = network.host("h7").run(["ip", "neigh"]).stdout
        assert entries.count("PERMANENT") == 19
        counters = network.counters()
        assert counters["h2-eth0"].tx_packets == 1
        assert counters["s1-eth1"].tx_packets == 19


def test_an_unreachable_host_is_named() -> None:
    """If a host's line is cut, the check names the pair."""
    with build(single(hosts=4)) as network:
        network.host("h3").run(["ip", "link", "set", "h3-eth0", "down"])
        with pytest.raises(NodeError, match=r"^h3 does not reach h1 within 0\.5 s$"):
            network.verify(timeout_s=0.5)


def test_mininet_habits_work() -> None:
    """``net.get('l1').cmd(…)``, pingAll and the command line work on a built network; shells start only when needed."""
    backlog = read_sysctl("net.core.netdev_max_backlog", "here")
    with build(dumbbell()) as network:
        net = network.mininet
        assert read_sysctl("net.core.netdev_max_backlog", "here") == backlog, "Mininet changes it behind one's back"
        assert "pid=None" in repr(net.get("l1"))
        assert not processes_in({host.network_namespace.inode: host.name for host in network.hosts})
        assert "1 received" in net.get("l1").cmd("ping -c 1 10.0.1.1")
        assert "pid=None" not in repr(net.get("l1"))
        assert net.pingAll() == 0.0
        assert "NORMAL" in net.get("s1").dpctl("dump-flows")
        assert "s1-eth1" in net.get("s1").cmd("ip -br link")
        script = Path(tempfile.gettempdir()) / "cli-words"
        script.write_text("nodes\nl1 ping -c 1 r1\nnet\n")
        with Path(os.devnull).open() as nothing:
            net.command_line(script=str(script), stdin=nothing)
        script.unlink()


def test_programs_end_with_the_network() -> None:
    """A daemon that left its parent, one that ignores SIGTERM and a shell's job are gone when the network is."""
    with build(chain(hops=1)) as network:
        host = network.host("h1")
        host.run(["iperf3", "-s", "-D"])
        child = host.popen([sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"])
        network.mininet.get("h0").cmd("sleep 1000 &")
        assert child.poll() is None
    assert child.poll() is not None


def test_failing_programs_are_one_line() -> None:
    """A missing program, and one that fails, name program, host and reason."""
    with build(chain(hops=1)) as network:
        host = network.host("h0")
        with pytest.raises(CommandError) as missing:
            host.run(["no-such-program", "-x"])
        said = "'no-such-program -x' in h0 ended with status 127: cannot start: No such file or directory"
        assert str(missing.value) == said
        with pytest.raises(CommandError, match=r"'sh -c .*' in h0 ended with status 3: bad$"):
            host.run(["sh", "-c", "echo good; echo bad >&2; exit 3"])
        with pytest.raises(CommandError, match="cannot start"):
            host.popen(["no-such-program"])
        assert host.run(["false"], check=False).returncode == 1
        assert host.run(["cat"], input="words\n").stdout == "words\n"


def test_namespace_settings() -> None:
    """A new namespace has the sysctls that it was made with, ours are as before, and nonsense is refused by name."""
    before = read_sysctl("net.ipv4.ip_forward", "here")
    other = "0" if before == "1" else "1"
    namespace = Namespace.create("n", {"net.ipv4.ip_forward": other})
    try:
        assert read_sysctl("net.ipv4.ip_forward", "here") == before
        with namespace.entered():
            assert write_sysctl("net/ipv4/ip_forward", before, "n") == other
    finally:
        namespace.close()
    with pytest.raises(NodeError, match=r"n: cannot read net\.ipv4\.no_such"):
        Namespace.create("n", {"net.ipv4.no_such": "1"})
    with pytest.raises(NodeError, match=r"n: cannot set net\.ipv4\.ip_forward to 'maybe'"):
        Namespace.create("n", {"net.ipv4.ip_forward": "maybe"})


def test_bystanders_are_not_ended() -> None:
    """Ending a host's programs touches nothing outside it, even of the same name."""
    namespace = Namespace.create("lonely")
    host = EmulatedHost("lonely", "", (), namespace)
    bystander = subprocess.Popen(["sleep", "1000"])
    inside = host.popen(["sleep", "1000"])
    end_programs([host])
    assert inside.poll() is not None
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    namespace.close()


def test_a_controller_that_is_not_there() -> None:
    """Switches that do not connect in time are one line with switch, target and Open vSwitch's reason."""
    with build(icgw(), controller="tcp:127.0.0.1:6653") as network, pytest.raises(ControllerError) as caught:
        network.wait_connected(timeout_s=11)
    assert re.fullmatch(
        r"switch \w+ did not connect to tcp:127\.0\.0\.1:6653 within 11 s: Connection refused", str(caught.value)
    )


def test_a_controller_that_is_there() -> None:
    """As soon as every switch has said hello, waiting ends; the controller sees each datapath id of the fabric."""
    fabric = icgw(gpus=2)
    hello = struct.pack("!BBHI", 4, 0, 8, 1)
    features = struct.pack("!BBHI", 4, 5, 8, 2)
    seen: set[int] = set()

    def serve(listener: socket.socket) -> None:
        held = []
        while len(held) < len(fabric.switches):
            held.append(listener.accept()[0])
        for one in held:
            one.sendall(hello + features)
            data = b""
            while struct.pack("!BB", 4, 6) not in data:
                data += one.recv(4096)
            at = data.index(struct.pack("!BBHI", 4, 6, 32, 2))
            seen.add(struct.unpack_from("!Q", data, at + 8)[0])
        done.wait()
        for one in held:
            one.close()

    done = threading.Event()
    with socket.create_server(("127.0.0.1", 6653)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with build(fabric, controller="tcp:127.0.0.1:6653") as network:
            network.wait_connected()
            done.set()
            thread.join()
    assert seen == {switch.dpid for switch in fabric.switches}


def test_a_dead_switch_daemon_is_named() -> None:
    """If Open vSwitch dies, the next thing asked of it says so; taking down removes its datapath all the same."""
    with build(chain(hops=2)) as network:
        name, daemon = network.switches._daemons.running[-1]
        assert name == "ovs-vswitchd"
        daemon.kill()
        daemon.wait()
        with pytest.raises(NodeError, match="ovs-vswitchd ended with status -9"):
            network.switches.ofctl("show", "s1")


def test_switch_daemons_start_only_once_the_clock_is_late_enough(tmp_path: Path) -> None:
    """Open vSwitch sees no CPU before its clock passes 10 s; this test ran after that, so it has handlers."""
    switches = OpenVSwitch(tmp_path)
    switches.start()
    assert time.monotonic() >= 10
    switches.stop()
    switches.stop()


def mn(*words: str) -> subprocess.CompletedProcess[str]:
    """Run stock Mininet with our topologies, on the system's Python."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ["HOME"], "TERM": "dumb"}
    custom = str(Path(__file__).resolve().parents[2] / "topologies" / "mn.py")
    # For each node Mininet closes every number up to the limit of open files: take a usual one.
    return subprocess.run(
        ["prlimit", "--nofile=16384", "mn", "--custom", custom, *words],
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def test_stock_mn_shapes_links(tmp_path: Path) -> None:
    """``mn --link icgw,delay=…`` has exactly that delay, with lazy hosts and the kernel's datapath.

    Verify: all pings arrive; the round trip of six times 1 ms is what ping prints; nothing is left (the fixture looks).
    """
    (tmp_path / "words").write_text("l1 ping -c 3 -i 0.1 r1\nsh tc qdisc show dev s1-eth1\n")
    link = "icgw,rate=10Gbit/s,delay=1ms,queue=100"
    result = mn(
        "--topo", "dumbbell,2", "--host", "lazy", "--link", link, "--test", "pingall", "--post", str(tmp_path / "words")
    )
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert "0% dropped (12/12 received)" in said
    assert re.search(r"rtt min/avg/max/mdev = 6\.00\d/6\.00\d/6\.0\d", said), said
    assert "rate 10Gbit" in said
    assert "starting a private one" in said


def test_stock_mn_shapes_by_default_where_it_can() -> None:
    """Without ``--link``, our topologies have their links' properties where the kernel has netem; loops do no harm."""
    result = mn("--topo", "icgw,gpus=2,delay=20us", "--test", "pingall")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert "0% dropped (56/56 received)" in said
    assert "no netem" not in said


@pytest.mark.parametrize(
    ("words", "code", "line_"),
    [
        (["--topo", "icgw,gpus=0"], 2, "error: gpus: 0 is out of range: 1 to 250"),
        (["--topo", "chain", "--link", "icgw,delay=7"], 2, "error: link delay: 7 has no unit"),
        (["--topo", "chain", "--link", "icgw,rate=2Tbit/s"], 2, "error: rate: a link rate of 2000000000000 bit/s"),
        (["--topo", "chain", "--link", "icgw,rate=9bit/s"], 4, "error: a rate of 9 bit/s cannot be set"),
    ],
)
def test_stock_mn_refuses_with_one_line(words: list[str], code: int, line_: str) -> None:
    """Mistakes end ``mn`` with our line and code, not with its banner and 0; what was made so far is removed."""
    result = mn(*words, "--test", "pingall")
    assert result.returncode == code, result.stderr
    assert next(one for one in result.stderr.splitlines() if one.startswith("error: ")).startswith(line_)
    assert "Traceback" not in result.stderr
    assert "Cleaning up" not in result.stderr
