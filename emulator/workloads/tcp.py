"""Bulk TCP by iperf3: steady goodput of each flow, their sum, fairness and utilization.

iperf3 makes the traffic; its own intervals are at least 0.1 s, longer than most runs here, so what each flow has
delivered is read from the receiving kernel (`TCP_INFO`) many times while it runs. Only the time in which all flows
send counts, after the warm-up.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import psutil

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.foreign_socket import set_receive_low_water
from emulator.linux.tcp_info import Connection, TcpReader
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model import theory
from emulator.model.workload import TcpBulk
from emulator.results.records import Record
from emulator.units import NS_PER_S
from emulator.workloads.context import Context, Findings
from emulator.workloads.programs import Program
from emulator.workloads.tcp_samples import CONTROL_BYTES, FlowSamples, goodputs_bps, window_ns
from emulator.workloads.tcp_settings import applied, in_flight_bytes, settings

_SERVER_PORT = 5201
_SAMPLES = 200
_LEAST_SAMPLE_NS = 20_000
_MOST_SAMPLE_NS = 5_000_000
_LISTEN_NS = 10 * NS_PER_S
_LOOK_NS = 1_000_000
_START_NS = 30 * NS_PER_S
_ENDLESS_BYTES = 1 << 60
_BLOCK_BYTES = 1 << 18
"""What iperf3 writes and reads at a time."""
_END_S = 60.0

_SOURCE = "iperf3, TCP_INFO of the receiving kernel"


@dataclass
class _Flow:
    """One flow while it runs."""

    index: int
    source: HostHandle
    target: HostHandle
    server: Program
    client_port: int
    client: Program | None = None
    retransmits: int = 0
    samples: FlowSamples = field(default_factory=FlowSamples)
    reads_blocks: bool = False

    @property
    def server_port(self) -> int:
        return _SERVER_PORT + self.index


def iperf_error(text: str) -> str | None:
    """The error in iperf3's JSON output, if there is one."""
    try:
        error = json.loads(text).get("error")
    except (ValueError, AttributeError):
        return None
    return None if error is None else str(error)


