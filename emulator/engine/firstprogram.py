"""The host's side of a machine's first program: writing it into the run's folder, and reading what it left."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from emulator.engine import guest
from emulator.engine.account import Account
from emulator.engine.failure import reported_error
from emulator.engine.job import Job, JobResult
from emulator.errors import EngineError, LimitError
from emulator.units import format_time


def write(folder: Path, configuration: dict[str, Any], account: Account | None = None) -> Path:
    """Write a machine's first program and its instructions.

    Args:
        folder: Folder of the machine; it is made.
        configuration: What to do; see `emulator.engine.guest`.
        account: Who the machine runs as, if not this process's own user.

    Returns:
        The program.
    """
    for made in (folder, folder / "control"):
        made.mkdir(mode=0o700)
        if account is not None:
            os.chown(made, account.uid, account.gid)
    program = folder / "init"
    source = Path(guest.__file__).read_text(encoding="utf-8")
    program.write_text(f"#!{interpreter()} -IS\n{source}\n\nmain({configuration!r})\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def interpreter() -> Path:
    """The Python that runs it: this one, without its virtual environment."""
    return Path(sys.executable).resolve()


def read_record(folder: Path) -> dict[str, str] | None:
    """What a machine's first program left, or None if it came to nothing."""
    try:
        text = (folder / "control" / "ended").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return dict(line.split(" ", 1) for line in text.splitlines())


def conclude(
    job: Job, record: dict[str, str], *, wall_s: float, peak_memory_bytes: int, log: Path, clock: str
) -> JobResult:
    """Turn a record into the job's result.

    Args:
        job: The job.
        record: What the first program left.
        wall_s: Real time that the job took.
        peak_memory_bytes: Largest memory of the machine.
        log: The job's log.
        clock: What the machine's clock shows, for example ``emulated time``.

    Raises:
        EngineError: The machine could not be prepared, or the job failed on a full disk.
        LimitError: The job used up its time.
        EmulatorError: What the job reported before it ended with a non-zero status.
    """
    if "error" in record:
        raise EngineError(f"job '{job.name}': the machine cannot be prepared: {record['error']} (log: {log})")
    if record["limit"] != "0":
        limit = format_time(job.limits.virtual_ns)
        raise LimitError(f"job '{job.name}': reached its limit of {limit} of {clock} (log: {log})")
    exit_code = int(record["exit_code"])
    reported = reported_error(job.out) if exit_code else None
    if reported is not None:
        raise reported
    # A job that cannot write cannot report that either, nor can its log hold it.
    if exit_code and os.statvfs(job.out).f_bavail == 0:
        raise EngineError(f"job '{job.name}': its results folder {job.out} has no space left")
    return JobResult(exit_code, int(record["virtual_ns"]), wall_s, peak_memory_bytes, log)
