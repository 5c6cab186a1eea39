"""Round-trip times of ICMP echoes: by an agent with nanosecond clocks, cross-checked by the system's ``ping``.

``ping`` prints at most three decimals of a millisecond (and fewer above 1 ms), so its figures end at 1 us. The agent
sends the same echo requests to the target's kernel and takes the arrival time from the sending host's kernel
(`SO_TIMESTAMPNS`).
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model import theory
from emulator.model.distribution import Distribution
from emulator.model.workload import Ping
from emulator.results.records import Record
from emulator.units import NS_PER_S
from emulator.workloads.context import Context, Findings
from emulator.workloads.programs import run_program

_SO_TIMESTAMPNS = 35
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_LAST_WAIT_NS = NS_PER_S
_OPENINGS = 5
_LAST_IDENTIFIER = 0xFFFF
_CROSS_CHECK_ECHOES = 5
_PING_INTERVAL_NS = 10_000_000
"""Below this interval `ping` waits in a loop that reads the clock, which moves it in virtual time."""
_LEAST_TIMED_PAYLOAD = 16
"""`ping` keeps its send time in the payload and times nothing below this size."""

AGENT = "ICMP echo agent, kernel receive timestamps in ns"


def checksum(data: bytes) -> int:
    """Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo_request(identifier: int, number: int, payload_bytes: int) -> bytes:
    """An ICMP echo request."""
    body = struct.pack("!HH", identifier, number) + bytes(payload_bytes)
    return struct.pack("!BBH", _ECHO_REQUEST, 0, checksum(struct.pack("!BBH", _ECHO_REQUEST, 0, 0) + body)) + body


