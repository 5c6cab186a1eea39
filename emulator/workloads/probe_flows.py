"""Many numbered UDP flows between hosts at once, each packet leaving at a time that is set beforehand.

One sender a flow, one place that holds packets a sending host (`emulator.workloads.pacer`), one packet ring a
receiving host. The upper bits of a packet's number say which flow it is of.

A host with several ports chooses one for each packet when that leaves, by its routes at that moment. A packet that
waited for its time behind the choice would take the way of some milliseconds before; so these hosts hand over each
packet at its time.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux import packet_filter
from emulator.linux.batch_send import SEQUENCE_BYTES, TimedSender
from emulator.linux.ring import PacketRing
from emulator.linux.timer import Timer, realtime_offset_ns, reset_timer_slack
from emulator.workloads.pacer import paced
from emulator.workloads.timed_flow import FRAME_HEADERS_BYTES, arriving, has_choice

START_LEAD_NS = 4_000_000
"""How long before the first departure its time must be known."""

_LEAD_NS = 2_000_000
_WINDOW_NS = 5_000_000
"""Packets are handed to the kernel for this long at a time, so that not all of them wait there at once."""

_PORT = 862
"""Where STAMP's test packets go (RFC 8762)."""
_SOURCE_PORT = 40_862
_FLOW_SHIFT = 40
_BUFFER_BYTES = 1 << 30
_RING_BLOCK_BYTES = 1 << 18
_LOOK_MS = 20
_QUIET_NS = 100_000_000
_QUIET_LOOKS = 50

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrived:
    """What arrived of one flow: numbers, the first one of the exchange being 0, and times (CLOCK_MONOTONIC)."""

    numbers: Times
    times_ns: Times


