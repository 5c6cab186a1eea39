"""Tests of the batch ports on veth, where network namespaces may be made; `tests/system` boots a machine for that.

Natively: ``python -m pytest tests/support/rings_guest.py``, as root.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

import numpy as np
import pytest

from emulator.errors import GatewayError
from gateway.offload.steering import Hook, Steering
from gateway.rings.batch import Batch
from gateway.rings.mapped import MappedPort
from gateway.rings.plain import PlainPort
from gateway.rings.port import Port
from gateway.rings.umem import Umem, UmemPlan
from gateway.rings.xsk import Mode, RingSizes, XskPort
from tests.support.rings_bed import Bed, bed, may_make_namespaces

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
SMALL = RingSizes(64, 64, 64, 64)


def frame(number: int, length: int = 60, destination: str = "02000000ffff") -> bytes:
    """An Ethernet frame of an experimental type, told apart by its number."""
    return (bytes.fromhex(destination) + b"\x02\0\0\0\x01\x01\x88\xb5" + number.to_bytes(4, "big")).ljust(length, b"z")


def wait_readable(port: Port, seconds: float = 5.0) -> None:
    """Wait until something arrives."""
    poll = select.poll()
    poll.register(port.fileno(), select.POLLIN)
    assert poll.poll(seconds * 1000), "nothing arrived"


def forward(ingress: Port, egress: Port, frames: int) -> None:
    """Forward so many frames."""
    done = 0
    while done < frames:
        batch = ingress.receive(32)
        if not len(batch):
            wait_readable(ingress)
        while len(batch):
            count = egress.send(batch)
            done += count
            batch = batch.take(slice(count, None))
            egress.flush()
    assert egress.flush()


def received(sock: socket.socket, count: int) -> list[bytes]:
    """So many frames of the experimental type."""
    found: list[bytes] = []
    while len(found) < count:
        data = sock.recv(20_000)
        if data[12:14] == b"\x88\xb5":
            found.append(data)
    return found


@pytest.fixture
def plain_bed() -> Iterator[Bed]:
    """The usual bed."""
    with bed() as built:
        yield built


class XskPair:
    """Two AF_XDP ports on one memory, on the gateway's interfaces."""

    def __init__(
        self, built: Bed, plan: UmemPlan, sizes: RingSizes = SMALL, *, queue: int = 0, **options: bool
    ) -> None:
        hook = Hook.GENERIC if options.pop("generic", False) else Hook.DRIVER
        stamped = options.get("stamped", False)
        with built.gw.namespace():
            self.umem = Umem(plan)
            self.ports = [XskPort(self.umem, name, queue, sizes, mode=Mode.COPY, **options) for name in ("gl", "gr")]
            self.steering = [
                Steering(name, [IPv4Address("10.0.1.254")], hook, stamped=stamped) for name in ("gl", "gr")
            ]
        for port, steering in zip(self.ports, self.steering, strict=True):
            steering.add_socket(queue, port.fileno())
        self._built = built

    def __enter__(self) -> XskPair:
        return self

    def __exit__(self, *_: object) -> None:
        with self._built.gw.namespace():
            for steering in self.steering:
                steering.close()
        for port in self.ports:
            port.close()
        assert self.umem.pool.free == self.umem.pool.count
        self.umem.close()


@pytest.mark.parametrize("generic", [False, True])
def test_af_xdp_forwards_without_a_copy_in_user_space(plain_bed: Bed, generic: bool) -> None:
    """Frames come out as they went in and in order, nearly four times as many as there are; none is lost or copied."""
    left, right = plain_bed.raw(plain_bed.left, "lh"), plain_bed.raw(plain_bed.right, "rh")
    with left, right, XskPair(plain_bed, UmemPlan(256), generic=generic) as pair:
        ingress, egress = pair.ports
        for turn in range(30):
            sent = [frame(32 * turn + i, 60 + 37 * i) for i in range(32)]
            for data in sent:
                left.send(data)
            forward(ingress, egress, 32)
            assert received(right, 32) == sent
        assert ingress.counters.rx_frames == egress.counters.tx_frames == 30 * 32
        assert ingress.copies.total_frames == egress.copies.total_frames == 0
        assert ingress.lost_frames() == 0
        accounts = [port.accounting() for port in pair.ports]
        assert pair.umem.pool.free + pair.umem.pool.lent + sum(account.frames for account in accounts) == 256
        assert egress.statistics().tx_invalid == 0


