"""Tests of links that keep storage and compute apart, in a virtual-time kernel; `test_classes_virtual.py` boots it.

A link that two senders want is held against the same link with one queue, and against fair queueing's formulas.
"""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from network_guest import bulk, mn, nothing_is_left, round_trips

from emulator.errors import LinkError
from emulator.measure import Sampler, Vantage
from emulator.model import theory
from emulator.model.fabric import Aqm, Fabric, FabricBuilder, LinkSpec
from emulator.network import Network, build
from emulator.network.shaping import quanta_bytes
from topologies import chain

__all__ = ["nothing_is_left"]

GBIT = 10**9
FAST = LinkSpec(1600 * GBIT, 0, queue_packets=1_000_000)
LINE = LinkSpec(100 * GBIT, 5_000, queue_packets=100_000)
STORAGE_PORT, COMPUTE_PORT = 4420, 9
HEADERS = 14 + 20 + 8
FULL = 9000 - 28
_SO_TIMESTAMPNS, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 35, 32, 33


def funnel(spec: LinkSpec) -> Fabric:
    """Hosts a0 and a1 on switch s1, b0 and b1 on s2, with one link of interest between the switches."""
    builder = FabricBuilder("funnel")
    builder.add_switch("s1")
    builder.add_switch("s2")
    builder.add_link("s1", "s2", spec)
    for number, (name, switch) in enumerate((("a0", "s1"), ("a1", "s1"), ("b0", "s2"), ("b1", "s2")), 1):
        builder.add_host(name, f"10.0.0.{number}/8")
        builder.add_link(name, switch, FAST)
    return builder.build()


@contextmanager
def running(spec: LinkSpec) -> Iterator[Network]:
    """The funnel with learning bridges that put UDP to `STORAGE_PORT` into queue 0 and leave the rest unmarked."""
    with build(funnel(spec)) as network:
        for switch in ("s1", "s2"):
            for proto in ("udp", "tcp"):
                for side in ("tp_dst", "tp_src"):
                    rule = f"priority=100,{proto},{side}={STORAGE_PORT},actions=set_queue:0,normal"
                    network.switches.ofctl("add-flow", switch, rule)
        network.verify()
        yield network


@dataclass(frozen=True)
class Arrival:
    """A datagram at its receiver."""

    at_ns: int
    port: int
    number: int
    frame_bytes: int


class Datagrams:
    """Numbered datagrams from a0 to b0 in the storage class and from a1 to b1 in the compute class."""

    def __init__(self, network: Network, stack: list[socket.socket]) -> None:
        self._senders: dict[int, socket.socket] = {}
        self._receivers: dict[int, socket.socket] = {}
        for source, target, port in (("a0", "b0", STORAGE_PORT), ("a1", "b1", COMPUTE_PORT)):
            with network.host(target).namespace():
                receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with network.host(source).namespace():
                sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            stack += [sender, receiver]
            receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            for one in (sender, receiver):
                one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 28)
                one.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 1 << 28)
            receiver.bind((network.host(target).ip, port))
            sender.connect((network.host(target).ip, port))
            self._senders[port], self._receivers[port] = sender, receiver
        # So that the switches have their flows: what is sent while a flow is new may be overtaken.
        for port in (STORAGE_PORT, COMPUTE_PORT):
            self.send(port, 0, 8)
            assert self._receivers[port].recv(64)

    def set_option(self, level: int, name: int, value: int) -> None:
        """Set a socket option of both senders."""
        for one in self._senders.values():
            one.setsockopt(level, name, value)

    def send(self, port: int, number: int, payload_bytes: int) -> None:
        """Send now."""
        self._senders[port].send(struct.pack("!Q", number) + bytes(payload_bytes - 8))

    def arrivals(self) -> list[Arrival]:
        """All that arrive until there was none for a second, in order of time."""
        found = []
        for port, receiver in self._receivers.items():
            receiver.settimeout(1.0)
            with suppress(TimeoutError):
                while True:
                    data, [(_, _, stamp)], _, _ = receiver.recvmsg(65_535, 256)
                    seconds, nanoseconds = struct.unpack("=qq", stamp)
                    number = struct.unpack_from("!Q", data)[0]
                    found.append(Arrival(seconds * 10**9 + nanoseconds, port, number, len(data) + HEADERS))
        return sorted(found, key=lambda one: one.at_ns)


