"""Programs that workloads run on hosts: found or missed with one clear line, ended on every way out."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from emulator.engine.host import HostHandle
from emulator.errors import CommandError, MissingCapability, WorkloadError
from emulator.model.workload import Workload

_PACKAGES = {
    "fio": "fio",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "ping": "iputils-ping",
    "tc": "iproute2",
}
"""Debian package of each program, for the remedy in the message."""

_NEEDED = {
    "ping": ("ping",),
    "tcp": ("iperf3",),
    "probe": ("ip", "tc"),
    "nvme": ("fio",),
    "checkpoint": ("fio",),
}
"""Programs without which a kind of workload cannot run."""

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LONGEST_SAYING = 300
_PATIENCE_S = 5.0


def check_programs(workloads: Iterable[Workload]) -> None:
    """Make sure that the programs of all workloads are installed, before any of them runs.

    Raises:
        MissingCapability: One is not; names the workload and the package.
    """
    for workload in workloads:
        for program in _NEEDED.get(workload.kind, ()):
            if not _installed(program):
                remedy = f"workload {workload.name} needs it, install the package {_PACKAGES[program]}"
                raise MissingCapability(program, remedy)


def require(program: str, what: str) -> None:
    """Make sure that a program is installed.

    Raises:
        WorkloadError: It is not; names the package.
    """
    if not _installed(program):
        package = _PACKAGES.get(program, program)
        raise WorkloadError(f"workload {what}: the program '{program}' is missing: install the package {package}")


def _installed(program: str) -> bool:
    return shutil.which(program) is not None or shutil.which(program, path=_SYSTEM_PATH) is not None


def last_words(text: str) -> str:
    """The last line that says something, shortened; what a failing program wants known is usually there."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_SAYING] if lines else "it said nothing"


def run_program(host: HostHandle, argv: Sequence[str], what: str) -> str:
    """Run a program on a host to its end and return what it printed.

    Args:
        host: Where.
        argv: The program and its arguments.
        what: Workload on whose behalf, for messages.

    Raises:
        WorkloadError: It is missing, or it failed: names the program, the host and its last words.
    """
    require(argv[0], what)
    try:
        return host.run(list(argv)).stdout or ""
    except CommandError as error:
        said = last_words(error.stderr)
        raise WorkloadError(
            f"workload {what}: {argv[0]} on {host.name} ended with status {error.returncode}: {said}"
        ) from error


class Program:
    """A program running on a host, its output in temporary files so that it can never block on a full pipe.

    A context manager: on the way out the program is asked to end, then killed.

    Args:
        host: Where.
        argv: The program and its arguments.
        what: Workload on whose behalf, for messages.
        cwd: Folder in which it runs.
    """

    def __init__(self, host: HostHandle, argv: Sequence[str], what: str, cwd: Path | None = None) -> None:
        require(argv[0], what)
        self.host, self.what = host, what
        self._name = argv[0]
        # Closed by __exit__, as the program itself is ended there.
        self._out: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._err: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        try:
            self.process: subprocess.Popen[str] = host.popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, cwd=cwd
            )
        except (OSError, CommandError) as error:
            self._out.close()
            self._err.close()
            raise WorkloadError(f"workload {what}: cannot start {self._name} on {host.name}: {error}") from error

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def output(self) -> str:
        """What it printed so far."""
        self._out.seek(0)
        return self._out.read()

    def errors(self) -> str:
        """What it wrote to its standard error so far."""
        self._err.seek(0)
        return self._err.read()

    def failure(self, said: str | None = None) -> WorkloadError:
        """The error that tells how it ended; *said* replaces the last line of its own output."""
        code = self.process.poll()
        end = "is still running" if code is None else f"ended with status {code}" if code else "failed"
        if code is not None and code < 0:
            end = f"was killed by {signal.Signals(-code).name}"
        words = said or last_words(self.errors() or self.output())
        return WorkloadError(f"workload {self.what}: {self._name} on {self.host.name} {end}: {words}")

    def wait(self, timeout_s: float) -> str:
        """Wait for its end and return what it printed.

        Raises:
            WorkloadError: It failed, or still runs after *timeout_s*.
        """
        try:
            code = self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"not done after {timeout_s:g} s") from None
        if code != 0:
            raise self.failure()
        return self.output()

    def end(self, first: signal.Signals = signal.SIGTERM) -> None:
        """End it now if it still runs, gently at first."""
        for number in (first, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            self.process.send_signal(number)
            # One that is stopped would not notice.
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                continue

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._out.close()
        self._err.close()
