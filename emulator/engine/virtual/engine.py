"""Runs jobs in emulated machines, side by side: one machine on each CPU, the rest wait."""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from emulator.engine.account import Account, invoking_account
from emulator.engine.checks import check_jobs, hand_over
from emulator.engine.firstprogram import interpreter
from emulator.engine.interrupts import Interrupts
from emulator.engine.job import Job, JobResult, Observer
from emulator.engine.kernelimage import find_kernel
from emulator.engine.ledger import Ledger
from emulator.engine.memory import available_bytes, memory_folder, require_memory
from emulator.engine.virtual import console
from emulator.engine.virtual.machine import Machine
from emulator.errors import MissingCapability
from emulator.units import format_size

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
"""How often a running machine is looked at, in seconds; its end is noticed at once."""


class VirtualEngine:
    """Runs each job in a virtual-time kernel of its own, as the invoking user, leaving nothing on the host.

    Args:
        kernel: The kernel (default: the one that was built for this machine).
        base: Folder for the folders of runs (default: the user's own).
    """

    name = "virtual"

    def __init__(self, kernel: Path | None = None, base: Path | None = None) -> None:
        self._kernel = kernel
        self._base = base

    def check(self, memory_bytes: int) -> None:
        """Make sure that there is a kernel, and memory for a job; see `emulator.engine.job.Engine`.

        Raises:
            MissingCapability: There is not, with what to do about it.
        """
        if self._kernel is None:
            find_kernel()
        require_memory(memory_bytes)

    def run(self, jobs: Sequence[Job], observer: Observer) -> list[JobResult]:
        """Run all jobs and return their results in the same order; see `emulator.engine.job.Engine`.

        Raises:
            StalledError, LimitError, EngineError: A machine did not boot, stalled, or ran into a limit.
            HostError: The host lacks something that the engine needs.
            EmulatorError: What a job reported before it ended with a non-zero status.
            KeyboardInterrupt: Ctrl-C; everything is cleaned up by then.
        """
        account = invoking_account()
        check_jobs(jobs)
        kernel = self._kernel if self._kernel is not None else find_kernel()
        with Interrupts() as interrupts, Ledger(account, self._base) as ledger:
            for job in jobs:
                hand_over(job, account, interpreter())
            pool = _Pool(jobs, observer, kernel, ledger, account)
            try:
                return pool.run(interrupts)
            finally:
                pool.end()


class _Pool:
    """The machines of one run."""

    def __init__(
        self, jobs: Sequence[Job], observer: Observer, kernel: Path, ledger: Ledger, account: Account | None
    ) -> None:
        self._jobs = jobs
        self._observer = observer
        self._kernel = kernel
        self._ledger = ledger
        self._account = account
        self._waiting = deque(enumerate(jobs))
        self._running: dict[int, Machine] = {}
        self._looked_s: dict[int, float] = {}
        self._results: dict[int, JobResult] = {}
        self._free = sorted(os.sched_getaffinity(0))
        self._seccomp = True
        self._machines = 0

    def run(self, interrupts: Interrupts) -> list[JobResult]:
        with selectors.DefaultSelector() as selector:
            selector.register(interrupts, selectors.EVENT_READ)
            while (self._waiting or self._running) and interrupts.received is None:
                self._fill(selector)
                selector.select(_LOOK_S)
                for index in list(self._running):
                    self._attend(index, selector)
        return [self._results[index] for index in sorted(self._results)]

    def _fill(self, selector: selectors.BaseSelector) -> None:
        """Start waiting jobs while there are a CPU and memory for them."""
        while self._waiting and self._free:
            index, job = self._waiting[0]
            if not self._has_memory(job):
                return
            self._waiting.popleft()
            busy = self._ledger.cpus_of_others()
            cpu = min(self._free, key=lambda number: (busy[number], number))
            self._free.remove(cpu)
            folder = memory_folder(job.limits.memory_bytes, self._ledger.folder)
            machine = Machine(job, self._ledger, self._machines, cpu, folder, self._account)
            self._machines += 1
            self._running[index] = machine
            self._observer.started(job)
            machine.start(self._kernel, time.monotonic(), seccomp=self._seccomp)
            selector.register(machine, selectors.EVENT_READ)

    def _has_memory(self, job: Job) -> bool:
        """Whether the host has memory for a job, beyond what the running machines may still claim.

        Raises:
            MissingCapability: It has not, and no machine runs whose end would change that.
        """
        claimed = sum(machine.claim_bytes() for machine in self._running.values())
        free_bytes = available_bytes() - claimed
        if job.limits.memory_bytes <= free_bytes:
            return True
        if self._running:
            return False
        raise MissingCapability(
            "memory",
            f"job '{job.name}' needs {format_size(job.limits.memory_bytes)} and {format_size(free_bytes)} are free:"
            " end other programs or give the job less",
        )

    def _attend(self, index: int, selector: selectors.BaseSelector) -> None:
        """Look at one machine, and deal with its end."""
        machine = self._running[index]
        now_s = time.monotonic()
        if not machine.has_ended(now_s):
            if now_s - self._looked_s.get(index, 0.0) >= _LOOK_S:
                self._looked_s[index] = now_s
                if machine.look(now_s):
                    self._tell(machine)
                machine.check(now_s)
            return
        selector.unregister(machine)
        if self._seccomp and console.refuses_seccomp(machine.console()):
            _log.warning("this host refuses seccomp filters: the emulation falls back to ptrace and is slower")
            self._seccomp = False
            self._waiting.appendleft((index, machine.job))
        else:
            result = machine.result()
            if machine.look(now_s):
                self._tell(machine)
            self._results[index] = result
            self._observer.finished(machine.job, result)
        machine.close()
        del self._running[index]
        self._free.append(machine.cpu)

    def _tell(self, machine: Machine) -> None:
        step = machine.step
        self._observer.progressed(machine.job, machine.virtual_ns, step.stage, step.done, step.total)

    def end(self) -> None:
        """End whatever still runs."""
        for machine in self._running.values():
            machine.kill()