def _client_argv(workload: TcpBulk, flow: _Flow) -> list[str]:
    # Whole blocks, since the server reads nothing less (see `_read_in_blocks`).
    blocks = -(-(workload.size_bytes or _ENDLESS_BYTES) // _BLOCK_BYTES)
    return [
        "iperf3", "--client", flow.target.ip, "--port", str(flow.server_port), "--cport", str(flow.client_port),
        "--bytes", str(blocks * _BLOCK_BYTES), "--length", str(_BLOCK_BYTES), "--congestion", workload.congestion,
        "--interval", "0", "--json",
    ]  # fmt: skip


class _Readers:
    """One reader of TCP connections for each host."""

    def __init__(self, undo: ExitStack) -> None:
        self._undo = undo
        self._readers: dict[str, TcpReader] = {}

    def of(self, host: HostHandle) -> TcpReader:
        if host.name not in self._readers:
            with host.namespace():
                reader = TcpReader()
            self._undo.callback(reader.close)
            self._readers[host.name] = reader
        return self._readers[host.name]


def _sample(flows: Sequence[_Flow], readers: _Readers) -> None:
    """Read every flow once."""
    by_host: dict[str, list[_Flow]] = {}
    for flow in flows:
        by_host.setdefault(flow.target.name, []).append(flow)
    for sharing in by_host.values():
        connections = readers.of(sharing[0].target).connections()
        now_ns = time.monotonic_ns()
        for flow in sharing:
            one = _data_connection(flow, connections)
            if one is not None:
                flow.samples.add(now_ns, one.bytes_received)
                if not flow.reads_blocks and _carries_data(flow, one):
                    flow.reads_blocks = True
                    _read_in_blocks(flow, one.inode)


def _carries_data(flow: _Flow, one: Connection) -> bool:
    return one.remote_port == flow.client_port or one.bytes_received > CONTROL_BYTES


def _data_connection(flow: _Flow, connections: Sequence[Connection]) -> Connection | None:
    """The flow's data connection at the server: by its own client port, or the busier one behind a proxy."""
    at_server = [one for one in connections if one.local_port == flow.server_port]
    data = [one for one in at_server if _carries_data(flow, one)]
    return max(data, key=lambda one: one.bytes_received, default=None)


def _read_in_blocks(flow: _Flow, inode: int) -> None:
    """Wake the server once a block instead of once a packet: a wake-up costs more real time than all else."""
    try:
        process = psutil.Process(flow.server.process.pid)
        for one in (process, *process.children(recursive=True)):
            if set_receive_low_water(one.pid, inode, _BLOCK_BYTES):
                return
    except psutil.Error:
        # Only a saving: the server has just ended, or may not be looked at.
        return


def _note_retransmits(flows: Sequence[_Flow], readers: _Readers) -> None:
    """Keep the senders' count of segments sent again; it is gone when the connection is."""
    by_host: dict[str, list[_Flow]] = {}
    for flow in flows:
        by_host.setdefault(flow.source.name, []).append(flow)
    for sharing in by_host.values():
        counts = {
            (one.local_port, one.remote_port): one.retransmits for one in readers.of(sharing[0].source).connections()
        }
        for flow in sharing:
            flow.retransmits = counts.get((flow.client_port, flow.server_port), flow.retransmits)


def _wait_listening(flows: Sequence[_Flow], readers: _Readers, timer: Timer) -> None:
    for flow in flows:
        for _ in range(_LISTEN_NS // _LOOK_NS):
            if flow.server_port in readers.of(flow.target).listening_ports():
                break
            if not flow.server.running:
                raise flow.server.failure()
            timer.wait(_LOOK_NS)
        else:
            raise flow.server.failure(f"does not listen on port {flow.server_port}")


def _check_clients(flows: Sequence[_Flow]) -> bool:
    """Whether some client still runs.

    Raises:
        WorkloadError: One failed.
    """
    running = False
    for flow in flows:
        if flow.client is None or flow.client.running:
            running = True
        elif (error := iperf_error(flow.client.output())) is not None or flow.client.process.returncode:
            # With JSON output iperf3 ends with status 0 whatever happens.
            raise flow.client.failure(error)
    return running


def _drive(workload: TcpBulk, flows: Sequence[_Flow], readers: _Readers, sample_ns: int, undo: ExitStack) -> None:
    """Start the clients, sample until they are done or their time is over."""
    with Timer() as timer:
        _wait_listening(flows, readers, timer)
        start_ns = time.monotonic_ns()
        tick = 0
        sending_since_ns: int | None = None
        while True:
            now_ns = time.monotonic_ns()
            for flow in flows:
                if flow.client is None and now_ns >= start_ns + flow.index * workload.stagger_ns:
                    flow.client = undo.enter_context(Program(flow.source, _client_argv(workload, flow), workload.name))
            _sample(flows, readers)
            if sending_since_ns is None and all(flow.samples.times_ns for flow in flows):
                sending_since_ns = time.monotonic_ns()
            if tick % 16 == 0:
                _note_retransmits(flows, readers)
            if not _check_clients(flows):
                break
            if sending_since_ns is None:
                if now_ns > start_ns + _START_NS + len(flows) * workload.stagger_ns:
                    raise WorkloadError(f"workload {workload.name}: not all of {len(flows)} flows could start")
            elif workload.duration_ns and now_ns >= sending_since_ns + workload.duration_ns:
                break
            tick += 1
            timer.wait_until(start_ns + tick * sample_ns)
    _note_retransmits(flows, readers)


def _finish(workload: TcpBulk, flows: Sequence[_Flow]) -> None:
    """See every client to its end; those that send for a time are interrupted."""
    for flow in flows:
        if flow.client is None:
            continue
        if workload.duration_ns:
            flow.client.end(signal.SIGKILL)
        else:
            flow.client.wait(_END_S)


def _setup(workload: TcpBulk, context: Context, undo: ExitStack) -> list[_Flow]:
    flows = []
    configured: set[str] = set()
    for index in range(workload.flows):
        source = context.host(workload.sources[index % len(workload.sources)], workload.name)
        target = context.host(workload.targets[index % len(workload.targets)], workload.name)
        for host, other in ((source, target), (target, source)):
            if host.name not in configured:
                configured.add(host.name)
                wanted = settings(context.path(host.name, other.name), ecn=workload.ecn)
                undo.enter_context(applied(host, wanted, workload.name))
        argv = ["iperf3", "--server", "--one-off", "--port", str(_SERVER_PORT + index), "--interval", "0"]
        server = undo.enter_context(Program(target, argv, workload.name))
        flows.append(_Flow(index, source, target, server, context.fresh_port()))
    return flows


def run(workload: TcpBulk, context: Context) -> list[Record]:
    """Run the flows.

    Raises:
        WorkloadError: iperf3 is missing or failed, or the flows never sent at the same time.
    """
    if workload.flows < 1 or not workload.sources or not workload.targets:
        raise WorkloadError(f"workload {workload.name}: at least one flow, one source and one target are needed")
    if bool(workload.size_bytes) == bool(workload.duration_ns):
        raise WorkloadError(f"workload {workload.name}: either a size or a duration is needed")
    path = context.path(workload.sources[0], workload.targets[0])
    slowest = min(path, key=lambda spec: spec.rate_bps)
    context.progress(f"{workload.name}: {workload.flows} TCP flows, {workload.congestion}", 0, 1)
    reset_timer_slack()
    whole_ns = workload.duration_ns or workload.size_bytes * workload.flows * 8 * NS_PER_S // slowest.rate_bps
    sample_ns = min(_MOST_SAMPLE_NS, max(_LEAST_SAMPLE_NS, whole_ns // _SAMPLES))
    with ExitStack() as undo:
        flows = _setup(workload, context, undo)
        _drive(workload, flows, _Readers(undo), sample_ns, undo)
        _finish(workload, flows)
    try:
        window = window_ns([flow.samples for flow in flows], workload.warm_up_ns)
    except WorkloadError as error:
        raise WorkloadError(f"workload {workload.name}: {error}") from None
    goodputs = goodputs_bps([flow.samples for flow in flows], window)
    findings = Findings(context, workload)
    capacity_bps = theory.tcp_goodput_bps(slowest)
    findings.measured("goodput", sum(goodputs), "bit/s", _SOURCE)
    if len(flows) > 1:
        for flow, goodput_bps in zip(flows, goodputs, strict=True):
            findings.measured(f"goodput_flow{flow.index}", goodput_bps, "bit/s", _SOURCE)
        findings.measured("jain_index", theory.jain_index(goodputs), "1", f"{_SOURCE}; Jain's index of the goodputs")
    findings.measured(
        "utilization", sum(goodputs) / capacity_bps, "1", f"{_SOURCE}; of what headers leave of the slowest link's rate"
    )
    retransmits = sum(flow.retransmits for flow in flows)
    findings.measured("retransmits", retransmits, "1", "iperf3, TCP_INFO of the sending kernels, segments")
    findings.measured("window", window[1] - window[0], "ns", f"{_SOURCE}; time that counts")
    findings.modelled("in_flight_limit", in_flight_bytes(path), "B", "unloaded round trip plus full queue; windows fit")
    if not context.stations(workload.sources[0], workload.targets[0]):
        findings.theory("goodput", capacity_bps, "bit/s", "slowest link's rate less headers and line overhead")
    findings.save()
    return findings.records