def _arrival_ns(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("@ll", data[:16])
            return int(seconds * NS_PER_S + nanoseconds)
    return None


class EchoAgent:
    """Sends echo requests at fixed times from one host and notes when each reply arrives.

    Args:
        host: Where it runs.
        target: Address.
        payload_bytes: ICMP payload.
    """

    def __init__(self, host: HostHandle, target: str, payload_bytes: int) -> None:
        self._target, self._payload_bytes = target, payload_bytes
        self._identifier = int.from_bytes(socket.inet_aton(target)[2:], "big") | 1
        with host.namespace():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._sent_ns: dict[int, int] = {}
        self._rtt_ns: dict[int, int] = {}

    def run(self, count: int, interval_ns: int) -> dict[int, int]:
        """Send *count* requests and return the round-trip time in ns of each that was answered, by its number.

        Before them goes one that resolves addresses and flows on the way, again each second until it is answered.
        """
        reset_timer_slack()
        for _ in range(_OPENINGS):
            answered = bool(self._series(1, interval_ns))
            # A late answer must not be taken for one of the next series.
            self._identifier = self._identifier % _LAST_IDENTIFIER + 1
            if answered:
                break
        return self._series(count, interval_ns)

    def _series(self, count: int, interval_ns: int) -> dict[int, int]:
        self._sent_ns.clear()
        self._rtt_ns.clear()
        poll = select.poll()
        with Timer() as timer:
            poll.register(self._socket, select.POLLIN)
            poll.register(timer, select.POLLIN)
            start = time.monotonic_ns()
            for number in range(count):
                self._send(number)
                last = number == count - 1
                timer.arm(start + number * interval_ns + (max(interval_ns, _LAST_WAIT_NS) if last else interval_ns))
                while not (last and len(self._rtt_ns) == count):
                    ready = {descriptor for descriptor, _event in poll.poll()}
                    if self._socket.fileno() in ready:
                        self._receive()
                    if timer.fileno() in ready:
                        timer.acknowledge()
                        break
        return self._rtt_ns

    def _send(self, number: int) -> None:
        request = echo_request(self._identifier, number, self._payload_bytes)
        self._sent_ns[number] = time.time_ns()
        self._socket.sendto(request, (self._target, 0))

    def _receive(self) -> None:
        data, ancillary, _flags, _address = self._socket.recvmsg(65_535, 256)
        now_ns = _arrival_ns(ancillary)
        icmp = data[(data[0] & 15) * 4 :]
        if len(icmp) < 8 or icmp[0] != _ECHO_REPLY or now_ns is None:
            return
        identifier, number = struct.unpack_from("!HH", icmp, 4)
        if identifier == self._identifier and number in self._sent_ns:
            # A duplicate does not replace the first answer.
            self._rtt_ns.setdefault(number, now_ns - self._sent_ns[number])

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def parse_ping(text: str) -> dict[int, int]:
    """Round-trip times in ns by sequence number, from what ``ping`` printed."""
    found = {}
    for match in re.finditer(r"icmp_seq=(\d+) ttl=\d+ time=(\d+)(?:\.(\d{1,3}))? ms", text):
        number, whole, decimals = match.groups()
        found[int(number)] = int(whole) * 1_000_000 + int((decimals or "").ljust(3, "0")) * 1_000
    return found


def run(workload: Ping, context: Context) -> list[Record]:
    """Run the echoes.

    Raises:
        WorkloadError: No echo came back, or ``ping`` failed.
    """
    source = context.host(workload.source, workload.name)
    target = context.host(workload.target, workload.name)
    context.progress(f"{workload.name}: ping {source.name} to {target.name}", 0, workload.count)
    try:
        agent = EchoAgent(source, target.ip, workload.payload_bytes)
        try:
            context.await_start(workload.name)
            rtts_ns = agent.run(workload.count, workload.interval_ns)
        finally:
            agent.close()
    except OSError as error:
        raise WorkloadError(
            f"workload {workload.name}: cannot send echoes from {source.name} to {target.ip}: {error.strerror}"
        ) from error
    counted = list(rtts_ns.values())
    if not counted:
        raise WorkloadError(
            f"workload {workload.name}: none of {workload.count} echoes from {source.name} to {target.name} "
            f"({target.ip}) came back"
        )
    findings = Findings(context, workload)
    sample = Distribution.of(counted)
    findings.measured("rtt_min", sample.minimum, "ns", AGENT)
    findings.measured("rtt_mean", sample.mean, "ns", AGENT)
    findings.measured("rtt_p50", sample.percentile(50), "ns", AGENT)
    findings.measured("rtt_p99", sample.percentile(99), "ns", AGENT)
    findings.measured("rtt_max", sample.maximum, "ns", AGENT)
    findings.measured("loss", 1 - len(counted) / workload.count, "1", AGENT)
    findings.distribution("rtt", "ns", sample)
    _predict(workload, context, findings, sample)
    if workload.payload_bytes >= _LEAST_TIMED_PAYLOAD:
        _cross_check(workload, source, target, findings)
    findings.save()
    return findings.records


def _predict(workload: Ping, context: Context, findings: Findings, sample: Distribution) -> None:
    path = context.path(workload.source, workload.target)
    packet_bytes = theory.IPV4_HEADER_BYTES + theory.ICMP_HEADER_BYTES + workload.payload_bytes
    if packet_bytes > min(spec.mtu_bytes for spec in path):
        return  # fragments overtake the sum over whole frames: there is no closed form here for them
    predicted_ns = theory.ping_rtt_ns(path, workload.payload_bytes)
    stations = [
        *context.stations(workload.source, workload.target),
        *context.stations(workload.target, workload.source),
    ]
    predicted_ns += sum(station.latency_ns for station in stations)
    formula = "sum over links, both ways, of delay + serialization"
    if stations:
        formula += f", plus the latency of {len(stations)} station crossings"
    findings.theory("rtt_mean", predicted_ns, "ns", formula)
    findings.measured("rtt_error", sample.mean - predicted_ns, "ns", f"{AGENT}, less theory")


def _cross_check(workload: Ping, source: HostHandle, target: HostHandle, findings: Findings) -> None:
    count = min(workload.count, _CROSS_CHECK_ECHOES) + 1
    interval = f"{max(workload.interval_ns, _PING_INTERVAL_NS) / NS_PER_S:.6f}"
    argv = ["ping", "-n", "-c", str(count), "-i", interval, "-s", str(workload.payload_bytes), target.ip]
    printed = parse_ping(run_program(source, argv, workload.name))
    times = [rtt_ns for number, rtt_ns in sorted(printed.items()) if number > 1]
    if not times:
        raise WorkloadError(f"workload {workload.name}: ping on {source.name} printed no round-trip time")
    findings.measured(
        "ping_rtt_mean",
        sum(times) / len(times),
        "ns",
        "ping (iputils), as printed: to 1 us below 1 ms, else to four digits",
    )
