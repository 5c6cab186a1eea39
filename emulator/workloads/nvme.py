"""NVMe/TCP I/O by fio: latency, rate and bandwidth for each queue depth, every initiator on a volume of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from emulator.errors import WorkloadError
from emulator.model.distribution import Distribution
from emulator.model.workload import NvmeIo
from emulator.results.records import Record
from emulator.rng import derive
from emulator.units import NS_PER_S
from emulator.workloads.context import Context, Findings
from emulator.workloads.fio import FioJob, FioResult, run_fio
from emulator.workloads.nvme_path import command_ns
from emulator.workloads.storage import QUEUE_SIZE, VOLUME_BYTES

WRITE_REGION_BYTES = 64 << 20
"""Writes go round within this much of a volume, so that the media's memory stays bounded."""

_SEED_BITS = 31


def merged(samples: Sequence[Distribution]) -> Distribution:
    """All samples together."""
    counts: dict[int, int] = {}
    for sample in samples:
        for value, count in zip(sample.values, sample.counts, strict=True):
            counts[value] = counts.get(value, 0) + count
    values = tuple(sorted(counts))
    return Distribution(values, tuple(counts[value] for value in values))


def duration_ns(results: Sequence[FioResult]) -> int:
    """Time from the first job's start to the last one's end.

    Raises:
        WorkloadError: It is not positive: the clock is not to be trusted.
    """
    span_ns = max(result.end_ns for result in results) - min(result.start_ns for result in results)
    if span_ns <= 0:
        raise WorkloadError(f"fio's jobs ended {-span_ns} ns before they began")
    return span_ns


def io_options(
    device: Path, pattern: str, block_bytes: int, depth: int, amount: dict[str, str], seed: int, what: str
) -> dict[str, str]:
    """Make the options of one fio job on one volume.

    Raises:
        WorkloadError: A block is larger than what is used of the volume; names the workload *what*.
    """
    region = VOLUME_BYTES if "write" not in pattern else WRITE_REGION_BYTES
    if block_bytes > region:
        raise WorkloadError(
            f"workload {what}: a block of {block_bytes} bytes is larger than the {region} bytes of a volume in use"
        )
    return {
        "filename": str(device),
        "rw": pattern,
        "bs": str(block_bytes),
        "iodepth": str(depth),
        "size": str(region - region % block_bytes),
        "randseed": str(seed % (1 << _SEED_BITS)),
        **amount,
    }


def _jobs(workload: NvmeIo, context: Context) -> list[FioJob]:
    target = context.host(workload.target, workload.name)
    devices = {name: context.storage.volume(context.host(name, workload.name), target) for name in workload.initiators}
    # fio ends a job on whichever limit comes first; io_size alone would stop at the size of the region.
    amount = {"number_ios": str(workload.ios)} if workload.ios else {}
    total_bytes = workload.size_bytes or workload.ios * workload.block_bytes
    amount["io_size"] = str(total_bytes)
    if workload.think_ns:
        if workload.think_ns % 1000:
            raise WorkloadError(
                f"workload {workload.name}: fio pauses for whole microseconds, not for {workload.think_ns} ns"
            )
        amount["thinktime"] = f"{workload.think_ns // 1000}us"
    jobs = []
    for depth in workload.queue_depths:
        pause = {"thinktime_blocks": str(depth)} if workload.think_ns else {}
        for position, name in enumerate(workload.initiators):
            seed = derive(context.seed, "fio", workload.name, depth, name)
            options = io_options(
                devices[name], workload.pattern, workload.block_bytes, depth, amount | pause, seed, workload.name
            )
            jobs.append(FioJob(f"qd{depth}-{position}", options, position == 0, bool(workload.think_ns)))
    return jobs


def run(workload: NvmeIo, context: Context) -> list[Record]:
    """Run fio once for all depths.

    Raises:
        WorkloadError: The storage cannot be set up, or fio failed.
    """
    deepest = max(workload.queue_depths, default=0)
    if not 1 <= deepest < QUEUE_SIZE:
        raise WorkloadError(
            f"workload {workload.name}: a queue depth of {deepest} is impossible: 1 to {QUEUE_SIZE - 1} commands fit"
        )
    if not workload.ios and not workload.size_bytes:
        raise WorkloadError(f"workload {workload.name}: neither a number of I/Os nor a size is given")
    context.progress(f"{workload.name}: volumes on {workload.target}", 0, 2)
    jobs = _jobs(workload, context)
    context.progress(f"{workload.name}: fio {workload.pattern}, {len(jobs)} jobs", 1, 2)
    host = context.host(workload.initiators[0], workload.name)
    with tempfile.TemporaryDirectory(prefix="icgw-fio-") as folder:
        results = run_fio(host, jobs, Path(folder), workload.name, lambda: context.await_start(workload.name))
    findings = Findings(context, workload)
    findings.modelled("media_latency", context.profile.media.latency_ns, "ns", context.profile.media.source)
    for depth in workload.queue_depths:
        of_depth = [results[f"qd{depth}-{position}"] for position in range(len(workload.initiators))]
        _report(workload, context, findings, depth, of_depth)
    if 1 in workload.queue_depths and len(workload.initiators) == 1:
        _predict(workload, context, findings)
    findings.save()
    return findings.records


def _report(workload: NvmeIo, context: Context, findings: Findings, depth: int, results: Sequence[FioResult]) -> None:
    sample = merged([result.latency for result in results])
    suffix = f"_qd{depth}"
    log = f"fio {workload.pattern}, latency log of every I/O"
    findings.measured(f"latency_min{suffix}", sample.minimum, "ns", log)
    findings.measured(f"latency_mean{suffix}", sample.mean, "ns", log)
    findings.measured(f"latency_p50{suffix}", sample.percentile(50), "ns", log)
    findings.measured(f"latency_p99{suffix}", sample.percentile(99), "ns", log)
    findings.measured(f"latency_max{suffix}", sample.maximum, "ns", log)
    findings.measured(f"latency_stddev{suffix}", sample.deviation, "ns", log)
    findings.distribution(f"latency{suffix}", "ns", sample)
    span_ns = duration_ns(results)
    counted = f"fio {workload.pattern}, from the first job's start to the last one's end"
    findings.measured(f"iops{suffix}", sum(result.ios for result in results) * NS_PER_S / span_ns, "1/s", counted)
    bandwidth_bps = sum(result.size_bytes for result in results) * 8 * NS_PER_S / span_ns
    findings.measured(f"bandwidth{suffix}", bandwidth_bps, "bit/s", counted)
    slowest_bps = min(spec.rate_bps for spec in context.path(workload.initiators[0], workload.target))
    findings.measured(
        f"bandwidth_share{suffix}", bandwidth_bps / slowest_bps, "1", f"{counted}; of the slowest link's rate"
    )


def _predict(workload: NvmeIo, context: Context, findings: Findings) -> None:
    initiator, target = workload.initiators[0], workload.target
    predicted_ns = command_ns(
        (context.path(initiator, target), context.stations(initiator, target)),
        (context.path(target, initiator), context.stations(target, initiator)),
        workload.block_bytes,
        context.profile.media.latency_ns,
        write="write" in workload.pattern,
    )
    if predicted_ns is not None:
        findings.theory(
            "latency_mean_qd1", predicted_ns, "ns", "NVMe/TCP messages over the unloaded path plus media latency"
        )