@contextmanager
def datagrams(network: Network) -> Iterator[Datagrams]:
    """Sockets in both classes."""
    made: list[socket.socket] = []
    try:
        yield Datagrams(network, made)
    finally:
        for one in made:
            one.close()


def now_ns() -> int:
    """The clock of the receivers' time stamps."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def say(text: str) -> None:
    """Leave a figure for those who run this by hand with ``-s``."""
    sys.stdout.write(f"{text}\n")


@pytest.mark.parametrize("gbit", [10, 100, 1280])
@pytest.mark.parametrize("port", [STORAGE_PORT, COMPUTE_PORT])
def test_one_class_alone_is_timed_as_with_one_queue(gbit: int, port: int) -> None:
    """As long as only one class has packets, each arrives at the very nanosecond at which it would with one queue.

    Steps: datagrams of random sizes in bursts, alone and back to back, over both kinds of link.
    """
    rng = random.Random(7)
    plan = [(rng.choice([8, 8, 500, FULL, rng.randint(8, FULL)]), rng.random() < 0.2) for _ in range(400)]

    def times(spec: LinkSpec) -> list[tuple[int, int]]:
        pauses = random.Random(8)
        with running(spec) as network, datagrams(network) as sockets:
            start = now_ns()
            for number, (size, pause) in enumerate(plan, 1):
                if pause:
                    time.sleep(pauses.choice([0.0000005, 0.000005, 0.0001]))
                sockets.send(port, number, size)
            return [(one.number, one.at_ns - start) for one in sockets.arrivals()]

    line = replace(LINE, rate_bps=gbit * GBIT)
    plain = times(line)
    assert [number for number, _ in plain] == list(range(1, 401))
    for share in (0.3, 0.9):
        assert times(replace(line, storage_share=share)) == plain


def test_when_packets_leave_does_not_depend_on_whose_they_are() -> None:
    """Of equal frames of both classes, some leaves at the very moments at which one leaves a link with one queue.

    So the line is never idle while a packet waits, and never faster than it should be, at any load.
    """
    for load in (0.3, 0.9, 1.5):

        def times(spec: LinkSpec, load: float) -> list[int]:
            rng = random.Random(2)
            with running(spec) as network, datagrams(network) as sockets:
                start = now_ns()
                for number in range(1, 601):
                    time.sleep(rng.expovariate(load / spec.line_time_ns(9014)) * 1e-9)
                    sockets.send(rng.choice([STORAGE_PORT, COMPUTE_PORT]), number, FULL)
                return [one.at_ns - start for one in sockets.arrivals()]

        plain = times(LINE, load)
        assert len(plain) == 600
        assert times(replace(LINE, storage_share=0.3), load) == plain


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("compute_frame", [9014, 1514, None])
def test_the_line_is_shared_by_bytes_and_never_idle(share: float, compute_frame: int | None) -> None:
    """While both classes wait, storage has its part of the bytes to a frame and a turn, whatever the sizes.

    Steps: at one moment, full frames of storage and those of compute (full, small, random), far more than leave.
    Verify: at every arrival the distance from the share; all have arrived after exactly the time that the line needs.
    """
    rng = random.Random(3)
    spec = replace(LINE, storage_share=share)
    with running(spec) as network, datagrams(network) as sockets:
        for number in range(1, 401):
            sockets.send(STORAGE_PORT, number, FULL)
            sockets.send(COMPUTE_PORT, number, (compute_frame or rng.randint(60, 9014)) - HEADERS)
        found = sockets.arrivals()
    assert len(found) == 800
    left = {port: sum(one.frame_bytes for one in found if one.port == port) for port in (STORAGE_PORT, COMPUTE_PORT)}
    sent = dict.fromkeys(left, 0)
    worst = 0.0
    for one in found:
        sent[one.port] += one.frame_bytes
        left[one.port] -= one.frame_bytes
        if not all(left.values()):
            break
        worst = max(worst, abs(sent[STORAGE_PORT] - share * sum(sent.values())))
    needed = sum(spec.line_time_ns(one.frame_bytes) for one in found[1:])
    took = found[-1].at_ns - found[0].at_ns
    say(
        f"share {share} of bytes, compute frames {compute_frame}: off by at most {worst:.0f} B; "
        f"{took} ns for {needed:.2f} ns of frames"
    )
    assert worst <= 9014 + max(quanta_bytes(spec))
    edge_ns = abs(FAST.line_time_ns(found[-1].frame_bytes) - FAST.line_time_ns(found[0].frame_bytes))
    assert abs(took - needed) <= edge_ns + 2


def test_each_class_has_the_stated_queue() -> None:
    """Each class holds exactly what a link with one queue holds, whether the other's queue is full or empty.

    Steps: 300 datagrams of one class, then of both, at one moment into a line of 10 Mbit/s with 50 waiting.
    Verify: the first ones arrive; each class counts its own losses and bytes, and the port counts them all.
    """
    spec = LinkSpec(GBIT // 100, 5_000, queue_packets=50, storage_share=0.3)
    with running(spec) as network, datagrams(network) as sockets, network.queue_reader(["s1-eth1"]) as reader:
        [before] = reader.read()
        for number in range(1, 301):
            sockets.send(STORAGE_PORT, number, FULL)
        assert [one.number for one in sockets.arrivals()] == list(range(1, 52))
        for number in range(1, 301):
            sockets.send(STORAGE_PORT, number, FULL)
            sockets.send(COMPUTE_PORT, number, 500)
        time.sleep(0.00005)
        [during] = reader.read()
        arrivals = sockets.arrivals()
        [after] = reader.read()
    # The first of compute, which is over the sender's line sooner, is on this one at once; later ones find it busy.
    assert [one.number for one in arrivals if one.port == STORAGE_PORT] == list(range(1, 51))
    assert [one.number for one in arrivals if one.port == COMPUTE_PORT] == list(range(1, 52))
    assert [one.queued_packets for one in during.classes] == [50, 50]
    assert [one.queued_bytes for one in during.classes] == [50 * 9014, 50 * 542]
    assert (during.queued_packets, during.queued_bytes) == (101, 50 * 9014 + 51 * 542), "with the one on the line"
    grown = [
        (last.tx_packets - first.tx_packets, last.tx_bytes - first.tx_bytes, last.dropped - first.dropped)
        for first, last in zip(before.classes, after.classes, strict=True)
    ]
    assert grown == [(101, 101 * 9014, 249 + 250), (51, 51 * 542, 249)]
    assert after.dropped - before.dropped == 249 + 250 + 249
    assert [one.queued_packets for one in after.classes] == [0, 0]


def latencies(spec: LinkSpec, flood: int, port: int, frame: int) -> list[int]:
    """How long small packets wait, in ns above the unloaded time, while another class has more than the line carries.

    Args:
        spec: The link.
        flood: Port of the class that saturates the line, with 3000 full frames.
        port: Port of the small packets, sent at random while the line is busy.
        frame: Their bytes.
    """
    rng = random.Random(11)
    with running(spec) as network, datagrams(network) as sockets:
        sent = {0: now_ns()}
        sockets.send(port, 0, frame - HEADERS)
        [alone] = sockets.arrivals()
        unloaded = alone.at_ns - sent[0]
        for number in range(1, 3001):
            sockets.send(flood, number, FULL)
        for number in range(10_000, 10_150):
            time.sleep(rng.uniform(3, 15) * 1e-6)
            sent[number] = now_ns()
            sockets.send(port, number, frame - HEADERS)
        found = [one for one in sockets.arrivals() if one.number in sent]
    assert len(found) == 150
    return sorted(one.at_ns - sent[one.number] - unloaded for one in found)


@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("frame", [60, 1000])
def test_small_packets_of_one_class_do_not_wait_for_the_other(share: float, frame: int) -> None:
    """A packet of a class that is idle otherwise waits for one full frame and a turn of the other class at most.

    Weighted fair queueing promises its own time at its share and one frame (Parekh and Gallager, 1993). With one queue
    for both, the packet waits for all that came before it.
    """
    mixed = latencies(LINE, STORAGE_PORT, COMPUTE_PORT, frame)
    say(f"{frame} B with one queue: waits up to {mixed[-1]} ns")
    assert mixed[-1] > 1000 * LINE.line_time_ns(9014)
    spec = replace(LINE, storage_share=share)
    for index, (flood, port) in enumerate(((STORAGE_PORT, COMPUTE_PORT), (COMPUTE_PORT, STORAGE_PORT))):
        waits = latencies(spec, flood, port, frame)
        frame_ns = spec.line_time_ns(9014)
        most = frame_ns + quanta_bytes(spec)[index] * 8e9 / spec.rate_bps
        own = share if port == STORAGE_PORT else 1 - share
        fair = frame_ns + spec.line_time_ns(frame) * (1 / own - 1)
        say(
            f"share {share}, {frame} B next to class {index}: waits {waits[0]} to {waits[-1]} ns, median {waits[75]}; "
            f"{sum(one > fair for one in waits)} of 150 above fair queueing's {fair:.0f}; at most {most:.0f}"
        )
        assert waits[0] >= 0
        assert waits[-1] <= most + 1
        # At a random moment half of the frame on the line is left.
        assert 0.3 * frame_ns < waits[75] < 0.7 * frame_ns


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_service_follows_the_fluid_ideal(share: float) -> None:
    """At any load, no class is behind ideal fluid sharing by more than a frame and two turns, at any moment.

    Steps: bursts of random frames of both classes at random times, about as many as the line carries.
    Verify: against generalized processor sharing, computed from the times at which the packets came to the line.
    """
    rng = random.Random(5)
    spec = replace(LINE, storage_share=share)
    came: list[Arrival] = []
    with running(spec) as network, datagrams(network) as sockets:
        start = now_ns()  # the clock counts more nanoseconds than a float can tell apart
        free_ns = {STORAGE_PORT: 0.0, COMPUTE_PORT: 0.0}
        for number in range(1, 1501):
            if rng.random() < 0.1:
                time.sleep(rng.uniform(0, 8) * 1e-6)
            port = rng.choice([STORAGE_PORT, COMPUTE_PORT])
            size = rng.choice([FULL, FULL, rng.randint(20, FULL)])
            sockets.send(port, number, size)
            # Over the sender's line, to the switch.
            free_ns[port] = max(free_ns[port], now_ns() - start) + FAST.line_time_ns(size + HEADERS)
            came.append(Arrival(round(free_ns[port]), port, number, size + HEADERS))
        left = sockets.arrivals()
    assert len(left) == len(came)
    weights = {STORAGE_PORT: share, COMPUTE_PORT: 1 - share}
    came.sort(key=lambda one: one.at_ns)
    ideal = Fluid(spec, weights, came)
    served = dict.fromkeys(weights, 0)
    behind = ahead = 0.0
    for one in left:
        line_bytes = one.frame_bytes + spec.overhead_bytes
        at_ns = one.at_ns - start - spec.delay_ns - round(FAST.line_time_ns(one.frame_bytes))
        for port, octets in ideal.served_until(at_ns).items():
            behind = max(behind, octets - served[port] - (line_bytes if port == one.port else 0))
            ahead = max(ahead, served[port] - octets)
        served[one.port] += line_bytes
    say(f"share {share}: behind the fluid ideal by at most {behind:.0f} B, ahead by at most {ahead:.0f} B")
    most = 9014 + sum(quanta_bytes(spec))
    assert behind <= most
    assert ahead <= most


class Fluid:
    """Generalized processor sharing of a line: classes with packets share it by weight at every moment.

    Bytes are those on the line, with overhead.

    Args:
        spec: The line.
        weights: Of each class.
        came: Packets in order of time.
    """

    def __init__(self, spec: LinkSpec, weights: dict[int, float], came: list[Arrival]) -> None:
        self._rate = spec.rate_bps / 8e9
        self._overhead_bytes = spec.overhead_bytes
        self._weights = weights
        self._came = came
        self._next = 0
        self._now = 0.0
        self._waiting = dict.fromkeys(weights, 0.0)
        self._served = dict.fromkeys(weights, 0.0)

    def served_until(self, at_ns: float) -> dict[int, float]:
        """Bytes of each class that the line has carried until then, asked in ascending order."""
        while self._next < len(self._came) and self._came[self._next].at_ns <= at_ns:
            one = self._came[self._next]
            self._advance(one.at_ns)
            self._waiting[one.port] += one.frame_bytes + self._overhead_bytes
            self._next += 1
        self._advance(at_ns)
        return dict(self._served)

    def _advance(self, until_ns: float) -> None:
        while self._now < until_ns:
            busy = [port for port, octets in self._waiting.items() if octets > 1e-6]
            if not busy:
                self._now = until_ns
                return
            total = sum(self._weights[port] for port in busy)
            rates = {port: self._rate * self._weights[port] / total for port in busy}
            step = min(until_ns - self._now, *(self._waiting[port] / rates[port] for port in busy))
            for port in busy:
                self._waiting[port] -= rates[port] * step
                self._served[port] += rates[port] * step
            self._now += max(step, 1e-3)


@pytest.mark.parametrize("queue", [0, 1])
@pytest.mark.parametrize("gbit", [25, 100, 1280])
def test_an_unloaded_echo_takes_what_theory_says(gbit: int, queue: int) -> None:
    """Whichever queue the switches choose, an unloaded round trip is the same as without classes, to the nanosecond."""

    def echoes(share: float | None) -> list[int]:
        fabric = chain(hops=3, rate_bps=gbit * GBIT, delay_ns=1_234, storage_share=share)
        with build(fabric) as network:
            for switch in ("s1", "s2"):
                network.switches.ofctl("add-flow", switch, f"priority=100,icmp,actions=set_queue:{queue},normal")
            network.verify()
            found = round_trips(network, 3)
            if share is not None:
                with network.queue_reader(["s1-eth2"]) as reader:
                    [sample] = reader.read()
                assert [one.tx_packets > 0 for one in sample.classes] == [queue == 0, queue == 1]
            return found

    theory_ns = theory.ping_rtt_ns([LinkSpec(gbit * GBIT, 1_234)] * 3, payload_bytes=0)
    assert echoes(0.3) == echoes(None)
    assert abs(echoes(0.3)[0] - theory_ns) <= 5


def test_each_class_is_marked_by_its_own_queue() -> None:
    """With an ECN threshold, packets are marked by how many of their class wait; the other class does not matter.

    Steps: 30 ECN-capable datagrams of storage and 5 of compute at one moment, threshold 10.
    Verify: one is on the line, ten find at most ten waiting, the rest of storage is marked and nothing of compute.
    """
    spec = LinkSpec(GBIT, 5_000, queue_packets=50, storage_share=0.5, aqm=Aqm.ECN_THRESHOLD, ecn_threshold_packets=10)
    with running(spec) as network, datagrams(network) as sockets:
        sockets.set_option(socket.IPPROTO_IP, socket.IP_TOS, 2)
        for number in range(1, 31):
            sockets.send(STORAGE_PORT, number, FULL)
            if number <= 5:
                sockets.send(COMPUTE_PORT, number, FULL)
        assert len(sockets.arrivals()) == 35
        with network.queue_reader(["s1-eth1"]) as reader:
            [sample] = reader.read()
    assert (sample.marked, sample.dropped) == (30 - 1 - 10 - 1, 0)


@contextmanager
def stream(network: Network, source: str, target: str, port: int, amount: str) -> Iterator[subprocess.Popen[str]]:
    """A TCP stream of iperf3 that runs while the block does; an amount that it does not reach by then is cut off."""
    server = network.host(target).popen(["iperf3", "-s", "-1", "-p", str(port)], stdout=subprocess.DEVNULL)
    while f":{port}" not in network.host(target).run(["ss", "-Hltn"]).stdout:
        assert server.poll() is None
    argv = ["iperf3", "-c", network.host(target).ip, "-p", str(port), "-n", amount, "-i", "0", "-Z"]
    client = network.host(source).popen(argv, stdout=subprocess.DEVNULL)
    try:
        yield client
    finally:
        for one in (client, server):
            one.kill()
            one.wait()


def test_tcp_flows_of_both_classes_share_and_either_alone_has_all() -> None:
    """TCP in both classes: shares of the line within a hundredth, and the whole line for one that is alone."""
    for share in (0.3, 0.5):
        spec = replace(LINE, queue_packets=200, storage_share=share)
        with running(spec) as network:
            with (
                network.queue_reader(["s1-eth1"]) as reader,
                stream(network, "a0", "b0", STORAGE_PORT, "400M") as storage,
                stream(network, "a1", "b1", COMPUTE_PORT, "400M") as compute,
            ):
                time.sleep(0.005)
                [before] = reader.read()
                time.sleep(0.01)
                [after] = reader.read()
                assert (storage.poll(), compute.poll()) == (None, None)
            grown = [last.tx_bytes - first.tx_bytes for first, last in zip(before.classes, after.classes, strict=True)]
            assert sum(grown) >= 0.99 * 0.01 * spec.rate_bps / 8 * 9014 / 9038
            assert abs(grown[0] / sum(grown) - share) < 0.01
            say(f"TCP, share {share}: storage has {grown[0] / sum(grown):.4f} of {sum(grown) * 8 / 0.01e9:.2f} Gbit/s")
    for source, target, port in (("a0", "b0", STORAGE_PORT), ("a1", "b1", COMPUTE_PORT)):
        with running(replace(LINE, storage_share=0.3)) as network:
            report = bulk(network, source, target, "200M", port=port)
        goodput = report["sum_received"]["bits_per_second"]
        assert goodput >= 0.99 * theory.tcp_goodput_bps(LINE)
        say(f"TCP alone to port {port}: {goodput / 1e9:.4f} of {theory.tcp_goodput_bps(LINE) / 1e9:.4f} Gbit/s")


def test_reading_back_finds_other_turns() -> None:
    """Whoever changes the shares behind our back is found out."""
    with running(replace(LINE, storage_share=0.3)) as network:
        network.check()
        change = ["tc", "qdisc", "change", "dev", "s1-eth1", "parent", "2:1", "handle", "1:", "ets", "quanta"]
        subprocess.run([*change, "966", "9660"], check=True)
        with pytest.raises(LinkError, match=r"s1-eth1: ets quanta_bytes is \(966, 9660\) instead of \(966, 2254\)"):
            network.check()
        subprocess.run([*change, "966", "2254"], check=True)
        network.check()
        subprocess.run(["tc", "qdisc", "del", "dev", "s1-eth1", "parent", "1:2"], check=True)
        with pytest.raises(LinkError, match="a pfifo qdisc was asked for"):
            network.check()


def test_a_cut_loses_both_queues() -> None:
    """After a cut with both queues full, and restoring, the line is as new: no packet is left, timing is the same."""
    spec = replace(LINE, rate_bps=GBIT, storage_share=0.3)

    def one_each(sockets: Datagrams) -> list[int]:
        start = now_ns()
        sockets.send(STORAGE_PORT, 900, FULL)
        sockets.send(COMPUTE_PORT, 901, 500)
        return [one.at_ns - start for one in sockets.arrivals()]

    with running(spec) as network, datagrams(network) as sockets:
        before = one_each(sockets)
        for number in range(1, 101):
            sockets.send(STORAGE_PORT, number, FULL)
            sockets.send(COMPUTE_PORT, number, FULL)
        time.sleep(0.001)
        network.cut("s1-s2")
        network.restore("s1-s2")
        network.check()
        assert len(sockets.arrivals()) < 20
        with network.queue_reader(["s1-eth1"]) as reader:
            [sample] = reader.read()
        assert [sample.queued_packets, *(one.queued_packets for one in sample.classes)] == [0, 0, 0]
        assert one_each(sockets) == before


def test_series_have_both_queues() -> None:
    """Sampling an interface's queues gives their bytes and backlog over time, beside the interface's own."""
    spec = replace(LINE, rate_bps=GBIT, storage_share=0.3)
    with running(spec) as network, datagrams(network) as sockets:
        handles = network.class_handles()
        assert set(handles) == {"s1-eth1", "s2-eth1"}
        queues = {f"s1-eth1 {kind}": ("s1-eth1", handle) for kind, handle in handles["s1-eth1"].items()}
        with Sampler([Vantage(("s1-eth1",), queues=queues)], 50_000) as sampler:
            for number in range(1, 21):
                sockets.send(STORAGE_PORT, number, FULL)
                sockets.send(COMPUTE_PORT, number, 500)
            time.sleep(0.003)
    series = sampler.series()
    assert list(series) == ["s1-eth1", "s1-eth1 storage", "s1-eth1 compute"]
    storage, compute = series["s1-eth1 storage"], series["s1-eth1 compute"]
    assert storage.tx_bytes[-1] - storage.tx_bytes[0] == 20 * 9014
    assert compute.tx_bytes[-1] - compute.tx_bytes[0] == 20 * 542
    assert max(storage.backlog_packets) >= 18
    assert storage.backlog_packets[-1] == compute.backlog_packets[-1] == 0


def test_stock_mn_keeps_classes_apart(tmp_path: Path) -> None:
    """``mn`` makes such links, from the topology's words or the link's, and all hosts reach each other over them."""
    for topology, link in (("dumbbell,1,storage_share=30%", []), ("dumbbell,1", ["--link", "icgw,storage_share=0.3"])):
        (tmp_path / "words").write_text("sh tc qdisc show dev s1-eth1\n")
        result = mn("--topo", topology, *link, "--test", "pingall", "--post", str(tmp_path / "words"))
        said = result.stdout + result.stderr
        assert result.returncode == 0, said
        assert "0% dropped (2/2 received)" in said
        assert "quanta 966 2254" in said, said
