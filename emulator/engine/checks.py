"""Checks of jobs before any of them starts, and preparing their results folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from emulator.engine.account import Account
from emulator.engine.job import Job
from emulator.engine.progress import ERROR_FILE, PROGRESS_FILE
from emulator.errors import EngineError, HostError

LOG_FILE = "log.txt"
_LEAST_MEMORY_BYTES = 64 << 20


def check_jobs(jobs: Sequence[Job]) -> None:
    """Refuse jobs that cannot be run together.

    Raises:
        EngineError: Two jobs share a name or a folder, a folder is missing, a command is empty, a limit is impossible.
    """
    for what, values in (("name", [job.name for job in jobs]), ("folder", [str(job.out.resolve()) for job in jobs])):
        for value, count in Counter(values).items():
            if count > 1:
                raise EngineError(f"{count} jobs have the same {what}: {value}")
    for job in jobs:
        limits = job.limits
        if not job.argv:
            raise EngineError(f"job '{job.name}' has no command")
        if not job.out.is_dir():
            raise EngineError(f"job '{job.name}': its results folder {job.out} does not exist")
        if job.seed < 0:
            raise EngineError(f"job '{job.name}': its seed {job.seed} is negative")
        if min(limits.virtual_ns, limits.wall_s, limits.stall_s) <= 0:
            raise EngineError(f"job '{job.name}': its limits on time must be above zero")
        if limits.memory_bytes < _LEAST_MEMORY_BYTES:
            raise EngineError(f"job '{job.name}': {limits.memory_bytes} bytes of memory are less than a kernel needs")


def hand_over(job: Job, account: Account | None, interpreter: Path | None = None) -> None:
    """Make a job's results folder ready: no traces of an earlier run in it, and the right owner.

    Args:
        job: The job.
        account: Who the job runs as, if not this process's own user; the folder becomes theirs.
        interpreter: A program that this user must be able to run.

    Raises:
        HostError: The user cannot write there, or cannot run the interpreter.
    """
    for name in (LOG_FILE, PROGRESS_FILE, ERROR_FILE):
        with suppress(FileNotFoundError):
            (job.out / name).unlink()
    if account is not None:
        if job.out.stat().st_uid != account.uid:
            os.chown(job.out, account.uid, account.gid)
        if interpreter is not None and not account.may("x", interpreter):
            raise HostError(f"user {account.uid} cannot run {interpreter}: use a Python that every user can run")
    may_write = account.may("w", job.out) if account is not None else os.access(job.out, os.W_OK | os.X_OK)
    if not may_write:
        who = f"user {account.uid if account is not None else os.geteuid()}"
        raise HostError(f"job '{job.name}': {who} cannot write to its results folder {job.out}")
