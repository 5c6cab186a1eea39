"""Poisson arrivals at a fixed-rate link: the mean wait, against M/D/1.

Packets of one size leave with exponential gaps. A packet's wait is its transit time less that of a packet which meets
no other. Over several links the waits add up to the wait of an M/D/1 queue at the slowest of them, wherever it is and
whatever the others' rates (tandems of deterministic servers: Avi-Itzhak 1965, Friedman 1965).

The mean of a long run still has a statistical error, which grows steeply with the load: its relative standard
deviation over *n* packets is about ``sqrt(2 load / n) / (1 - load)`` (heavy traffic), 1.3 % for a million packets at
0.9. Three figures keep it apart from errors of the emulation:

- ``mean_wait`` is the plain mean, ``mean_wait_stderr`` its standard error from batch means.
- ``mean_wait_arrivals`` (theory) is Lindley's recursion over the very arrivals that were sent; the difference to
  ``mean_wait`` is the emulation's own error.
- ``mean_wait_controlled`` is ``mean_wait`` with that recursion as an external control variate: the part of the
  deviation that the arrivals explain is taken out, which leaves the expectation as it is.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt

from emulator.errors import WorkloadError
from emulator.linux.batch_send import SEQUENCE_BYTES
from emulator.model.theory import md1_mean_wait_ns
from emulator.model.workload import Poisson
from emulator.results.records import Record
from emulator.rng import derive
from emulator.workloads.context import Context, Findings
from emulator.workloads.timed_flow import FRAME_HEADERS_BYTES, START_LEAD_NS, timed_flow

_BATCHES = 32
_FEWEST_PACKETS = 1000

_SOURCE = "UDP packets with departure times, kernel receive timestamps"


def arrival_offsets_ns(packets: int, mean_gap_ns: float, seed: int) -> npt.NDArray[np.int64]:
    """Arrival times of a Poisson process, in whole ns (rounded from the exact times, so errors do not add up)."""
    gaps = np.random.Generator(np.random.PCG64(seed)).exponential(mean_gap_ns, packets)
    offsets: npt.NDArray[np.int64] = np.round(np.cumsum(gaps)).astype(np.int64)
    return offsets


def lindley_waits_ns(arrivals_ns: npt.NDArray[np.int64], service_ns: float) -> npt.NDArray[np.float64]:
    """Waits in a single-server queue with fixed service time: ``w[n+1] = max(0, w[n] + service - gap)``."""
    steps = service_ns - np.diff(arrivals_ns, prepend=arrivals_ns[0]).astype(np.float64)
    steps[0] = 0
    walk = np.cumsum(steps)
    waits: npt.NDArray[np.float64] = walk - np.minimum.accumulate(walk)
    return waits


def batch_standard_error(values: npt.NDArray[np.int64], batches: int = _BATCHES) -> float:
    """Standard error of the mean of a correlated series, from the means of consecutive batches."""
    size = len(values) // batches
    means = values[: size * batches].reshape(batches, size).mean(axis=1)
    return float(means.std(ddof=1)) / sqrt(batches)


def run(workload: Poisson, context: Context) -> list[Record]:
    """Send the packets and compare their mean wait with M/D/1.

    Raises:
        WorkloadError: The frame does not fit, too few packets, or nothing arrives.
    """
    source = context.host(workload.source, workload.name)
    target = context.host(workload.target, workload.name)
    path = context.path(workload.source, workload.target)
    payload_bytes = workload.frame_bytes - FRAME_HEADERS_BYTES
    largest = min(spec.mtu_bytes for spec in path) + 14
    if payload_bytes < SEQUENCE_BYTES or workload.frame_bytes > largest:
        raise WorkloadError(
            f"workload {workload.name}: a frame of {workload.frame_bytes} bytes is impossible here: "
            f"{FRAME_HEADERS_BYTES + SEQUENCE_BYTES} to {largest}"
        )
    if workload.packets < _FEWEST_PACKETS:
        raise WorkloadError(
            f"workload {workload.name}: {workload.packets} packets say nothing of a mean: at least 1000"
        )
    service_ns = max(spec.line_time_ns(workload.frame_bytes) for spec in path)
    seed = derive(context.seed, "poisson", workload.name)
    offsets_ns = arrival_offsets_ns(workload.packets, service_ns / workload.load, seed)
    context.progress(f"{workload.name}: {workload.packets} packets at load {workload.load:g}", 0, 1)
    with timed_flow(source, target, payload_bytes, workload.name) as flow:
        lone_ns = flow.lone_transit_ns()
        arrived = flow.send(offsets_ns, context.start(workload.name, START_LEAD_NS))
    if not len(arrived.numbers):
        raise WorkloadError(f"workload {workload.name}: none of {workload.packets} packets arrived at {target.name}")
    waits_ns = arrived.transit_ns - lone_ns
    findings = Findings(context, workload)
    mean_ns = float(waits_ns.mean())
    findings.measured("mean_wait", mean_ns, "ns", _SOURCE)
    if len(waits_ns) >= _BATCHES * 2:
        findings.measured("mean_wait_stderr", batch_standard_error(waits_ns), "ns", f"{_SOURCE}; batch means")
    findings.measured("max_wait", int(waits_ns.max()), "ns", _SOURCE)
    findings.measured("loss", arrived.lost / workload.packets, "1", _SOURCE)
    findings.measured("lone_transit", lone_ns, "ns", f"{_SOURCE}; packets that meet no other")
    if not arrived.lost and not context.stations(workload.source, workload.target):
        _compare(workload, findings, mean_ns, service_ns, offsets_ns)
    findings.save()
    return findings.records


def _compare(
    workload: Poisson,
    findings: Findings,
    mean_ns: float,
    service_ns: float,
    offsets_ns: npt.NDArray[np.int64],
) -> None:
    expected_ns = md1_mean_wait_ns(workload.load, service_ns)
    of_arrivals_ns = float(lindley_waits_ns(offsets_ns, service_ns).mean())
    controlled_ns = mean_ns - (of_arrivals_ns - expected_ns)
    findings.theory("mean_wait", expected_ns, "ns", "M/D/1 (Pollaczek-Khinchine)")
    findings.theory("mean_wait_arrivals", of_arrivals_ns, "ns", "Lindley's recursion over the arrivals that were sent")
    findings.measured("mean_wait_error", mean_ns / expected_ns - 1, "1", f"{_SOURCE}; relative to M/D/1")
    controlled = f"{_SOURCE}; Lindley's recursion over the same arrivals as control variate"
    findings.measured("mean_wait_controlled", controlled_ns, "ns", controlled)
    findings.measured("mean_wait_controlled_error", controlled_ns / expected_ns - 1, "1", controlled)
