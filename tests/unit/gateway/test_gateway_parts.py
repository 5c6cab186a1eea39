"""Timer, loop, signals, ring layout and line: the small parts that touch the kernel, without any rights."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from ipaddress import ip_address
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import GatewayError
from emulator.model.profile import StationModel
from gateway.forward_daemon import held_frames_of
from gateway.interface import LineProperties, host_addresses, own_addresses, parse_line
from gateway.loop import HeldSignals, Loop, StopSignals, When
from gateway.port import MemoryPort
from gateway.ring import RingPort, plan_ring
from gateway.timer import CLOCK_MONOTONIC, CLOCK_REALTIME, Timer


@pytest.mark.parametrize(("clock", "kind"), [(CLOCK_MONOTONIC, "monotonic"), (CLOCK_REALTIME, "realtime")])
def test_a_timer_never_goes_off_early(clock: int, kind: str) -> None:
    """It makes its descriptor readable at or after the absolute time; arming anew clears it; the past is at once."""
    now = {"monotonic": time.monotonic_ns, "realtime": time.time_ns}[kind]
    loop, timer = Loop(), Timer(clock)
    loop.add(timer.fileno(), lambda _events: None)
    for ahead_ns in (2_000_000, 0, -5, -(10**18)):
        due = now() + ahead_ns
        assert timer.arm(due)
        assert loop.wait_idle() == [(timer.fileno(), 1)]
        assert now() >= due
    assert timer.arm(now() + 3600 * 10**9)
    assert loop.wait_idle(0) == []
    timer.arm(0)
    assert loop.wait_idle() != []
    timer.disarm()
    assert loop.wait_idle(0) == []
    timer.close()
    loop.close()


def test_a_handler_may_remove_others() -> None:
    """A descriptor that a handler removed is not served any more, though its event was reported already."""
    loop = Loop()
    one, two = socket.socketpair()
    calls: list[str] = []

    def take(name: str, other: socket.socket) -> None:
        calls.append(name)
        loop.discard(other.fileno())

    loop.add(one.fileno(), lambda _events: take("one", two))
    loop.add(two.fileno(), lambda _events: take("two", one))
    one.send(b"x")
    two.send(b"x")
    events = loop.wait_idle()
    assert len(events) == 2
    loop.dispatch(events)
    assert len(calls) == 1
    loop.close()
    one.close()
    two.close()


def test_a_reused_number_gets_no_stale_event() -> None:
    """A handler closes a descriptor and opens another under its number: the old one's event does not reach the new."""
    loop = Loop()
    one, two = socket.socketpair()
    other, far = socket.socketpair()
    calls: list[str] = []

    def replace() -> None:
        calls.append("replaced")
        fd = one.fileno()
        loop.remove(fd)
        os.dup2(other.fileno(), fd)
        loop.add(fd, lambda _events: calls.append("stale"))

    loop.add(two.fileno(), lambda _events: replace())
    loop.add(one.fileno(), lambda _events: calls.append("old"))
    two_number, one_number = two.fileno(), one.fileno()
    loop.dispatch([(two_number, 1), (one_number, 1)])
    assert calls == ["replaced"]
    loop.dispatch([(one_number, 1)])
    assert calls == ["replaced", "stale"]
    loop.close()
    for sock in (one, two, other, far):
        sock.close()


def test_descriptors_wait_only_when_they_should() -> None:
    """One that belongs to idleness does not wake a loop that holds frames, and the other way round."""
    loop = Loop()
    one, two = socket.socketpair()
    loop.add(one.fileno(), lambda _events: None, when=When.IDLE)
    two.send(b"x")
    assert loop.wait_idle(0) != []
    assert loop.wait_holding(0) == []
    loop.remove(one.fileno())
    loop.add(one.fileno(), lambda _events: None, when=When.HOLDING)
    assert loop.wait_idle(0) == []
    assert loop.wait_holding(0) != []
    loop.close()
    one.close()
    two.close()


def test_signals_are_events() -> None:
    """Each signal calls once, from the loop; before and after, the process has its own handlers."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    loop, stops = Loop(), []
    with StopSignals(loop, lambda: stops.append(1)):
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            loop.dispatch(loop.wait_idle())
        assert stops == [1, 1]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert signal.set_wakeup_fd(-1) == -1
    loop.close()


def test_signals_wait_while_a_daemon_is_set_up_and_taken_down() -> None:
    """What comes before the loop is there reaches it, and so does what nobody looked at; at the end nothing is left."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    loop, stops = Loop(), []
    with HeldSignals():
        for number in numbers:
            os.kill(os.getpid(), number)
        with StopSignals(loop, lambda: stops.append(1)):
            loop.dispatch(loop.wait_idle())
            os.kill(os.getpid(), signal.SIGTERM)
        with StopSignals(loop, lambda: stops.append(2)):
            loop.dispatch(loop.wait_idle())
        os.kill(os.getpid(), signal.SIGHUP)
    assert stops == [1, 1, 1, 2]
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.set_wakeup_fd(-1) == -1
    loop.close()


