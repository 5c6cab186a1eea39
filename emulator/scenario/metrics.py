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
    "collective": (
        *("time_<size>", "algbw_<size>", "busbw_<size>", "wrong_<size>", "model_error_<size>"),
        *("bound_<size>", "of_bound_<size>", "reduce_rate", "model_error_mean", "model_error_worst"),
    ),
    "collective_job": (
        *("rounds", "wrong", "interruptions", "round", "longest_gap", "detect", "react"),
        *("detected_<n>", "resumed_<n>", "recovered_<n>", "routes_<n>", "ranks_<n>", "round_<n>", "left_<n>"),
        *("change_<n>", "members_<n>", "member_round_<n>"),
    ),
    "bisection": (
        *("bisection", "bisection_line", "bisection_routed", "bisection_share", "bisection_left"),
        *("jain_index", "flows", "retransmits"),
    ),
    "fabric": (
        *("packets_dropped", "storage_packets_dropped", "compute_packets_dropped"),
        *("storage_bytes", "storage_bytes_through_compute", "balance_moves", "balance_first_move"),
        *("reroutings", "routes_changed"),
    ),
}
"""By kind of workload, and those of links and ports; ``<n>`` stands for a number, ``<size>`` for one like ``16MiB``."""

_PLACES = {"<n>": r"\d+", "<size>": r"\d+(?:\.\d+)?(?:[KMGT]i|[kMGT])?B"}


def has_metric(kind: str, metric: str) -> bool:
    """Whether a workload of this kind may have a figure of this name."""
    return any(re.fullmatch(_pattern(name), metric, re.ASCII) for name in METRICS[kind])


def _pattern(name: str) -> str:
    return "".join(_PLACES.get(part) or re.escape(part) for part in re.split(r"(<[a-z]+>)", name))
