"""What is the same in every machine with a virtual-time kernel: its clock, its parameters, its command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.engine.checks import LOG_FILE
from emulator.engine.environment import HOST_NAME, NAMESPACE_SYSCTLS, RLIMITS, job_environment
from emulator.engine.job import Job

START_NS = 1_893_456_000 * 10**9
"""The clock starts at 2030-01-01 00:00:00 UTC: later than any file on the host, so that no file is from the future."""

MOUNT_POINT = "/out"
"""Where a job finds its results folder."""

MACHINE_SYSCTLS: Mapping[str, str] = {
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
    "net.core.rmem_max": "536870912",
    "net.core.wmem_max": "536870912",
    "net.core.optmem_max": "1048576",
    "net.ipv4.tcp_mem": "8388608 12582912 16777216",
    "net.ipv4.udp_mem": "8388608 12582912 16777216",
    # Packets are lost in the queues that the scenario shapes, never in the receive backlog of a veth.
    "net.core.netdev_max_backlog": "1000000",
    # Namespaces are made like the first one, and hold nothing but their loopback interface.
    "net.core.devconf_inherit_init_net": "1",
    "net.core.fb_tunnels_only_for_init_net": "2",
    "net.ipv4.neigh.default.gc_thresh1": "65536",
    "net.ipv4.neigh.default.gc_thresh2": "131072",
    "net.ipv4.neigh.default.gc_thresh3": "262144",
}
"""Kernel parameters of a machine with a kernel of its own."""


def guest_configuration(job: Job) -> dict[str, Any]:
    """What the machine's first program is to do; see `emulator.engine.guest`."""
    return {
        "own_kernel": True,
        "argv": list(job.argv),
        "environment": job_environment(job, out=MOUNT_POINT),
        "host_out": str(job.out.resolve()),
        "out": MOUNT_POINT,
        "log": f"{MOUNT_POINT}/{LOG_FILE}",
        "limit_ns": job.limits.virtual_ns,
        "memory_share": "80%",
        "hostname": HOST_NAME,
        "sysctls": {**MACHINE_SYSCTLS, **NAMESPACE_SYSCTLS},
        "rlimits": dict(RLIMITS),
    }


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
        "ipv6.disable_ipv6=1",  # the default of new network namespaces is not inherited
        "con=null",
        "con0=fd:1,fd:1",
        "noreboot",
        "quiet",
    ]
