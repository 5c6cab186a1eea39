"""Packets a second, and the CPU time that each takes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from emulator.errors import GatewayError
from tests.bench.dataplane.bed import OBSERVER_PRIORITY, Bench
from tests.bench.dataplane.modes import Mode, Running
from tests.bench.dataplane.traffic import FrameSink, Generator, PacketSink, Sink, frame
from tests.support.rings_bed import GW_LEFT_MAC, LEFT_MAC

SIZES = {64: 60, 512: 508, 1500: 1514, 9000: 9014}
"""What sizes are called, and how many bytes such frames have without their check sequence: minimum-size Ethernet
frames are called by their length with it, and the full ones by their IP packets."""
MTUS = {1500: (64, 512, 1500), 9000: (9000,)}
"""Interfaces' MTU, and which sizes are sent over them."""
_WARM_S = 0.25
_SETTLE_S = 0.05
_STEP = 2.0
_STEPS = 7


@dataclass(frozen=True)
class Rate:
    """What came out at one rate.

    Attributes:
        offered_per_s: Packets/s that were sent.
        passed_per_s: Packets/s that arrived behind the device.
        poll_ns: CPU time a packet of the kernel's threads that poll the device's interfaces.
        process_ns: CPU time a packet of its processes.
        busy: Share of its CPU's time that both took.
    """

    offered_per_s: float
    passed_per_s: float
    poll_ns: float
    process_ns: float
    busy: float

    @property
    def cpu_ns(self) -> float:
        """CPU time a packet that arrived."""
        return self.poll_ns + self.process_ns


@dataclass(frozen=True)
class Rates:
    """What a mode carries of one size: as much as it can, and when it is sent all that the generator has."""

    best: Rate
    flooded: Rate


def as_observer(bench: Bench) -> None:
    """Give this process priority over what is observed, on the CPU where the traffic is made."""
    os.sched_setaffinity(0, {bench.cpus.traffic})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(OBSERVER_PRIORITY))


@contextmanager
def observing(bench: Bench) -> Iterator[None]:
    """Run with priority over what is observed, on the CPU where the traffic is made."""
    before = os.sched_getaffinity(0)
    as_observer(bench)
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, before)


def _sample(bench: Bench, generator: Generator, sink: Sink, rate: float | None, seconds: float) -> Rate:
    generator.pace(rate)
    time.sleep(_SETTLE_S)
    began, sent, passed, (polled, processed) = time.monotonic(), generator.sent, sink.packets(), bench.cpu_ns()
    time.sleep(seconds)
    taken, sent, passed = time.monotonic() - began, generator.sent - sent, sink.packets() - passed
    poll_ns, process_ns = (now - before for now, before in zip(bench.cpu_ns(), (polled, processed), strict=True))
    packets = max(1, passed)
    busy = (poll_ns + process_ns) / 1e9 / taken
    return Rate(sent / taken, passed / taken, poll_ns / packets, process_ns / packets, busy)


def sink_for(bench: Bench, mode: Mode) -> Sink:
    """The cheaper of the sinks, so that it is not what limits a mode."""
    kind = FrameSink if mode.frames else PacketSink
    return kind(bench.bed.right, "rh")


@contextmanager
def sending(bench: Bench, sink: Sink, target_mac: str, size: int, *, paced: bool) -> Iterator[Generator]:
    """Let the left host send until the block ends, then take its generator and the sink away.

    Args:
        bench: Where.
        sink: Counts what arrives.
        target_mac: What packets are addressed to.
        size: Of the packets.
        paced: See `Generator`.
    """
    left, right = bench.bed.left, bench.bed.right
    with closing(sink):
        packet = frame(SIZES[size], LEFT_MAC, target_mac, left.ip, right.ip)
        generator = Generator(left, "lh", packet, bench.cpus.traffic, paced=paced)
        try:
            yield generator
        finally:
            generator.stop()


def measure_rates(bench: Bench, mode: Mode, running: Running, size: int, seconds: float) -> Rates:
    """Send packets of one size through a mode that runs.

    Raises:
        GatewayError: Nothing comes through.
    """
    sink = sink_for(bench, mode)
    with sending(bench, sink, running.target_mac, size, paced=not mode.frames) as generator, observing(bench):
        time.sleep(_WARM_S)
        flooded = _sample(bench, generator, sink, None, seconds)
        best = _best(bench, generator, sink, seconds, flooded) if not mode.frames else flooded
    if not best.passed_per_s:
        raise GatewayError(f"{mode.name}: no packet of {size} bytes comes through")
    return Rates(best, flooded)


def measure_alone(bench: Bench, size: int, seconds: float) -> float:
    """Packets/s that reach a device which only drops them: what no mode can exceed."""
    sink = FrameSink(bench.bed.gw, "gl")
    with sending(bench, sink, GW_LEFT_MAC, size, paced=False) as generator, observing(bench):
        time.sleep(_WARM_S)
        return _sample(bench, generator, sink, None, seconds).passed_per_s


def _best(bench: Bench, generator: Generator, sink: Sink, seconds: float, flooded: Rate) -> Rate:
    """The rate at which most comes through: more than that and the device is busy with what it will drop."""
    rate = max(2 * flooded.passed_per_s, 200_000.0)
    seen: dict[float, Rate] = {}
    for _ in range(_STEPS):
        seen[rate] = _sample(bench, generator, sink, rate, seconds / 2)
        best = max(seen, key=lambda one: seen[one].passed_per_s)
        # Go on beyond the best, upwards first, and then between it and its neighbours.
        higher = [one for one in seen if one > best]
        lower = [one for one in seen if one < best]
        if not higher:
            rate = best * _STEP
        elif not lower:
            rate = best / _STEP
        elif min(higher) / best > best / max(lower):
            rate = (min(higher) * best) ** 0.5
        else:
            rate = (max(lower) * best) ** 0.5
    return max((_sample(bench, generator, sink, best, seconds), flooded), key=lambda one: one.passed_per_s)
