"""What hosts are made to do, with real programs and real protocol stacks, and the figures that come out.

``run(workload, context)`` runs one workload of `emulator.model.workload` in a running fabric and returns its records;
`Context` is the fabric, its paths and its seed, and owns what workloads share (volumes). It is for the process that
built the fabric, inside the emulated machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.errors import InternalError
from emulator.model.workload import Workload
from emulator.results.records import Record
from emulator.workloads import bisection, checkpoint, collective, nvme, ping, poisson, probe, small_packets, tcp
from emulator.workloads.context import Context

__all__ = ["Context", "run"]

_RUNNERS: dict[str, Callable[[Any, Context], list[Record]]] = {
    "ping": ping.run,
    "tcp": tcp.run,
    "poisson": poisson.run,
    "small_packets": small_packets.run,
    "probe": probe.run,
    "nvme": nvme.run,
    "checkpoint": checkpoint.run,
    "collective": collective.run,
    "collective_job": collective.run_job,
    "bisection": bisection.run,
}


def run(workload: Workload, context: Context) -> list[Record]:
    """Run one workload to its end and return its figures.

    Raises:
        WorkloadError: A program is missing, died or printed nonsense; names workload, program and host.
    """
    try:
        runner = _RUNNERS[workload.kind]
    except KeyError:
        raise InternalError(f"no code runs workloads of kind {workload.kind!r}") from None
    return runner(workload, context)
