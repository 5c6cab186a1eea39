"""The fixed part of a job's environment: the same on every host, whoever runs it."""

from __future__ import annotations

from emulator.engine.job import OUT_VARIABLE, Job


def job_environment(job: Job, *, out: str, home: str, tmp: str) -> dict[str, str]:
    """All environment variables of a job.

    Args:
        job: The job; its own variables come last and may replace the fixed ones.
        out: Where it finds its results folder.
        home: A writable folder without anybody's settings.
        tmp: Folder for temporary files.
    """
    return {
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "TERM": "dumb",
        "TMPDIR": tmp,
        "TZ": "UTC",
        "USER": "root",
        OUT_VARIABLE: out,
        **job.environment,
    }
