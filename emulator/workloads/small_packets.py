"""Small messages at full offered load: how much of the line is useful payload when it arrives."""

from __future__ import annotations

import numpy as np

from emulator.errors import WorkloadError
from emulator.model.fabric import ETHERNET_HEADER_BYTES
from emulator.model.workload import SmallPackets
from emulator.results.records import Record
from emulator.units import NS_PER_S
from emulator.workloads.context import Context, Findings
from emulator.workloads.timed_flow import FRAME_HEADERS_BYTES, START_LEAD_NS, timed_flow

_SOURCE = "UDP messages with departure times, counted at the receiving interface"


def run(workload: SmallPackets, context: Context) -> list[Record]:
    """Offer the messages and count what arrives.

    The useful bandwidth is the payload of all messages after the first, over the time from the first arrival to the
    last: a station that falls behind and drops still delivers at its own steady rate in between.

    Raises:
        WorkloadError: A message does not fit into a packet, too few messages, or fewer than two arrive.
    """
    source = context.host(workload.source, workload.name)
    target = context.host(workload.target, workload.name)
    path = context.path(workload.source, workload.target)
    frame_bytes = workload.message_bytes + FRAME_HEADERS_BYTES
    mtu_bytes = min(spec.mtu_bytes for spec in path)
    if not 1 <= workload.message_bytes <= mtu_bytes + ETHERNET_HEADER_BYTES - FRAME_HEADERS_BYTES:
        raise WorkloadError(
            f"workload {workload.name}: a message of {workload.message_bytes} bytes does not fit into one packet of "
            f"{mtu_bytes} bytes"
        )
    slowest = min(path, key=lambda spec: spec.rate_bps)
    offered_bps = workload.offered_bps or slowest.rate_bps
    line_bits = 8 * (frame_bytes + slowest.overhead_bytes)
    count = workload.duration_ns * offered_bps // (line_bits * NS_PER_S)
    if count < 2:
        raise WorkloadError(f"workload {workload.name}: {count} messages in {workload.duration_ns} ns are too few")
    # In Python's integers: a nanosecond times a line of bits times a million messages exceeds 64 bits.
    gap_ns = line_bits * NS_PER_S / offered_bps
    offsets_ns = np.round(gap_ns * np.arange(count)).astype(np.int64)
    context.progress(f"{workload.name}: {count} messages of {workload.message_bytes} bytes", 0, 1)
    with timed_flow(source, target, workload.message_bytes, workload.name) as flow:
        flow.lone_transit_ns()
        arrived = flow.send(offsets_ns, context.start(workload.name, START_LEAD_NS))
    if len(arrived.times_ns) < 2:
        raise WorkloadError(
            f"workload {workload.name}: {len(arrived.times_ns)} of {count} messages arrived at {target.name}"
        )
    span_ns = int(arrived.times_ns[-1] - arrived.times_ns[0])
    rate = (len(arrived.times_ns) - 1) * NS_PER_S / max(span_ns, 1)
    useful_bps = rate * 8 * workload.message_bytes
    findings = Findings(context, workload)
    findings.modelled("offered", offered_bps, "bit/s", "offered load on the line, overheads included")
    findings.measured("useful_bandwidth", useful_bps, "bit/s", _SOURCE)
    findings.measured("useful_share", useful_bps / slowest.rate_bps, "1", f"{_SOURCE}; of the slowest link's rate")
    findings.measured("message_rate", rate, "1/s", _SOURCE)
    findings.measured("loss", arrived.lost / int(count), "1", _SOURCE)
    if not context.stations(workload.source, workload.target):
        predicted_bps = min(offered_bps, slowest.rate_bps) * 8 * workload.message_bytes / line_bits
        findings.theory("useful_bandwidth", predicted_bps, "bit/s", "payload share of each frame on the line")
        findings.theory(
            "useful_share", predicted_bps / slowest.rate_bps, "1", "payload share of each frame on the line"
        )
    findings.save()
    return findings.records
