"""The native engine: jobs on the host's own kernel in real time, in namespaces of their own.

Each job gets its own network, mount, process, host-name and IPC namespaces, which vanish with its last process, so
nothing that it makes in them can be left behind. Clocks, memory and CPUs are the host's: figures are only as steady
as the host is.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from emulator.engine import firstprogram, hostcheck, process
from emulator.engine.checks import LOG_FILE, check_jobs, hand_over
from emulator.engine.environment import HOST_NAME, NAMESPACE_SYSCTLS, RLIMITS, job_environment
from emulator.engine.follow import ProgressTail, Step
from emulator.engine.interrupts import Interrupts
from emulator.engine.job import Job, JobResult, Observer
from emulator.engine.ledger import Ledger
from emulator.engine.memory import available_bytes, require_memory
from emulator.engine.spawn import spawn
from emulator.errors import EngineError, LimitError, MissingCapability
from emulator.units import NS_PER_S, format_size

NEEDS = ("root", "unshare", "ip", "tc", "netem", "ovs-vswitchd", "ovsdb-server")
"""Capabilities without which shaped, switched networks cannot be built; see `emulator.engine.hostcheck`."""

_LOOK_S = 0.2
_UNSHARE = (
    "unshare",
    *("--net", "--mount", "--pid", "--uts", "--ipc", "--fork"),
    *("--kill-child=KILL", "--propagation", "private"),
)


class NativeEngine:
    """Runs jobs one after the other, as root, in private namespaces of the host's kernel.

    Args:
        needs: Names of the capabilities that the host must have.
        base: Folder for the folders of runs (default: the user's own).
    """

    name = "native"

    def __init__(self, needs: Sequence[str] = NEEDS, base: Path | None = None) -> None:
        self._needs = needs
        self._base = base

    def check(self, memory_bytes: int) -> None:
        """Make sure that the host has what the engine needs; see `emulator.engine.job.Engine`.

        Raises:
            MissingCapability: It has not, with what to do about it.
        """
        for capability in hostcheck.probe():
            if capability.name in self._needs:
                capability.require()
        require_memory(memory_bytes)

    def run(self, jobs: Sequence[Job], observer: Observer) -> list[JobResult]:
        """Run all jobs and return their results in the same order; see `emulator.engine.job.Engine`.

        Raises:
            MissingCapability: The host lacks something; says what and what to do.
            LimitError, EngineError: A job ran into a limit, or its namespaces could not be made.
            EmulatorError: What a job reported before it ended with a non-zero status.
            KeyboardInterrupt: Ctrl-C; everything is cleaned up by then.
        """
        check_jobs(jobs)
        self.check(0)
        results: list[JobResult] = []
        with Interrupts() as interrupts, Ledger(base=self._base) as ledger:
            for number, job in enumerate(jobs):
                if job.out.resolve().is_relative_to("/run"):
                    raise EngineError(
                        f"job '{job.name}': its results folder may not be below /run, which it cannot see"
                    )
                hand_over(job, None)
                namespaces = _Namespaces(job, ledger, number)
                try:
                    result = namespaces.run(observer, interrupts)
                finally:
                    namespaces.end()
                if result is None:
                    break  # interrupted: leaving the context raises
                results.append(result)
        return results


class _Namespaces:
    """One job in its namespaces."""

    def __init__(self, job: Job, ledger: Ledger, number: int) -> None:
        self._job = job
        self._ledger = ledger
        self._folder = ledger.folder / f"n{number}"
        self._log = job.out / LOG_FILE
        self._process: subprocess.Popen[bytes] | None = None
        self._peak_bytes = 0

    def run(self, observer: Observer, interrupts: Interrupts) -> JobResult | None:
        """Run the job to its end; None: a signal came first."""
        job = self._job
        if job.limits.memory_bytes > available_bytes():
            size = format_size(job.limits.memory_bytes)
            raise MissingCapability("memory", f"job '{job.name}' needs {size}: end other programs or give it less")
        started_s = time.monotonic()
        observer.started(job)
        try:
            program = firstprogram.write(self._folder, _configuration(job))
            self._process = spawn([*_UNSHARE, str(program)], self._folder / "printed", {"PATH": os.defpath})
            self._ledger.add_session(self._process.pid)
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"job '{job.name}': cannot start unshare: {error}") from None
        if not self._follow(self._process, observer, interrupts, started_s):
            return None
        wall_s = time.monotonic() - started_s
        record = firstprogram.read_record(self._folder)
        if record is None:
            printed = (self._folder / "printed").read_text(encoding="utf-8", errors="replace")
            said = printed.strip().splitlines()[-1:] or ["unshare gave no reason"]
            raise EngineError(f"job '{job.name}': its namespaces cannot be made: {said[0]}")
        result = firstprogram.conclude(
            job, record, wall_s=wall_s, peak_memory_bytes=self._peak_bytes, log=self._log, clock="time"
        )
        observer.finished(job, result)
        return result

    def _follow(
        self, running: subprocess.Popen[bytes], observer: Observer, interrupts: Interrupts, started_s: float
    ) -> bool:
        """Report progress and check limits until the job's end; return whether it ended by itself."""
        tail, step = ProgressTail(self._job.out), Step()
        handle = os.pidfd_open(running.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(handle, selectors.EVENT_READ)
                selector.register(interrupts, selectors.EVENT_READ)
                while interrupts.received is None:
                    ended = any(key.fd == handle for key, _ in selector.select(_LOOK_S))
                    passed_s = time.monotonic() - started_s
                    step = tail.latest() or step
                    observer.progressed(self._job, int(passed_s * NS_PER_S), step.stage, step.done, step.total)
                    if ended:
                        running.wait()
                        return True
                    self._check_limits(running.pid, passed_s)
        finally:
            os.close(handle)
        return False

    def _check_limits(self, pid: int, passed_s: float) -> None:
        limits = self._job.limits
        used_bytes = process.resident_below_bytes(pid)
        self._peak_bytes = max(self._peak_bytes, used_bytes)
        what = None
        if used_bytes > limits.memory_bytes:
            what = f"{format_size(limits.memory_bytes)} of memory"
        elif passed_s >= limits.wall_s:
            what = f"{limits.wall_s:g} s of real time"
        if what is not None:
            raise LimitError(f"job '{self._job.name}': reached its limit of {what} (log: {self._log})")

    def end(self) -> None:
        """End whatever still runs: with its first process, the kernel ends all others of the namespace."""
        if self._process is not None and self._process.poll() is None:
            process.end_session(self._process.pid)
            self._process.wait()


def _configuration(job: Job) -> dict[str, object]:
    out = str(job.out.resolve())
    return {
        "own_kernel": False,
        "argv": list(job.argv),
        "environment": job_environment(job, out=out),
        "out": out,
        "log": f"{out}/{LOG_FILE}",
        "limit_ns": job.limits.virtual_ns,
        "hostname": HOST_NAME,
        "sysctls": dict(NAMESPACE_SYSCTLS),
        "rlimits": dict(RLIMITS),
    }
