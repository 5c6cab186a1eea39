"""One emulated machine: boots a kernel for a job, watches it, ends it, and says how the job went."""

from __future__ import annotations

import os
import resource
import subprocess
from contextlib import suppress
from pathlib import Path

from emulator.engine import firstprogram, process
from emulator.engine.account import Account
from emulator.engine.checks import LOG_FILE
from emulator.engine.follow import ProgressTail, Step
from emulator.engine.job import Job, JobResult
from emulator.engine.ledger import Ledger
from emulator.engine.spawn import spawn
from emulator.engine.virtual import console
from emulator.engine.virtual.settings import guest_configuration, kernel_command
from emulator.engine.virtual.status import State, Status, StatusPage
from emulator.errors import EngineError, LimitError, StalledError
from emulator.units import format_time


class Machine:
    """A kernel that runs one job. Times are host times in seconds on any monotonic clock, given as *now_s*.

    Args:
        job: What to run.
        ledger: Of the run; the machine gets a folder of its own inside the run's.
        number: Unique among the machines of the run.
        cpu: Host CPU that it is pinned to: a kernel that changes CPUs is several times slower.
        temporary: Folder for the (nameless) file that backs its memory.
        account: Who it runs as, if not this process's own user.
    """

    def __init__(
        self, job: Job, ledger: Ledger, number: int, cpu: int, temporary: Path, account: Account | None
    ) -> None:
        self.job = job
        self.cpu = cpu
        self.log = job.out / LOG_FILE
        self.step = Step()
        self._ledger = ledger
        self._folder = ledger.folder / f"m{number}"
        self._temporary = temporary
        self._account = account
        self._progress = ProgressTail(job.out)
        self._peak_bytes = 0
        self._virtual_ns = 0
        self._moved_s = 0.0
        self._calls = 0
        self._started_s = 0.0
        self._ended_s = 0.0
        self._status: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._handle = -1
        self._page: StatusPage | None = None

    def start(self, kernel: Path, now_s: float, *, seccomp: bool) -> None:
        """Boot the machine.

        Raises:
            EngineError: The kernel cannot be started.
        """
        self._started_s = self._moved_s = now_s
        environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(self._temporary), "HOME": str(self._folder)}
        try:
            firstprogram.write(self._folder, guest_configuration(self.job), self._account)
            self._page = StatusPage(self._folder / "status", self._account)
            command = kernel_command(kernel, self._folder, self.job, seccomp=seccomp)
            self._process = spawn(command, self._folder / "console", environment, cpu=self.cpu, account=self._account)
            self._handle = os.pidfd_open(self._process.pid)
            self._ledger.add_session(self._process.pid)
            self._ledger.add_cpu(self.cpu)
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"job '{self.job.name}': cannot start the kernel {kernel}: {error}") from None

    def fileno(self) -> int:
        """A file descriptor that becomes readable when the kernel has ended."""
        return self._handle

    @property
    def virtual_ns(self) -> int:
        """Emulated time when it was last looked at."""
        return self._virtual_ns

    def claim_bytes(self) -> int:
        """Memory that it has not taken yet, but may."""
        return max(0, self.job.limits.memory_bytes - self._peak_bytes)

    def look(self, now_s: float) -> bool:
        """Take note of progress; return whether there was any."""
        step = self._progress.latest()
        if step is not None:
            self.step = step
        status = self._read_page()
        moved = status is not None and status.virtual_ns != self._virtual_ns
        if status is not None and moved:
            self._virtual_ns = status.virtual_ns
            self._moved_s = now_s
            self._calls = status.system_calls
        if self._process is not None:
            self._peak_bytes = max(self._peak_bytes, process.resident_peak_bytes(self._process.pid))
        return moved or step is not None

    def _read_page(self) -> Status | None:
        return self._page.read() if self._page is not None else None

    def check(self, now_s: float) -> None:
        """Compare with the limits.

        Raises:
            StalledError, LimitError: The machine has to be ended.
        """
        status = self._read_page()
        limits = self.job.limits
        still_s = now_s - self._moved_s
        at = format_time(self._virtual_ns)
        if status is not None and status.state in (State.BOOTING, State.RUNNING) and still_s >= limits.stall_s:
            if status.state is State.BOOTING:
                who = "the kernel does not finish booting"
            elif status.pid == 0:
                who = "nothing runs in the machine, and it waits for something outside of it"
            else:
                # A loop around system calls never computes for that long; without any, it may be either.
                calls = status.system_calls - self._calls
                does = f"busy-waits with {calls} system calls" if calls else "computes or busy-waits"
                who = f"process {status.pid} ({status.comm}) {does} and never sleeps"
            raise StalledError(self._say(f"emulated time has stood still at {at} for {still_s:.0f} s: {who}"))
        if now_s - self._started_s >= limits.wall_s:
            raise LimitError(
                self._say(f"reached its limit of {limits.wall_s:g} s of real time at {at} of emulated time")
            )

    def _say(self, what: str) -> str:
        return f"job '{self.job.name}': {what} (log: {self.log})"

    def has_ended(self, now_s: float) -> bool:
        """Whether the kernel has ended by itself; collects it."""
        if self._process is None or self._status is not None:
            return True
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return False
        # The kernel counts what this process had resident when it forked, too: below that the figure says nothing.
        peak_bytes = usage.ru_maxrss << 10
        if peak_bytes > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10:
            self._peak_bytes = max(self._peak_bytes, peak_bytes)
        self._process.returncode = self._status = os.waitstatus_to_exitcode(status)
        self._ended_s = now_s
        return True

    def result(self) -> JobResult:
        """How the job went, once the kernel has ended.

        Raises:
            EngineError: The machine, rather than the job, failed.
            LimitError: The job used up its emulated time.
            EmulatorError: What the job reported.
        """
        status = self._read_page()
        record = firstprogram.read_record(self._folder)
        if record is None:
            message = status.message if status is not None else ""
            text = self.console()
            what = console.explain_end(text, message, self._status or 0, self.job.limits.memory_bytes)
            self._keep_console()
            raise EngineError(self._say(what))
        if "error" in record:
            self._keep_console()
        return firstprogram.conclude(
            self.job,
            record,
            wall_s=self._ended_s - self._started_s,
            peak_memory_bytes=self._peak_bytes,
            log=self.log,
            clock="emulated time",
        )

    def console(self) -> str:
        """Everything the kernel printed."""
        try:
            return (self._folder / "console").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _keep_console(self) -> None:
        """Add what the kernel printed to the job's log, which outlives the run's folder."""
        lines = console.lines_of(self.console())
        if lines:
            with suppress(OSError), self.log.open("a", encoding="utf-8") as file:
                file.write("".join(f"kernel: {line}\n" for line in lines))

    def kill(self) -> None:
        """End the machine at once and wait until none of its processes is left."""
        if self._process is not None and self._status is None:
            process.end_session(self._process.pid)
            _, status, _ = os.wait4(self._process.pid, 0)
            self._process.returncode = self._status = os.waitstatus_to_exitcode(status)
            self._keep_console()
        self.close()

    def close(self) -> None:
        """Give back what watching it took."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._page is not None:
            self._page.close()
            self._page = None
