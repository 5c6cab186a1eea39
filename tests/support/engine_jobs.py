"""Support for tests that run jobs in real emulated machines: an observer that says nothing, and short-hands."""

from __future__ import annotations

from pathlib import Path

from emulator.engine.job import Job, JobResult, Limits
from emulator.engine.virtual import VirtualEngine

SHORT = Limits(wall_s=120, stall_s=60, memory_bytes=512 << 20)
"""Limits that a healthy test job never comes near."""


class Silent:
    """An observer for whom only the results matter."""

    def started(self, job: Job) -> None:
        """Nothing to say."""

    def progressed(self, job: Job, virtual_ns: int, stage: str, done: int, total: int) -> None:
        """Nothing to say."""

    def finished(self, job: Job, result: JobResult) -> None:
        """Nothing to say."""


def run_shell(script: str, out: Path, base: Path, limits: Limits = SHORT, seed: int = 1) -> tuple[JobResult, str]:
    """Run a shell script in a virtual machine; return the result and the log."""
    out.mkdir(exist_ok=True)
    job = Job("shell", ("/bin/sh", "-c", script), out, seed=seed, limits=limits)
    [result] = VirtualEngine(base=base).run([job], Silent())
    return result, result.log.read_text(encoding="utf-8")
