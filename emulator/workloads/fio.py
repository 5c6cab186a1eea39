"""fio: job files, exact start and end times, latencies of every single I/O, and errors in one line.

fio states its run time in whole milliseconds, too coarse for runs of a few. So each job notes the time itself just
before its first and just after its last I/O (``exec_prerun``, ``exec_postrun``); latencies come from a log with one
line for every I/O.

fio takes its time before that, some of it in a loop that reads the clock. So its first jobs are held, by a lock on a
file, until all of them are ready: their first I/O is then the workload's start, to the nanosecond.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.timer import Timer
from emulator.model.distribution import Distribution
from emulator.workloads.programs import Program, last_words

_TIMEOUT_S = 3600.0
"""Far above any run; an engine's own limits end a stalled one earlier."""

_GO, _READY = "go", ".ready"
_LOOK_NS = 1_000_000
_READY_LOOKS = 60_000

_GLOBAL = {
    "ioengine": "libaio",
    "direct": "1",
    "thread": "1",
    "clocksource": "clock_gettime",
    "disk_util": "0",
    "norandommap": "1",
    "group_reporting": "0",
    # A volume that is gone must fail; fio would make a file in its place and measure that.
    "allow_file_create": "0",
    "exec_postrun": "date +%s%N",
}


@dataclass(frozen=True)
class FioJob:
    """One job: one worker on one volume.

    Attributes:
        name: Unique in its run; letters, digits, ``-`` and ``.``.
        options: fio's options.
        after_all_before: Start only when all jobs before it have ended.
        pauses: It pauses between I/Os. fio ends a pause in a busy loop, inside of which the latency from preparation to
            completion would begin; such a job's latency counts from submission instead.
    """

    name: str
    options: Mapping[str, str]
    after_all_before: bool = False
    pauses: bool = False


@dataclass(frozen=True)
class FioResult:
    """What one job did.

    Attributes:
        start_ns, end_ns: Just before its first and just after its last I/O, CLOCK_REALTIME.
        ios: I/Os done.
        size_bytes: Bytes moved.
        latency: Of every I/O from its preparation (see `FioJob.pauses`) to completion, in ns.
    """

    start_ns: int
    end_ns: int
    ios: int
    size_bytes: int
    latency: Distribution


def job_file(jobs: Sequence[FioJob], log_prefix: str) -> str:
    """The text of a job file; every job's latency log starts with *log_prefix*."""
    lines = ["[global]", *(f"{key}={value}" for key, value in _GLOBAL.items())]
    for job in jobs:
        lines += ["", f"[{job.name}]", *(f"{key}={value}" for key, value in job.options.items())]
        lines += [f"write_lat_log={log_prefix}-{job.name}", "per_job_logs=0"]
        # The shell writes the last command's output, the time, to a file that fio names after the job.
        lines.append(f"exec_prerun=touch {job.name}{_READY} && flock --shared {_GO} --command true && date +%s%N")
        if job.after_all_before:
            lines.append("stonewall")
    return "\n".join(lines) + "\n"


def _read_time(path: Path, what: str) -> int:
    try:
        return int(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        raise WorkloadError(f"workload {what}: fio left no time in {path.name}") from None


def read_latency_log(path: Path, what: str) -> Distribution:
    """Read a latency log: one line ``time_ms, latency_ns, direction, ...`` for every I/O.

    Raises:
        WorkloadError: It is missing, empty or not of this form.
    """
    try:
        with path.open(encoding="ascii") as file:
            return Distribution.of(int(line.split(",", 2)[1]) for line in file)
    except (OSError, ValueError, IndexError):
        raise WorkloadError(f"workload {what}: fio's latency log {path.name} has no readable latencies") from None


def parse_result(text: str, what: str, host: str) -> list[dict[str, Any]]:
    """The jobs in fio's JSON output, in order.

    Raises:
        WorkloadError: It is no such output, or a job failed.
    """
    # Warnings may come before the JSON object.
    start = text.find("{")
    try:
        document = json.loads(text[start:]) if start >= 0 else {}
        jobs = list(document["jobs"])
        errors = {job["jobname"]: int(job["error"]) for job in jobs}
    except (ValueError, KeyError, TypeError):
        raise WorkloadError(f"workload {what}: fio on {host} printed no result: {last_words(text)}") from None
    for name, error in errors.items():
        if error:
            raise WorkloadError(f"workload {what}: fio on {host}: job {name} failed with error {error}")
    return jobs


def _wait_ready(program: Program, names: Sequence[str], folder: Path) -> None:
    """Wait until jobs are about to do their first I/O; if fio has ended, what it says comes out later.

    Raises:
        WorkloadError: They are not there in time.
    """
    with Timer() as timer:
        for _ in range(_READY_LOOKS):
            if not program.running or all((folder / f"{name}{_READY}").exists() for name in names):
                return
            timer.wait(_LOOK_NS)
    raise program.failure("its jobs do not start")


def run_fio(
    host: HostHandle, jobs: Sequence[FioJob], folder: Path, what: str, begin: Callable[[], object]
) -> dict[str, FioResult]:
    """Run jobs in one fio process and return what each did, by its name.

    Args:
        host: Where fio runs.
        jobs: Jobs; those without ``after_all_before`` start at the same time.
        folder: Existing folder for fio's files, removed by the caller.
        what: Workload on whose behalf, for messages.
        begin: Is called when the first jobs are ready; they go on when it returns.

    Raises:
        WorkloadError: fio is missing, died, or did less than was asked.
    """
    file = folder / "jobs.fio"
    file.write_text(job_file(jobs, str(folder / "log")), encoding="ascii")
    argv = ["fio", "--output-format=json", f"--output={folder / 'result.json'}", file.name]
    # Whatever the very first one waits for, there is nothing before it.
    first = [job.name for job in (*jobs[:1], *takewhile(lambda job: not job.after_all_before, jobs[1:]))]
    with (folder / _GO).open("w", encoding="ascii") as gate, ExitStack() as undo:
        fcntl.flock(gate, fcntl.LOCK_EX)
        program = undo.enter_context(Program(host, argv, what, cwd=folder))
        _wait_ready(program, first, folder)
        if program.running:
            begin()
        fcntl.flock(gate, fcntl.LOCK_UN)
        program.wait(_TIMEOUT_S)
        words = program.errors()
    result = folder / "result.json"
    text = result.read_text(encoding="utf-8") if result.exists() else words
    log_kinds = {job.name: "clat" if job.pauses else "lat" for job in jobs}
    found = {}
    for job in parse_result(text, what, host.name):
        name = str(job["jobname"])
        sides = [job.get(side, {}) for side in ("read", "write")]
        ios = sum(int(side.get("total_ios", 0)) for side in sides)
        if not ios:
            raise WorkloadError(f"workload {what}: fio on {host.name}: job {name} did no I/O")
        found[name] = FioResult(
            _read_time(folder / f"{name}.prerun.txt", what),
            _read_time(folder / f"{name}.postrun.txt", what),
            ios,
            sum(int(side.get("io_bytes", 0)) for side in sides),
            read_latency_log(folder / f"log-{name}_{log_kinds.get(name)}.log", what),
        )
    missing = [job.name for job in jobs if job.name not in found]
    if missing:
        raise WorkloadError(f"workload {what}: fio on {host.name} says nothing of job {missing[0]}")
    return found
