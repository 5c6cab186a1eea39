"""Progress for people: one live line a cell on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from emulator.engine.job import Job, JobResult
from emulator.units import NS_PER_S


class Output(Console):
    """Standard output for figures; a reader that goes away is left to the caller instead of ending the process."""

    def on_broken_pipe(self) -> None:
        """Raise what rich would turn into an exit."""
        raise BrokenPipeError


def say(text: str) -> None:
    """Print text; if nobody reads it any more, that does not change how the command ends."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Let what is printed from now on, and what is still in the buffer, go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ConsoleObserver:
    """Shows what an engine's jobs do.

    Args:
        quiet: Show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live = self._console.is_terminal and not quiet
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<34}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[stage]:<36}"),
            TextColumn("{task.fields[virtual]:>14} emulated"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._live,
        )
        self._tasks: dict[str, TaskID] = {}
        self._stages: dict[str, str] = {}

    def __enter__(self) -> ConsoleObserver:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        sys.stderr.flush()

    def note(self, text: str) -> None:
        """Print one line above the live display."""
        self._console.print(text, highlight=False, markup=False)

    def started(self, job: Job) -> None:
        """A machine starts."""
        if self._live:
            self._tasks[job.name] = self._progress.add_task(job.name, total=None, stage="starting", virtual="0 s")
        else:
            self.note(f"{job.name}: starting")

    def progressed(self, job: Job, virtual_ns: int, stage: str, done: int, total: int) -> None:
        """A stage changed or time moved."""
        if self._live and job.name in self._tasks:
            self._progress.update(
                self._tasks[job.name],
                completed=done,
                total=total or None,
                stage=stage[:36],
                virtual=_seconds(virtual_ns),
            )
        elif stage and self._stages.get(job.name) != stage:
            self._stages[job.name] = stage
            self.note(f"{job.name}: {stage} ({_seconds(virtual_ns)} emulated)")

    def finished(self, job: Job, result: JobResult) -> None:
        """A machine halted."""
        if self._live and job.name in self._tasks:
            self._progress.update(self._tasks[job.name], completed=1, total=1, stage="done")
            self._progress.stop_task(self._tasks[job.name])
        else:
            self.note(f"{job.name}: done, {_seconds(result.virtual_ns)} emulated in {result.wall_s:.1f} s")


def _seconds(virtual_ns: int) -> str:
    return f"{virtual_ns / NS_PER_S:.6f} s"
