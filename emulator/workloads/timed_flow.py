"""One UDP flow whose packets leave at times that are set beforehand, and arrive with the kernel's timestamps.

Sender and receiver work in batches (`sendmmsg`, a packet ring), so a packet costs a few microseconds of real time and
none of emulated time. The moment at which a packet meets the sending host's link is exact (`emulator.workloads.pacer`).
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
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
from emulator.model.fabric import ETHERNET_HEADER_BYTES
from emulator.model.theory import IPV4_HEADER_BYTES
from emulator.workloads.pacer import paced
from emulator.workloads.programs import run_program

UDP_HEADER_BYTES = 8
FRAME_HEADERS_BYTES = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + UDP_HEADER_BYTES

_PORT = 9
"""The discard service (RFC 863): nobody answers."""
_SOURCE_PORT = 40_009
_BUFFER_BYTES = 1 << 30
_BATCH = 4096
_LEAD_NS = 2_000_000
"""How long before its departure a batch is handed to the kernel."""
START_LEAD_NS = 2 * _LEAD_NS
"""How long before the first departure its time must be known."""

_PROBES = 16
_PROBE_GAP_NS = 2_000_000
_FIRST_WAIT_NS = 500_000_000
_QUIET_NS = 100_000_000
_QUIET_LOOKS = 50


@dataclass(frozen=True)
class Arrivals:
    """What came in.

    Attributes:
        numbers: Number of each packet that arrived, in order of arrival; the first of `TimedFlow.send` is 0.
        transit_ns: From its departure time to its arrival.
        times_ns: When it arrived, CLOCK_MONOTONIC.
        lost: Packets that did not arrive.
    """

    numbers: npt.NDArray[np.int64]
    transit_ns: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64]
    lost: int


def route_interface(host: HostHandle, address: str, what: str) -> str:
    """The interface through which a host reaches an address.

    Raises:
        WorkloadError: It has no route there.
    """
    text = run_program(host, ["ip", "-json", "route", "get", address], what)
    try:
        return str(json.loads(text)[0]["dev"])
    except (ValueError, LookupError, TypeError):
        raise WorkloadError(f"workload {what}: {host.name} has no route to {address}") from None


def has_choice(host: HostHandle) -> bool:
    """Whether a host has several ports to send and receive by."""
    return len(host.interfaces) > 1


def arriving(target: HostHandle, port: int) -> tuple[str, list[packet_filter.Instruction]]:
    """The interface at which UDP packets to a port of a host arrive, empty for any, and the filter that keeps them.

    Where there are several, they may come by any, and what the host passes on to others is left out.
    """
    address = target.ip if has_choice(target) else ""
    keep = packet_filter.keep_udp_port(port, FRAME_HEADERS_BYTES + SEQUENCE_BYTES, address)
    return ("" if has_choice(target) else target.interfaces[0]), keep


class _Receiver:
    """Collects arrivals in a thread of its own."""

    def __init__(self, ring: PacketRing, numbered: bool) -> None:
        self._ring, self._numbered = ring, numbered
        self._times: list[npt.NDArray[np.int64]] = []
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._collect, name="arrivals")
        self.count = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _collect(self) -> None:
        try:
            while not self._stop.is_set():
                self._ring.wait(20)
                for batch in self._ring.ready():
                    self._times.append(batch.times_ns)
                    if self._numbered:
                        raw = batch.field(FRAME_HEADERS_BYTES, SEQUENCE_BYTES)
                        self._numbers.append(raw.view(">u8")[:, 0].astype(np.int64))
                    self.count += len(batch)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for the result
            self._error = error

    def finish(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """End and return times (CLOCK_REALTIME) and numbers."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        empty = np.empty(0, dtype=np.int64)
        times = np.concatenate(self._times) if self._times else empty
        numbers = np.concatenate(self._numbers) if self._numbers else np.arange(len(times), dtype=np.int64)
        return times, numbers


