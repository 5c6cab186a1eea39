"""What is the same in every emulated machine: clock, kernel parameters, limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from emulator.engine.checks import LOG_FILE
from emulator.engine.environment import job_environment
from emulator.engine.job import Job

START_NS = 1_893_456_000 * 10**9
"""The clock starts at 2030-01-01 00:00:00 UTC: later than any file on the host, so that no file is from the future."""

MOUNT_POINT = "/out"
"""Where a job finds its results folder."""

SYSCTLS: Mapping[str, str] = {
    # A broken kernel or one without memory must end the run: a result from it would be worthless.
    "kernel.panic_on_oops": "1",
    "vm.panic_on_oom": "1",
    "vm.overcommit_memory": "1",
    "kernel.pid_max": "4194304",
    "kernel.threads-max": "500000",
    "vm.max_map_count": "1048576",
    "fs.nr_open": "1048576",
    "fs.file-max": "4194304",
    "fs.inotify.max_user_instances": "65536",
    "fs.aio-max-nr": "1048576",
    "kernel.keys.root_maxkeys": "1000000",
    # Socket buffers for a bandwidth-delay product of 1.6 Tbit/s times 1 ms and more; the kernel tunes below it.
    "net.core.rmem_max": "536870912",
    "net.core.wmem_max": "536870912",
    "net.core.optmem_max": "1048576",
    "net.ipv4.tcp_rmem": "4096 131072 536870912",
    "net.ipv4.tcp_wmem": "4096 65536 536870912",
    "net.ipv4.tcp_mem": "8388608 12582912 16777216",
    "net.ipv4.udp_mem": "8388608 12582912 16777216",
    # Packets are lost in the queues that the scenario shapes, never in the receive backlog of a veth.
    "net.core.netdev_max_backlog": "1000000",
    "net.core.somaxconn": "65535",
    # Neighbours neither expire nor are asked again while something is measured; tables hold large fabrics.
    "net.ipv4.neigh.default.gc_thresh1": "65536",
    "net.ipv4.neigh.default.gc_thresh2": "131072",
    "net.ipv4.neigh.default.gc_thresh3": "262144",
    "net.ipv4.neigh.default.base_reachable_time_ms": "86400000",
    # New namespaces hold nothing but their loopback interface.
    "net.core.fb_tunnels_only_for_init_net": "2",
    # Duplicate address detection and router solicitations would add packets that nobody asked for.
    "net.core.devconf_inherit_init_net": "1",
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}

RLIMITS: Mapping[str, int] = {
    "RLIMIT_NOFILE": 1048576,
    "RLIMIT_MEMLOCK": -1,
    "RLIMIT_NPROC": -1,
    "RLIMIT_CORE": 0,
}
"""Resource limits by name; -1: none."""


def guest_configuration(job: Job) -> str:
    """The text of ``guest.json``, which tells the emulated machine what to do."""
    return json.dumps(
        {
            "argv": list(job.argv),
            "environment": job_environment(job, out=MOUNT_POINT, home="/run/home", tmp="/run/tmp"),
            "out": str(job.out.resolve()),
            "mount_point": MOUNT_POINT,
            "log": f"{MOUNT_POINT}/{LOG_FILE}",
            "limit_ns": job.limits.virtual_ns,
            "memory_share": "80%",
            "hostname": "icgw",
            "sysctls": dict(SYSCTLS),
            "rlimits": dict(RLIMITS),
        }
    )


def kernel_command(kernel: Path, folder: Path, job: Job, *, seccomp: bool) -> list[str]:
    """The command that boots a job's machine.

    Args:
        kernel: The kernel, which is a program.
        folder: The run's folder with ``init`` in it; no blanks in its path.
        job: The job.
        seccomp: Watch the machine's processes by seccomp rather than, slower, by ptrace.
    """
    return [
        str(kernel),
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={folder}/init",
        f"mem={-(-job.limits.memory_bytes >> 20)}M",
        "time-travel=inf-cpu",
        f"time-travel-start={START_NS}",
        f"time-travel-status={folder}/status",
        f"random-seed={job.seed % 2**64}",
        f"seccomp={'on' if seccomp else 'off'}",
        f"uml_dir={folder}/uml",
        "umid=m",
        "con=null",
        "con0=fd:1,fd:1",
        "noreboot",
        "quiet",
    ]