def test_stack_keeps_what_is_its_own(plain_bed: Bed) -> None:
    """ARP and packets to the gateway's own address pass by the socket: the hosts can still ping their gateway."""
    with XskPair(plain_bed, UmemPlan(256)) as pair:
        done = plain_bed.left.run(["ping", "-c", "2", "-i", "0.01", "10.0.1.254"])
        assert "2 received" in done.stdout
        assert pair.ports[0].counters.rx_frames == len(pair.ports[0].receive(32)) == 0


def test_ingress_loses_what_a_full_egress_cannot_take(plain_bed: Bed) -> None:
    """Frames that nobody takes back fill the memory; then arrivals are lost and counted, and all are found again."""
    left = plain_bed.raw(plain_bed.left, "lh")
    with left, XskPair(plain_bed, UmemPlan(160)) as pair:
        ingress = pair.ports[0]
        for number in range(200):
            left.send(frame(number))
        batches = []
        while len(batch := ingress.receive(64)):
            batches.append(batch)
        held = sum(len(batch) for batch in batches)
        assert held + ingress.lost_frames() == 200
        assert ingress.lost_frames() > 0
        assert pair.umem.pool.lent == held
        for batch in batches:
            batch.release()
        ingress.flush()
        left.send(frame(1000))
        wait_readable(ingress)
        one = ingress.receive(1)
        assert one.frame(0) == frame(1000)
        one.release()


def test_frames_that_do_not_fit_are_refused(plain_bed: Bed) -> None:
    """A frame that a step made too long or too short for its piece of memory is dropped, counted, and not lost."""
    left = plain_bed.raw(plain_bed.left, "lh")
    with left, XskPair(plain_bed, UmemPlan(256)) as pair:
        for number in range(3):
            left.send(frame(number))
        wait_readable(pair.ports[0])
        batch = pair.ports[0].receive(3)
        assert len(batch) == 3
        batch.lengths[:2] = [2000, 0]
        assert pair.ports[1].send(batch) == 3
        assert (pair.ports[1].counters.tx_refused, pair.ports[1].counters.tx_frames) == (2, 1)


def test_arrivals_are_stamped_in_order(plain_bed: Bed) -> None:
    """The program's stamps are read from before the frames: they rise, and lie between two readings of the clock."""
    left = plain_bed.raw(plain_bed.left, "lh")
    with left, XskPair(plain_bed, UmemPlan(256), stamped=True) as pair:
        before = time.monotonic_ns()
        for number in range(8):
            left.send(frame(number))
        wait_readable(pair.ports[0])
        batch = pair.ports[0].receive(8)
        after = time.monotonic_ns()
        assert batch.arrivals_ns is not None
        stamps = batch.arrivals_ns.tolist()
        assert stamps == sorted(stamps)
        assert before <= stamps[0]
        assert stamps[-1] <= after
        batch.release()


def test_queues_have_sockets_of_their_own() -> None:
    """What arrives on a queue comes to its socket, and only there."""
    with bed(queues=2) as built:
        with built.left.namespace():
            umem = Umem(UmemPlan(256))
            senders = [XskPort(umem, "lh", queue, SMALL, mode=Mode.COPY) for queue in (0, 1)]
        with built.gw.namespace():
            own = Umem(UmemPlan(512))
            ports = [XskPort(own, "gl", queue, SMALL, mode=Mode.COPY) for queue in (0, 1)]
            steering = Steering("gl")
        for queue, port in enumerate(ports):
            steering.add_socket(queue, port.fileno())
        for queue, sender in enumerate(senders):
            offsets = umem.pool.lend(5 + queue)
            for place in offsets.tolist():
                umem.memory[place : place + 60] = np.frombuffer(frame(queue), dtype=np.uint8)
            lengths = np.full(len(offsets), 60, dtype=np.int64)
            assert sender.send(Batch(umem.pool, offsets, lengths)) == 5 + queue
        for queue, port in enumerate(ports):
            wait_readable(port)
            batch = port.receive(32)
            assert [batch.frame(i) for i in range(len(batch))] == [frame(queue)] * (5 + queue)
            batch.release()
        with built.gw.namespace():
            steering.close()
        for port in [*ports, *senders]:
            port.close()