class TimedFlow:
    """A flow that is set up; see `timed_flow`."""

    def __init__(self, sender: TimedSender, ring: PacketRing, numbered: bool, label: str) -> None:
        self._sender, self._ring, self._numbered, self._label = sender, ring, numbered, label
        self._sent = 0

    def _exchange(self, departures_ns: npt.NDArray[np.int64]) -> Arrivals:
        """Send packets at the given times (CLOCK_MONOTONIC), wait until nothing more comes, return what came."""
        receiver = _Receiver(self._ring, self._numbered)
        receiver.start()
        first = self._sent
        try:
            with Timer() as timer:
                for start in range(0, len(departures_ns), _BATCH):
                    batch = departures_ns[start : start + _BATCH]
                    timer.wait_until(int(batch[0]) - _LEAD_NS)
                    self._sender.send(batch)
                    self._sent += len(batch)
                timer.wait_until(int(departures_ns[-1]) + _QUIET_NS // 2)
                seen = -1
                for _ in range(_QUIET_LOOKS):
                    if receiver.count in (seen, len(departures_ns)):
                        break
                    seen = receiver.count
                    timer.wait(_QUIET_NS)
        finally:
            times, numbers = receiver.finish()
        if missed := self._ring.dropped():
            raise WorkloadError(f"{self._label}: the receiver's ring was full and missed {missed} packets")
        times -= realtime_offset_ns()
        if self._numbered:
            numbers -= first
            # What arrives from an earlier exchange is not of this one.
            current = numbers >= 0
            times, numbers = times[current], numbers[current]
            transit = times - departures_ns[numbers]
        else:
            transit = np.empty(0, dtype=np.int64)
        return Arrivals(numbers, transit, times, len(departures_ns) - len(times))

    def lone_transit_ns(self) -> int:
        """Transit of a packet that meets no other: the median of a few, after one that resolves addresses and flows.

        Raises:
            WorkloadError: They do not arrive.
        """
        opening = self._exchange(np.array([time.monotonic_ns() + _LEAD_NS], dtype=np.int64))
        if not len(opening.times_ns):
            # A controller may have had to learn of the flow first; the second try finds it installed.
            opening = self._exchange(np.array([time.monotonic_ns() + _LEAD_NS], dtype=np.int64))
        start = time.monotonic_ns() + _LEAD_NS
        probes = self._exchange(start + _PROBE_GAP_NS * np.arange(_PROBES, dtype=np.int64))
        if not len(probes.times_ns):
            raise WorkloadError(f"{self._label}: no packet arrived")
        return int(np.median(probes.transit_ns)) if self._numbered else 0

    def send(self, offsets_ns: npt.NDArray[np.int64], start_ns: int) -> Arrivals:
        """Send one packet at each offset from a moment.

        Args:
            offsets_ns: When each leaves, counted from the start.
            start_ns: The start, CLOCK_MONOTONIC; at least `START_LEAD_NS` from now.

        Raises:
            WorkloadError: The receiver could not keep up.
        """
        return self._exchange(start_ns + offsets_ns)


@contextmanager
def timed_flow(source: HostHandle, target: HostHandle, payload_bytes: int, what: str) -> Iterator[TimedFlow]:
    """Set up a flow between two hosts; everything is removed on the way out.

    Args:
        source: Sender.
        target: Receiver.
        payload_bytes: UDP payload of each packet; below `SEQUENCE_BYTES` packets carry no number and no transit
            times are known.
        what: Workload on whose behalf, for messages.

    Raises:
        WorkloadError: The kernel lacks a part, or there is no route.
    """
    label = f"workload {what}: from {source.name} to {target.name}"
    out = route_interface(source, target.ip, what)
    into, keep = arriving(target, _PORT)
    reset_timer_slack()
    numbered = payload_bytes >= SEQUENCE_BYTES
    with ExitStack() as undo:
        undo.enter_context(paced(source, out, _PORT, what))
        try:
            with target.namespace():
                # Something has to own the port, or the target would answer each packet with an ICMP error.
                sink = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                packet_filter.attach(sink, packet_filter.keep_all(0))
                sink.bind((target.ip, _PORT))
                ring = undo.enter_context(PacketRing(into, keep))
            with source.namespace():
                sender = TimedSender((target.ip, _PORT), payload_bytes, _BUFFER_BYTES, _SOURCE_PORT)
                undo.callback(sender.close)
            yield TimedFlow(sender, ring, numbered, label)
        except OSError as error:
            raise WorkloadError(f"{label}: {error.strerror or error}") from error
