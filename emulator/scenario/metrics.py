"""Which figures each kind of workload may have, so that an expectation of one that never comes is said beforehand.

``docs/workloads.md`` says what they are. Whether a figure comes depends on the run too: there is no time to recover
where nothing was lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BY_FAULT = ("lost", "pairs_hit", "unrecovered")

METRICS: Mapping[str, tuple[str, ...]] = {
    "ping": (
        *("rtt_min", "rtt_mean", "rtt_p50", "rtt_p99", "rtt_max"),
        *("loss", "rtt_error", "ping_rtt_mean"),
    ),
    "tcp": (*("goodput", "goodput_flow<n>", "jain_index", "utilization", "retransmits", "window", "in_flight_limit"),),
    "poisson": (
        *("mean_wait", "max_wait", "mean_wait_stderr", "lone_transit", "loss", "mean_wait_arrivals", "mean_wait_error"),
        *("mean_wait_controlled", "mean_wait_controlled_error"),
    ),
    "small_packets": ("useful_bandwidth", "useful_share", "message_rate", "loss", "offered"),
    "probe": (
        *("sent", "lost", "loss", "duplicated", "reordered", "longest_gap", "lost_without_fault"),
        *("delay_min", "delay_p50", "delay_p99", "delay_max"),
        *(f"{name}{by}" for name in _BY_FAULT for by in ("_by_faults", "_fault<n>")),
        *(f"{name}{by}" for name in ("recovery_p50", "recovery_max") for by in ("", "_fault<n>")),
    ),
    "nvme": (
        *(f"latency_{name}_qd<n>" for name in ("min", "mean", "p50", "p99", "max", "stddev")),
        *("iops_qd<n>", "bandwidth_qd<n>", "bandwidth_share_qd<n>", "media_latency"),
    ),
    "checkpoint": ("duration", "bandwidth", "bandwidth_share", "media_latency", "duration_full"),
    "fabric": (
        *("packets_dropped", "storage_packets_dropped", "compute_packets_dropped"),
        *("storage_bytes", "storage_bytes_through_compute", "balance_moves", "balance_first_move"),
        *("reroutings", "routes_changed"),
    ),
}
"""By kind of workload, and those of links and ports; ``<n>`` stands for a number. Other kinds are not checked."""


def has_metric(kind: str, metric: str) -> bool:
    """Whether a workload of this kind may have a figure of this name."""
    if kind not in METRICS:
        return True
    return any(re.fullmatch(r"\d+".join(map(re.escape, name.split("<n>"))), metric) for name in METRICS[kind])
