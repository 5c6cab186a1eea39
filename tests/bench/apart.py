"""Runs something in a Python process of its own: what it says in seconds, and how much memory it took."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from emulator.errors import EngineError

Figures = dict[str, float]
MEMORY = "peak_gib"
_REPOSITORY = Path(__file__).resolve().parents[2]


def apart(module: str, *arguments: str) -> Figures:
    """The figures that ``python -m module arguments`` printed with `main`.

    Raises:
        EngineError: It failed.
    """
    argv = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=_REPOSITORY, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise EngineError(f"{' '.join(argv[1:])} failed: {said[0]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(jobs: Mapping[str, Callable[..., Figures]]) -> None:
    """Do the job that the first argument names, with the others, and print its figures and the process's memory."""
    name, *arguments = sys.argv[1:]
    figures = jobs[name](*arguments)
    figures[MEMORY] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    sys.stdout.write(json.dumps(figures) + "\n")


def ended_cpu_s() -> float:
    """CPU seconds of all children that have ended: other work on the host changes them less than real time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Watch:
    """A stopwatch."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last time."""
        now = time.perf_counter()
        passed, self._since = now - self._since, now
        return passed
