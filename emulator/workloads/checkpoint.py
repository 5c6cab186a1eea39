"""A checkpoint: every client writes its share at once over NVMe/TCP and syncs; it takes as long as the slowest."""

from __future__ import annotations

import tempfile
from pathlib import Path

from emulator.errors import WorkloadError
from emulator.model.workload import Checkpoint
from emulator.results.records import Record
from emulator.rng import derive
from emulator.units import NS_PER_S, format_size
from emulator.workloads.context import Context, Findings
from emulator.workloads.fio import FioJob, run_fio
from emulator.workloads.nvme import duration_ns, io_options, merged


def run(workload: Checkpoint, context: Context) -> list[Record]:
    """Write the checkpoint.

    Raises:
        WorkloadError: The storage cannot be set up, a share is smaller than a block, or fio failed.
    """
    clients = workload.initiators
    blocks = workload.size_bytes // len(clients) // workload.block_bytes
    if not blocks:
        raise WorkloadError(
            f"workload {workload.name}: {workload.size_bytes} bytes from {len(clients)} clients are less than a block "
            f"of {workload.block_bytes} bytes each"
        )
    target = context.host(workload.target, workload.name)
    context.progress(f"{workload.name}: volumes on {workload.target}", 0, 2)
    jobs = []
    for position, name in enumerate(clients):
        device = context.storage.volume(context.host(name, workload.name), target)
        amount = {"io_size": str(blocks * workload.block_bytes), "end_fsync": "1"}
        seed = derive(context.seed, "fio", workload.name, name)
        options = io_options(device, "write", workload.block_bytes, workload.queue_depth, amount, seed, workload.name)
        jobs.append(FioJob(f"client-{position}", options))
    context.progress(f"{workload.name}: {len(clients)} clients write", 1, 2)
    with tempfile.TemporaryDirectory(prefix="icgw-fio-") as folder:
        host = context.host(clients[0], workload.name)
        found = run_fio(host, jobs, Path(folder), workload.name, lambda: context.await_start(workload.name))
    results = list(found.values())
    span_ns = duration_ns(results)
    written_bytes = sum(result.size_bytes for result in results)
    bandwidth_bps = written_bytes * 8 * NS_PER_S / span_ns
    slowest_bps = min(spec.rate_bps for spec in context.path(clients[0], workload.target))
    findings = Findings(context, workload)
    source = f"fio, {len(clients)} clients, {format_size(written_bytes)}, from the first write to the last sync"
    findings.measured("duration", span_ns, "ns", source)
    findings.measured("bandwidth", bandwidth_bps, "bit/s", source)
    findings.measured("bandwidth_share", bandwidth_bps / slowest_bps, "1", f"{source}; of the slowest link's rate")
    findings.modelled("media_latency", context.profile.media.latency_ns, "ns", context.profile.media.source)
    if workload.full_size_bytes:
        full_ns = workload.full_size_bytes * 8 * NS_PER_S / bandwidth_bps
        findings.modelled("duration_full", full_ns, "ns", f"full size ({workload.full_size_bytes} B) / measured rate")
    findings.distribution("latency", "ns", merged([result.latency for result in results]))
    findings.save()
    return findings.records
