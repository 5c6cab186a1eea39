"""Bandwidth across a supernode's middle, measured: cards of both halves send to each other, all at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from emulator.errors import WorkloadError
from emulator.linux.timer import reset_timer_slack
from emulator.model import theory
from emulator.model.fabric import ETHERNET_HEADER_BYTES, LinkSpec
from emulator.model.fault import broken_links
from emulator.model.max_flow import max_flow_bps
from emulator.model.routing import Passage
from emulator.model.workload import Bisection
from emulator.results.records import Record
from emulator.units import NS_PER_S
from emulator.workloads.bulk import BulkFlows
from emulator.workloads.collective.links import opened
from emulator.workloads.context import Context, Findings

_SOURCE = "TCP_INFO of the receiving kernels"
_QUEUE_SHARE = 3
"""Windows of all flows that share a line may fill this part of its queue, so that none of them loses packets."""

_LEAST_FRAMES = 4


@dataclass(frozen=True)
class _Crossing:
    """What flows meet on their way.

    Attributes:
        paths: Links that each flow crosses, in order.
        sharing: Most flows that share a link, if all are spread evenly over equal paths.
        flow_bps: What every flow gets on the line if all get the same.
    """

    paths: Sequence[Sequence[LinkSpec]]
    sharing: float
    flow_bps: float


def run(workload: Bisection, context: Context) -> list[Record]:
    """Let all pairs send, and sum up.

    Raises:
        WorkloadError: A card cannot reach its partner, or the fabric's routes are not known.
    """
    crossing = _crossing(workload, context)
    buffer_bytes = max(_window_bytes(path, crossing.sharing) for path in crossing.paths)
    names = list(dict.fromkeys(name for pair in workload.pairs for name in pair))
    ranks = {name: number for number, name in enumerate(names)}
    hosts = [context.host(name, workload.name) for name in names]
    connections = [(ranks[source], ranks[target], 0) for source, target in workload.flows]
    context.progress(f"{workload.name}: {len(connections)} TCP flows across the middle", 0, 1)
    reset_timer_slack()
    with (
        opened(hosts, connections, workload.congestion, buffer_bytes, workload.name) as links,
        BulkFlows(links.senders, links.receivers, buffer_bytes) as flows,
    ):
        start_ns = context.await_start(workload.name)
        try:
            flows.begin(links.senders)
            goodputs = _goodputs(workload, flows, start_ns)
            retransmits = sum(flows.retransmits())
        except OSError as error:
            raise WorkloadError(f"workload {workload.name}: a connection broke: {error}") from error
    return _records(workload, context, crossing, goodputs, retransmits)


def _goodputs(workload: Bisection, flows: BulkFlows, start_ns: int) -> list[float]:
    """Payload bit/s of every flow after the warm-up."""
    flows.run_until(start_ns + workload.warm_up_ns)
    before, begin_ns = flows.received_bytes(), time.monotonic_ns()
    flows.run_until(start_ns + workload.duration_ns)
    after, end_ns = flows.received_bytes(), time.monotonic_ns()
    return [(last - first) * 8 * NS_PER_S / (end_ns - begin_ns) for first, last in zip(before, after, strict=True)]


def _crossing(workload: Bisection, context: Context) -> _Crossing:
    ways = context.ways
    if ways is None or not workload.pairs:
        raise WorkloadError(f"workload {workload.name}: there are no halves, or no routes between them")
    links = ways.fabric.links
    shares = [ways.shares(*flow) for flow in workload.flows]
    loads: Counter[Passage] = Counter()
    for one in shares:
        loads.update(one)
    # A link that no flow has to itself still cannot give a flow more than its rate.
    flow_bps = min(links[passage.link].spec.rate_bps / max(1.0, load) for passage, load in loads.items())
    paths = [[links[passage.link].spec for passage in ways.path(*flow)] for flow in workload.flows]
    return _Crossing(paths, max(1.0, *loads.values()), flow_bps)


def _window_bytes(path: Sequence[LinkSpec], sharing: float) -> int:
    """A flow's part of what a busy line holds: on the way there and back, and in its queue."""
    slowest = min(path, key=lambda spec: spec.rate_bps)
    frame_bytes = slowest.mtu_bytes + ETHERNET_HEADER_BYTES
    round_trip_ns = theory.one_way_ns(path, frame_bytes) + theory.one_way_ns(path, 100)
    on_the_way = slowest.rate_bps * round_trip_ns / (8 * NS_PER_S)
    waiting = slowest.waiting_packets * frame_bytes / _QUEUE_SHARE
    return max(_LEAST_FRAMES * frame_bytes, round((on_the_way + waiting) / sharing))


def _records(
    workload: Bisection, context: Context, crossing: _Crossing, goodputs: Sequence[float], retransmits: int
) -> list[Record]:
    slowest = min(crossing.paths[0], key=lambda spec: spec.rate_bps)
    payload_share = theory.tcp_goodput_bps(slowest) / slowest.rate_bps
    one_way = len(workload.pairs)
    directions = len(goodputs) // one_way
    total, bound = sum(goodputs) / directions, workload.most_bps * payload_share
    what = "payload from the first half to the second" if directions == 1 else "payload, mean of the two directions"
    findings = Findings(context, workload)
    findings.measured("bisection", total, "bit/s", f"{_SOURCE}; {what}")
    findings.measured("bisection_share", total / bound, "1", f"{_SOURCE}; of what the formula leaves for payload")
    findings.measured("jain_index", theory.jain_index(goodputs), "1", f"{_SOURCE}; Jain's index of the flows")
    findings.measured("flows", len(goodputs), "1", "connections")
    findings.measured("retransmits", retransmits, "1", "TCP_INFO of the sending kernels, segments")
    exactly = workload.least_bps == workload.most_bps
    source = "closed form" if exactly else "bound from above: the narrowest cut that is known"
    findings.theory("bisection", bound, "bit/s", f"{source}, less headers and line overhead")
    findings.theory("bisection_line", workload.most_bps, "bit/s", f"{source}, on the line")
    routed = crossing.flow_bps * one_way * payload_share
    findings.theory(
        "bisection_routed", routed, "bit/s", "routes, if equal paths are used evenly and flows get the same"
    )
    _after_faults(workload, context, findings, total, payload_share)
    return findings.records


def _after_faults(
    workload: Bisection, context: Context, findings: Findings, total_bps: float, payload_share: float
) -> None:
    """Hold what faults left against what the remaining links carry between the halves, by whatever ways."""
    happened = context.occasion.happened()
    if not happened or context.ways is None:
        return
    fabric = context.ways.fabric
    broken = broken_links(fabric, [one.fault for one in happened])
    one, other = ({pair[end] for pair in workload.pairs} for end in (0, 1))
    left_bps = max_flow_bps(fabric, one, other, broken)
    what = f"max-flow between the halves with {len(broken)} of {len(fabric.links)} links broken"
    findings.measured("bisection_left", total_bps, "bit/s", f"{_SOURCE}; with faults")
    findings.theory("bisection_left", left_bps * payload_share, "bit/s", f"{what}, less headers and line overhead")