def test_a_hangup_that_is_ignored_stays_so() -> None:
    """A daemon that was started by nohup outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        loop, stops = Loop(), []
        with StopSignals(loop, lambda: stops.append(1)):
            os.kill(os.getpid(), signal.SIGHUP)
            assert loop.wait_idle(0) == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        loop.close()
    finally:
        signal.signal(signal.SIGHUP, before)


@given(st.integers(60, 70_000), st.integers(1, 10_000), st.integers(1, 1 << 28))
def test_ring_layout(frame_bytes: int, frames: int, limit_bytes: int) -> None:
    """Slots are aligned, hold the frame with what the kernel puts before it, and do not cross blocks."""
    size = plan_ring(frame_bytes, frames, limit_bytes)
    assert size.slot_bytes % 16 == 0
    assert size.slot_bytes >= frame_bytes + 76 + 10
    assert 1 <= size.slots_per_block * size.slot_bytes <= size.map_bytes // size.blocks
    assert (size.map_bytes // size.blocks) % os.sysconf("SC_PAGESIZE") == 0
    assert size.slots >= frames or size.map_bytes + size.block_bytes > limit_bytes
    assert size.map_bytes <= max(limit_bytes, size.block_bytes)
    # A block does not end with room for many more slots.
    assert size.block_bytes - size.slots_per_block * size.slot_bytes < size.slot_bytes
    assert size.slots_per_block >= 8


def test_a_ring_needs_an_interface() -> None:
    """No such interface, a name that cannot be, a loopback: one clear line each (or the right that is missing)."""
    for name, says in (("nosuch0", "No such device"), ("x" * 20, "too long"), ("lo", "not an Ethernet")):
        with pytest.raises(GatewayError, match=f"{says}|no right to open a packet socket"):
            RingPort(name, 10)


def test_frames_that_a_station_holds() -> None:
    """The ring is made for the queue and for what is in its latency."""
    assert held_frames_of(StationModel(5_000, None, None, 100, ""), 9014) == 101
    assert held_frames_of(StationModel(100_000, 500_000, None, 4096, ""), 9014) == 4096 + 50 + 1
    assert held_frames_of(StationModel(5_000, None, 100_000_000_000, 0, ""), 9014) == 6 + 1
    assert held_frames_of(StationModel(100_000, 500_000, 10**11, 0, ""), 9014) == 50 + 1


NETEM = {
    "kind": "netem",
    "handle": "1:",
    "root": True,
    "refcnt": 2,
    "options": {
        "limit": 1000,
        "delay": {"delay": 4e-06, "jitter": 0, "correlation": 0},
        "rate": {"rate": 12_500_000_000, "packetoverhead": 24, "cellsize": 0, "celloverhead": 0},
        "ecn": False,
        "gap": 0,
    },
}


def listing(**options: object) -> str:
    merged = {key: value for key, value in {**NETEM["options"], **options}.items() if value is not None}
    return json.dumps([{**NETEM, "options": merged}])


def test_a_line_is_read_from_tc() -> None:
    """Rate, overhead and queue of a plain netem, as tc prints it."""
    assert parse_line(listing()) == LineProperties(100_000_000_000, 24, 1000)
    assert parse_line(listing(delay=None)) == LineProperties(100_000_000_000, 24, 1000)


@pytest.mark.parametrize(
    "text",
    [
        listing(rate=None),
        listing(delay={"delay": 1e-6, "jitter": 1e-7, "correlation": 0}),
        listing(gap=5),
        listing(**{"loss-random": {"loss": 0.01, "correlation": 0}}),
        listing(rate={"rate": 1, "packetoverhead": 0, "cellsize": 48, "celloverhead": 5}),
        json.dumps([NETEM, NETEM]),
        json.dumps([{"kind": "noqueue", "root": True, "options": {}}]),
        "[]",
        "",
        "null",
        "[{]",
        '[{"options": 5}]',
    ],
)
def test_an_uncertain_line_is_none(text: str) -> None:
    """Whatever could let a frame be on the line at another time than reckoned means: no line, each frame by itself."""
    assert parse_line(text) is None


def test_own_addresses_include_loopback() -> None:
    """Addresses of all interfaces of this namespace."""
    assert "127.0.0.1" in {str(ip) for ip in own_addresses()}
    assert own_addresses() == {ip for ip in host_addresses() if ip.version == 4}


def test_addresses_of_one_link_are_known_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPv6 addresses come with the name of their link, where they hold on one only."""
    address = SimpleNamespace(family=socket.AF_INET6, address="fe80::1%eth0")
    other = SimpleNamespace(family=socket.AF_PACKET, address="02:00:00:00:00:01")
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": [address, other]})
    assert host_addresses() == {ip_address("fe80::1")}
    assert own_addresses() == frozenset()


def test_a_slot_is_given_back_once() -> None:
    """The memory port catches what would corrupt a ring."""
    port = MemoryPort(bytes(6), slots=1)
    assert port.inject(b"a" * 60, 0)
    assert not port.inject(b"b" * 60, 0)
    [frame] = port.receive(10)
    port.release(frame)
    with pytest.raises(ValueError, match="given back but was not lent"):
        port.release(frame)
    assert port.lost_frames() == 1
