"""Programs of the project that run beside the experiment in the emulated machine, each with a log and a clean end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from emulator.errors import EmulatorError

STOP_SECONDS = 10
"""Emulated seconds that a program may take to end after SIGTERM, before it is killed."""


class Program:
    """A started program: `stop` ends it, and an early end is noticed by `check`.

    Args:
        name: For messages, for example ``gateway daemon on gw1``.
        start: Starts it with its output going to the given file object's descriptor.
        log: Where its output goes.
        error: Exception type for its failures.
    """

    def __init__(
        self, name: str, start: Callable[[int], subprocess.Popen[str]], log: Path, error: type[EmulatorError]
    ) -> None:
        self.name = name
        self.log = log
        self._error = error
        with log.open("w", encoding="utf-8") as file:
            self._process = start(file.fileno())

    def check(self) -> None:
        """Make sure that it still runs.

        Raises:
            EmulatorError: It ended; the message has its last line.
        """
        status = self._process.poll()
        if status is not None:
            raise self._error(f"{self.name} ended early with status {status}{self._last_line()}")

    def stop(self) -> None:
        """End it, politely first.

        Raises:
            EmulatorError: It had ended before, or ends with a non-zero status.
        """
        self.check()
        self._process.terminate()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._error(f"{self.name} did not end within {STOP_SECONDS} s of SIGTERM") from None
        if status:
            raise self._error(f"{self.name} ended with status {status} on SIGTERM{self._last_line()}")

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _last_line(self) -> str:
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        said = [line for line in lines if line]
        return f": {said[-1]}" if said else ""

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # While another error is on its way, this one's end must not hide it.
        if kind is None:
            self.stop()
        else:
            self.kill()
