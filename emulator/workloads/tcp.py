"""Bulk TCP by iperf3: steady goodput of each flow, their sum, fairness and utilization.

iperf3 makes the traffic; its own intervals are at least 0.1 s, longer than most runs here, so what each flow has
delivered is read from the receiving kernel (`TCP_INFO`) many times while it runs. Only the time in which all flows
send counts, after the warm-up.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack

from emulator.errors import WorkloadError
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model import theory
from emulator.model.workload import TcpBulk
from emulator.results.records import Record
from emulator.units import NS_PER_S
from emulator.workloads.context import Context, Findings
from emulator.workloads.programs import Program
from emulator.workloads.tcp_flow import BLOCK_BYTES, Flow, Observer
from emulator.workloads.tcp_samples import goodputs_bps, window_ns
from emulator.workloads.tcp_settings import applied, in_flight_bytes, settings

_FIRST_SERVER_PORT = 5201
_SAMPLES = 200
_LEAST_SAMPLE_NS = 20_000
_MOST_SAMPLE_NS = 5_000_000
_ENDLESS_BYTES = 1 << 60
_END_S = 60.0

_SOURCE = "iperf3, TCP_INFO of the receiving kernel"


def _client_argv(workload: TcpBulk, flow: Flow) -> list[str]:
    # Whole blocks, since the server reads nothing less.
    blocks = -(-(workload.size_bytes or _ENDLESS_BYTES) // BLOCK_BYTES)
    return [
        "iperf3", "--client", flow.target.ip, "--port", str(flow.server_port), "--cport", str(flow.client_port),
        "--bytes", str(blocks * BLOCK_BYTES), "--length", str(BLOCK_BYTES), "--congestion", workload.congestion,
        "--interval", "0", "--json",
    ]  # fmt: skip


def _set_up(workload: TcpBulk, context: Context, undo: ExitStack) -> list[Flow]:
    """Set the hosts' buffers and start the servers."""
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
        port = _FIRST_SERVER_PORT + index
        argv = ["iperf3", "--server", "--one-off", "--port", str(port), "--interval", "0"]
        server = undo.enter_context(Program(target, argv, workload.name))
        flows.append(Flow(index, source, target, port, context.fresh_port(), server))
    return flows


def _send(
    workload: TcpBulk, flows: Sequence[Flow], observer: Observer, start_ns: int, sample_ns: int, timer: Timer
) -> None:
    """Release the clients one after the other and sample until they are done or their time is over."""
    all_started_ns = start_ns + (len(flows) - 1) * workload.stagger_ns
    waiting = list(flows)
    tick = 0
    while True:
        now_ns = time.monotonic_ns()
        while waiting and now_ns >= start_ns + waiting[0].index * workload.stagger_ns:
            waiting.pop(0).release()
        observer.sample()
        if tick % 16 == 0:
            observer.note_retransmits()
        running = [flow.still_runs() for flow in flows]
        if not any(running):
            break
        if workload.duration_ns and now_ns >= all_started_ns + workload.duration_ns:
            break
        tick += 1
        timer.wait_until(start_ns + tick * sample_ns)
    observer.note_retransmits()


def _finish(workload: TcpBulk, flows: Sequence[Flow]) -> None:
    """See every client to its end; those that send for a time are ended."""
    for flow in flows:
        if flow.client is not None and workload.duration_ns:
            flow.client.end(signal.SIGKILL)
        elif flow.client is not None:
            flow.client.wait(_END_S)


def _drive(workload: TcpBulk, context: Context, sample_ns: int) -> list[Flow]:
    with ExitStack() as undo:
        flows = _set_up(workload, context, undo)
        observer = Observer(flows, undo)
        timer = undo.enter_context(Timer())
        observer.wait_listening(timer)
        for flow in flows:
            flow.client = undo.enter_context(Program(flow.source, _client_argv(workload, flow), workload.name))
        observer.hold_when_connected(timer)
        _send(workload, flows, observer, context.await_start(workload.name), sample_ns, timer)
        _finish(workload, flows)
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
    flows = _drive(workload, context, sample_ns)
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
    # What random losses cost depends on the congestion control: no closed form is held against them.
    if not context.stations(workload.sources[0], workload.targets[0]) and not any(spec.loss_ppm for spec in path):
        findings.theory("goodput", capacity_bps, "bit/s", "slowest link's rate less headers and line overhead")
    findings.save()
    return findings.records