class _Collector:
    """Empties the rings of all receivers in a thread of its own."""

    def __init__(self, rings: Sequence[PacketRing]) -> None:
        self._rings = {ring.fileno(): ring for ring in rings}
        self._poll = select.poll()
        for descriptor in self._rings:
            self._poll.register(descriptor, select.POLLIN)
        self._numbers: list[Times] = []
        self._times: list[Times] = []
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._collect, name="probes")
        self._thread.start()
        self.count = 0

    def _collect(self) -> None:
        try:
            while not self._stop.is_set():
                for descriptor, event in self._poll.poll(_LOOK_MS):
                    ring = self._rings[descriptor]
                    if event & select.POLLERR:
                        ring.acknowledge()
                    self._take(ring)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for the result
            self._error = error

    def _take(self, ring: PacketRing) -> None:
        for batch in ring.ready():
            raw = batch.field(FRAME_HEADERS_BYTES, SEQUENCE_BYTES)
            self._numbers.append(raw.view(">u8")[:, 0].astype(np.int64))
            self._times.append(batch.times_ns)
            self.count += len(batch)

    def finish(self) -> tuple[Times, Times]:
        """End, and return all numbers and times (CLOCK_REALTIME), each ring's in order."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        empty = np.empty(0, dtype=np.int64)
        return np.concatenate([empty, *self._numbers]), np.concatenate([empty, *self._times])


class ProbeFlows:
    """Flows that are set up; see `probe_flows`."""

    def __init__(
        self, senders: Sequence[TimedSender], clocked: Sequence[bool], rings: Sequence[PacketRing], what: str
    ) -> None:
        self._senders, self._clocked, self._rings, self._what = senders, clocked, rings, what
        self._sent = [0] * len(senders)

    def exchange(self, departures_ns: Sequence[Times]) -> list[Arrived]:
        """Send every flow's packets at their times, wait until nothing more comes, and return what came of each.

        Args:
            departures_ns: For each flow, ascending, CLOCK_MONOTONIC; the first at least `START_LEAD_NS` from now.

        Raises:
            WorkloadError: A receiver could not keep up.
        """
        first = list(self._sent)
        collector = _Collector(self._rings)
        try:
            with Timer() as timer:
                self._send(departures_ns, timer)
                timer.wait_until(max(int(one[-1]) for one in departures_ns) + _QUIET_NS // 2)
                expected, seen = sum(map(len, departures_ns)), -1
                for _ in range(_QUIET_LOOKS):
                    if collector.count == seen or collector.count >= expected:
                        break
                    seen = collector.count
                    timer.wait(_QUIET_NS)
        except OSError as error:
            raise WorkloadError(f"workload {self._what}: cannot send: {error.strerror or error}") from error
        finally:
            numbers, times = collector.finish()
        if missed := sum(ring.dropped() for ring in self._rings):
            raise WorkloadError(f"workload {self._what}: the receivers' rings were full and missed {missed} packets")
        times -= realtime_offset_ns()
        flows, own = numbers >> _FLOW_SHIFT, numbers & ((1 << _FLOW_SHIFT) - 1)
        result = []
        for flow, begin in enumerate(first):
            # What arrives late from an earlier exchange is not of this one.
            mine = (flows == flow) & (own >= begin)
            order = np.argsort(times[mine], kind="stable")
            result.append(Arrived((own[mine] - begin)[order], times[mine][order]))
        return result

    def _send(self, departures_ns: Sequence[Times], timer: Timer) -> None:
        for at_ns, flow, begin, end in _turns(departures_ns, self._clocked):
            timer.wait_until(at_ns)
            self._senders[flow].send(departures_ns[flow][begin:end])
            self._sent[flow] += end - begin


def _turns(departures_ns: Sequence[Times], clocked: Sequence[bool]) -> Iterator[tuple[int, int, int, int]]:
    """When packets of which flow are handed to the kernel, and which: from one number to before another.

    Args:
        departures_ns: For each flow, ascending.
        clocked: Whether a flow's packets are handed over at their times, or a window of them some time before.
    """
    first_ns = min(int(one[0]) for one in departures_ns)
    turns = []
    for flow, (times, exact) in enumerate(zip(departures_ns, clocked, strict=True)):
        if exact:
            begins = np.arange(len(times))
            at_ns = times
        else:
            windows, begins = np.unique((times - first_ns) // _WINDOW_NS, return_index=True)
            at_ns = first_ns + windows * _WINDOW_NS - _LEAD_NS
        ends = np.append(begins[1:], len(times))
        turns.append(np.stack([at_ns, np.full(len(begins), flow), begins, ends], axis=1))
    rows = np.concatenate(turns)
    for row in rows[np.lexsort((rows[:, 1], rows[:, 0]))]:
        yield tuple(row.tolist())


@contextmanager
def probe_flows(pairs: Sequence[tuple[HostHandle, HostHandle]], payload_bytes: int, what: str) -> Iterator[ProbeFlows]:
    """Set up flows between pairs of hosts; everything is removed on the way out.

    Args:
        pairs: Sender and receiver of each flow.
        payload_bytes: UDP payload of each packet, at least `SEQUENCE_BYTES`.
        what: Workload on whose behalf, for messages.

    Raises:
        WorkloadError: The kernel lacks a part, or there is no route.
    """
    reset_timer_slack()
    with ExitStack() as undo:
        for source in {source.name: source for source, _ in pairs}.values():
            if not has_choice(source):
                undo.enter_context(paced(source, source.interfaces[0], _PORT, what))
        place = ""
        try:
            rings = []
            for target in {target.name: target for _, target in pairs}.values():
                place = target.name
                with target.namespace():
                    # Something has to own the port, or the target would answer each packet with an ICMP error.
                    sink = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    packet_filter.attach(sink, packet_filter.keep_all(0))
                    sink.bind((target.ip, _PORT))
                    into, keep = arriving(target, _PORT)
                    rings.append(undo.enter_context(PacketRing(into, keep, block_bytes=_RING_BLOCK_BYTES)))
            senders = []
            # Flows from one host differ in their port as well, as different applications' do.
            ports: Counter[str] = Counter()
            for flow, (source, target) in enumerate(pairs):
                place = source.name
                port = _SOURCE_PORT + ports[place]
                ports[place] += 1
                with source.namespace():
                    sender = TimedSender(
                        (target.ip, _PORT), payload_bytes, _BUFFER_BYTES, port, first_number=flow << _FLOW_SHIFT
                    )
                undo.callback(sender.close)
                senders.append(sender)
        except OSError as error:
            raise WorkloadError(f"workload {what}: {place}: {error.strerror or error}") from error
        yield ProbeFlows(senders, [has_choice(source) for source, _ in pairs], rings, what)
