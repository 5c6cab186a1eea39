"""Probes: numbered packets at a constant rate between pairs of hosts, for what is lost and how long by which fault.

One-way metrics of IPPM: delay (RFC 7679), loss (RFC 7680), reordering (RFC 4737), duplication (RFC 5560). A packet is
lost if nothing of it has come when nothing more comes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import numpy as np

from emulator.errors import WorkloadError
from emulator.linux.batch_send import SEQUENCE_BYTES
from emulator.model.distribution import Distribution
from emulator.model.fabric import ETHERNET_HEADER_BYTES
from emulator.model.fault import Happened
from emulator.model.workload import Probe
from emulator.results.events import ProbeSeries, probe_series_file
from emulator.results.records import Record
from emulator.units import NS_PER_S, format_time
from emulator.workloads.context import Context, Findings
from emulator.workloads.outages import FlowLog, Toll, outages, tolls
from emulator.workloads.probe_flows import START_LEAD_NS, Arrived, ProbeFlows, Times, probe_flows
from emulator.workloads.timed_flow import FRAME_HEADERS_BYTES

_SOURCE = "numbered UDP packets, time stamps of the receiving interface"
_FIRST_PACKETS = 3
_FIRST_GAP_NS = 2_000_000
_FIRST_TRIES = 2
_MOST_BINS = 500


def run(workload: Probe, context: Context) -> list[Record]:
    """Send the packets and say what became of them.

    Raises:
        WorkloadError: A packet does not fit, or two hosts do not reach each other before the start.
    """
    if not workload.pairs:
        raise WorkloadError(f"workload {workload.name}: there are no pairs of hosts")
    pairs = [
        (context.host(source, workload.name), context.host(target, workload.name)) for source, target in workload.pairs
    ]
    paths = [context.path(source, target) for source, target in workload.pairs]
    largest = min(spec.mtu_bytes for path in paths for spec in path) + ETHERNET_HEADER_BYTES - FRAME_HEADERS_BYTES
    if not SEQUENCE_BYTES <= workload.payload_bytes <= largest:
        raise WorkloadError(
            f"workload {workload.name}: a payload of {workload.payload_bytes} bytes is impossible here: "
            f"{SEQUENCE_BYTES} to {largest}"
        )
    context.progress(f"{workload.name}: probes of {len(pairs)} pairs", 0, 1)
    with probe_flows(pairs, workload.payload_bytes, workload.name) as flows:
        transits_ns = _first_transits_ns(workload, flows)
        start_ns = context.start(workload.name, START_LEAD_NS)
        departures_ns = [start_ns + offsets for offsets in offsets_ns(workload)]
        arrived = flows.exchange(departures_ns)
    logs = [_log(*parts) for parts in zip(departures_ns, arrived, transits_ns, strict=True)]
    end_ns = start_ns + workload.duration_ns
    happened = [one for one in context.occasion.happened() if one.at_ns < end_ns]
    findings = Findings(context, workload)
    _report_packets(findings, logs)
    _report_faults(findings, logs, happened, start_ns)
    _predict(workload, context, findings)
    findings.save()
    _save_series(workload, context, logs, start_ns)
    return findings.records


def offsets_ns(workload: Probe) -> list[Times]:
    """When each flow's packets leave, counted from the start: evenly apart, and flows evenly spread over a gap."""
    count = len(workload.pairs)
    return [
        np.arange(flow * workload.interval_ns // count, workload.duration_ns, workload.interval_ns, dtype=np.int64)
        for flow in range(count)
    ]


def _log(departures_ns: Times, arrived: Arrived, transit_ns: int) -> FlowLog:
    return FlowLog(departures_ns, arrived.numbers, arrived.times_ns, transit_ns)


def _first_transits_ns(workload: Probe, flows: ProbeFlows) -> list[int]:
    """Least one-way delay of each flow, from a few packets that also let switches and caches learn.

    Raises:
        WorkloadError: Between two hosts nothing arrives.
    """
    count = len(workload.pairs)
    found: list[int | None] = [None] * count
    for _ in range(_FIRST_TRIES):
        start_ns = time.monotonic_ns() + START_LEAD_NS
        own = _FIRST_GAP_NS * np.arange(_FIRST_PACKETS, dtype=np.int64)
        departures_ns = [start_ns + flow * _FIRST_GAP_NS // count + own for flow in range(count)]
        for flow, arrived in enumerate(flows.exchange(departures_ns)):
            if len(arrived.numbers):
                found[flow] = int((arrived.times_ns - departures_ns[flow][arrived.numbers]).min())
        if None not in found:
            break
    silent = [pair for pair, transit_ns in zip(workload.pairs, found, strict=True) if transit_ns is None]
    if silent:
        more = f" (and {len(silent) - 1} more pairs)" if len(silent) > 1 else ""
        raise WorkloadError(
            f"workload {workload.name}: nothing from {silent[0][0]} arrives at {silent[0][1]}{more} before it starts"
        )
    return [transit_ns for transit_ns in found if transit_ns is not None]


def _report_packets(findings: Findings, logs: Sequence[FlowLog]) -> None:
    sent = sum(len(log.departures_ns) for log in logs)
    lost = sum(int(log.lost.sum()) for log in logs)
    findings.measured("sent", sent, "1", _SOURCE)
    findings.measured("lost", lost, "1", _SOURCE)
    findings.measured("loss", lost / sent, "1", f"{_SOURCE}; share of packets")
    findings.measured("duplicated", sum(log.duplicated for log in logs), "1", f"{_SOURCE}; further copies")
    findings.measured("reordered", sum(log.reordered for log in logs), "1", f"{_SOURCE}; RFC 4737")
    longest_ns = max(log.longest_gap_ns for log in logs)
    findings.measured("longest_gap", longest_ns, "ns", f"{_SOURCE}; without an arrival, of any pair")
    delays_ns = np.concatenate([log.delays_ns for log in logs])
    if len(delays_ns):
        sample = Distribution.of(delays_ns.tolist())
        findings.measured("delay_min", sample.minimum, "ns", f"{_SOURCE}; one way")
        findings.measured("delay_p50", sample.percentile(50), "ns", f"{_SOURCE}; one way")
        findings.measured("delay_p99", sample.percentile(99), "ns", f"{_SOURCE}; one way")
        findings.measured("delay_max", sample.maximum, "ns", f"{_SOURCE}; one way")
        findings.distribution("delay", "ns", sample)


def _report_faults(findings: Findings, logs: Sequence[FlowLog], happened: Sequence[Happened], start_ns: int) -> None:
    found = [outage for flow, log in enumerate(logs) for outage in outages(flow, log)]
    costs, without = tolls(found, [one.at_ns for one in happened])
    findings.measured("lost_without_fault", without, "1", f"{_SOURCE}; before any fault could have mattered")
    if not happened:
        return
    everything = Toll(
        sum(toll.lost for toll in costs),
        tuple(sorted(time_ns for toll in costs for time_ns in toll.recoveries_ns)),
        sum(toll.unrecovered for toll in costs),
    )
    _report_toll(findings, "", everything, "all faults")
    for number, (one, toll) in enumerate(zip(happened, costs, strict=True)):
        _report_toll(findings, f"_fault{number}", toll, f"{one.fault.title} at {format_time(one.at_ns - start_ns)}")


def _report_toll(findings: Findings, suffix: str, toll: Toll, what: str) -> None:
    by = suffix or "_by_faults"
    findings.measured(f"lost{by}", toll.lost, "1", f"{_SOURCE}; {what}: packets lost")
    findings.measured(f"pairs_hit{by}", toll.flows, "1", f"{_SOURCE}; {what}: pairs that lost packets")
    findings.measured(f"unrecovered{by}", toll.unrecovered, "1", f"{_SOURCE}; {what}: pairs that stayed apart")
    if not toll.recoveries_ns:
        return
    sample = Distribution.of(toll.recoveries_ns)
    words = f"{_SOURCE}; {what}: until the first packet of a pair arrives again"
    findings.measured(f"recovery_p50{suffix}", sample.percentile(50), "ns", words)
    findings.measured(f"recovery_max{suffix}", sample.maximum, "ns", words)
    findings.distribution(f"recovery{suffix}", "ns", sample)


def _predict(workload: Probe, context: Context, findings: Findings) -> None:
    """Closed forms for probes that have the fabric for themselves and meet no other packet."""
    if len(context.occasion.names) > 1 or any(context.stations(*pair) for pair in workload.pairs):
        return
    paths = [context.path(*pair) for pair in workload.pairs]
    frame_bytes = workload.payload_bytes + FRAME_HEADERS_BYTES
    least_ns = min(sum(spec.delay_ns + spec.serialization_ns(frame_bytes) for spec in path) for path in paths)
    findings.theory("delay_min", least_ns, "ns", "sum over links of delay + serialization")
    specs = [spec for path in paths for spec in path]
    line_bits = max(8 * (frame_bytes + spec.overhead_bytes) for spec in specs)
    # Even if all pairs shared one link.
    offered_bps = len(paths) * line_bits * NS_PER_S / workload.interval_ns
    calm = not context.occasion.faults and offered_bps < min(spec.rate_bps for spec in specs)
    if calm and not any(spec.loss_ppm for spec in specs):
        findings.theory("lost", 0, "1", "links carry all pairs together, and nothing breaks")


def _save_series(workload: Probe, context: Context, logs: Sequence[FlowLog], start_ns: int) -> None:
    bin_ns = max(workload.interval_ns, -(-workload.duration_ns // _MOST_BINS))
    bins = -(-workload.duration_ns // bin_ns)
    departures_ns = np.concatenate([log.departures_ns for log in logs]) - start_ns
    lost = np.concatenate([log.lost for log in logs])
    sent_in = np.bincount(departures_ns // bin_ns, minlength=bins)
    lost_in = np.bincount(departures_ns[lost] // bin_ns, minlength=bins)
    series = ProbeSeries(start_ns, bin_ns, tuple(sent_in.tolist()), tuple(lost_in.tolist()))
    path = context.work_dir / probe_series_file(workload.name)
    path.write_text(json.dumps(series.as_json(workload.name), separators=(",", ":")) + "\n", encoding="utf-8")