def test_long_frames_travel_in_pieces() -> None:
    """Packets of 9000 bytes take three pieces of memory, and come out whole and in order between short ones."""
    with (
        bed(mtu=9000) as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        XskPair(built, UmemPlan.for_mtu(9000, 512), long_frames=True) as pair,
    ):
        sent = [frame(number, length) for number, length in enumerate([60, 9014, 3000, 9014, 4000, 1500, 3840])]
        for _ in range(10):
            for data in sent:
                left.send(data)
            forward(*pair.ports, len(sent))
            assert received(right, len(sent)) == sent
        assert pair.ports[0].copies.total_frames == 0


def test_two_programs_do_not_meet(plain_bed: Bed) -> None:
    """An interface that has somebody else's program keeps it, and the error says so."""
    with (
        plain_bed.gw.namespace(),
        Steering("gl"),
        pytest.raises(GatewayError, match="gl has an XDP program of somebody"),
    ):
        Steering("gl")


def bridged_tcp(built: Bed, make: Callable[[str], Port], total_bytes: int) -> list[Port]:
    """Let a TCP stream run through a bump in the wire between two hosts; returns its ports when it has ended."""
    with built.gw.namespace():
        ports = [make("gl"), make("gr")]
    stop_reader, stop_writer = socket.socketpair()

    def pump() -> None:
        poll = select.epoll()
        for port in ports:
            poll.register(port.fileno(), select.EPOLLIN | select.EPOLLET)
        poll.register(stop_reader.fileno(), select.EPOLLIN)
        while not any(fd == stop_reader.fileno() for fd, _ in poll.poll()):
            moved = True
            while moved:
                moved = False
                for ingress, egress in (ports, ports[::-1]):
                    batch = ingress.receive(64)
                    if len(batch):
                        moved = True
                        count = egress.send(batch)
                        batch.take(slice(count, None)).release()

    thread = threading.Thread(target=pump)
    thread.start()
    try:
        with built.right.namespace():
            listener = socket.create_server((built.right.ip, 5000))
        with built.left.namespace():
            client = socket.create_connection((built.right.ip, 5000), timeout=20)
        server, _ = listener.accept()
        server.settimeout(20)
        with listener, client, server:
            writer = threading.Thread(target=lambda: client.sendall(bytes(range(256)) * (total_bytes // 256)))
            writer.start()
            data = bytearray()
            while len(data) < total_bytes:
                data += server.recv(1 << 20)
            writer.join()
            assert data == bytes(range(256)) * (total_bytes // 256)
    finally:
        stop_writer.send(b"x")
        thread.join()
        stop_reader.close()
        stop_writer.close()
    return ports


@pytest.mark.parametrize("kind", ["mapped", "plain"])
def test_unfinished_super_packets_are_carried(kind: str) -> None:
    """TCP with checksums and segmentation left undone passes both kinds of packet-socket ports, byte for byte.

    The mapped one copies nothing in user space, the plain one every frame twice.
    """
    with bed(left_ip="10.0.1.1", right_ip="10.0.1.2") as built:
        for host, name in ((built.left, "lh"), (built.right, "rh")):
            host.run(["ethtool", "-K", name, "tx", "on", "tso", "on"])
        built.gw.run(["ip", "addr", "flush", "dev", "gl"])
        built.gw.run(["ip", "addr", "flush", "dev", "gr"])
        make: Callable[[str], Port] = MappedPort if kind == "mapped" else PlainPort
        ports = bridged_tcp(built, make, 1 << 22)
        frames = sum(port.counters.tx_frames for port in ports)
        most = max(port.counters.rx_bytes / port.counters.rx_frames for port in ports)
        assert most > 1514, "super-packets were seen"
        copies = sum(port.copies.total_frames for port in ports)
        assert copies == (0 if kind == "mapped" else 2 * frames)
        for port in ports:
            if isinstance(port, MappedPort):
                assert port.lent == 0
            elif isinstance(port, PlainPort):
                assert port.pool.lent == 0
            port.close()
