"""The fixed part of a job's surroundings: the same on every host, whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.engine.job import OUT_VARIABLE, Job

HOST_NAME = "icgw"

NAMESPACE_SYSCTLS: Mapping[str, str] = {
    # Socket buffers for a bandwidth-delay product of 1.6 Tbit/s times 1 ms and more; the kernel tunes below it.
    "net.ipv4.tcp_rmem": "4096 131072 536870912",
    "net.ipv4.tcp_wmem": "4096 65536 536870912",
    "net.core.somaxconn": "65535",
    # Neighbours do not expire and are not asked again while something is measured.
    "net.ipv4.neigh.default.base_reachable_time_ms": "86400000",
    # Duplicate address detection and router solicitations would add packets that nobody asked for.
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}
"""Kernel parameters of the machine's first network namespace."""

RLIMITS: Mapping[str, int] = {
    "RLIMIT_NOFILE": 1048576,
    "RLIMIT_MEMLOCK": -1,
    "RLIMIT_NPROC": -1,
    "RLIMIT_CORE": 0,
}
"""Resource limits of all processes, by name; -1: none."""


def job_environment(job: Job, *, out: str) -> dict[str, str]:
    """All environment variables of a job.

    Args:
        job: The job; its own variables come last and may replace the fixed ones.
        out: Where it finds its results folder.
    """
    return {
        "HOME": "/run/home",  # nobody's settings
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "TERM": "dumb",
        "TMPDIR": "/run/tmp",
        "TZ": "UTC",
        "USER": "root",
        OUT_VARIABLE: out,
        **job.environment,
    }
