"""The contract of an engine: a job is a command with limits and one writable folder; an engine runs jobs.

Inside, the folder is found under the path in the environment variable ``ICGW_OUT``. A job appends JSON lines to
``progress.jsonl`` there (see `emulator.engine.progress`) and, when it fails, leaves ``error.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

OUT_VARIABLE = "ICGW_OUT"


@dataclass(frozen=True)
class Limits:
    """When a job is ended.

    Attributes:
        virtual_ns: Emulated time, at most.
        wall_s: Real time, at most.
        stall_s: Real time for which emulated time may stand still. Some steps compute for ten seconds, which can be
            more than a minute on machines in heavy use.
        memory_bytes: Memory of the emulated machine.
    """

    virtual_ns: int = 600 * 10**9
    wall_s: float = 600.0
    stall_s: float = 180.0
    memory_bytes: int = 2 << 30


@dataclass(frozen=True)
class Job:
    """A command to run in an emulated machine.

    Attributes:
        name: Unique among the jobs that run together; shown in progress.
        argv: Command; paths are those of the host (the emulated machine sees the host's root, read-only underneath).
        out: Existing host folder that is writable inside.
        seed: Seed of all randomness in the machine.
        limits: When it is ended.
        environment: Added to a small fixed environment.
    """

    name: str
    argv: tuple[str, ...]
    out: Path
    seed: int = 1
    limits: Limits = field(default_factory=Limits)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    Attributes:
        exit_code: Of the command.
        virtual_ns: Emulated time that passed, boot included (native: wall time).
        wall_s: Real time that it took.
        peak_memory_bytes: Largest resident memory of the emulated machine's processes together.
        log: File with everything the job and its kernel printed.
    """

    exit_code: int
    virtual_ns: int
    wall_s: float
    peak_memory_bytes: int
    log: Path


class Observer(Protocol):
    """Is told what happens while jobs run. Called from the thread that runs the engine."""

    def started(self, job: Job) -> None:
        """A job's machine starts."""

    def progressed(self, job: Job, virtual_ns: int, stage: str, done: int, total: int) -> None:
        """A job reported progress, or its emulated time moved (at most about five times a second)."""

    def finished(self, job: Job, result: JobResult) -> None:
        """A job ended by itself."""


class Engine(Protocol):
    """Runs jobs, several at a time where the machine allows."""

    name: str

    def check(self, memory_bytes: int) -> None:
        """Make sure that the host has what any run needs, before something of an earlier run is touched.

        Args:
            memory_bytes: Largest memory of a job.

        Raises:
            HostError: Something is missing, with what to do about it.
        """
        ...

    def run(self, jobs: Sequence[Job], observer: Observer) -> list[JobResult]:
        """Run all jobs and return their results in the same order.

        The first failure ends the other jobs too. Whatever was created is removed on every way out, Ctrl-C included.

        Raises:
            StalledError, LimitError, EngineError: A machine did not boot, stalled, or ran into a limit.
            HostError: The host lacks something that the engine needs.
        """
        ...
