"""Fakes for the engine's tests: kernels that are shell scripts, and an observer that remembers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.engine import process
from emulator.engine.job import Job, JobResult
from emulator.engine.ledger import Ledger

# What every fake kernel starts with: $run is the machine's folder on the host, as the real one gets it by init=.
_PREAMBLE = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in
        init=*) run=${argument#init=}; run=${run%/init} ;;
        time-travel-status=*) status=${argument#time-travel-status=} ;;
        seccomp=*) seccomp=${argument#seccomp=} ;;
        random-seed=*) seed=${argument#random-seed=} ;;
        mem=*) memory=${argument#mem=} ;;
    esac
done
leave() { printf 'exit_code %s\\nlimit %s\\nvirtual_ns %s\\n' "$@" > "$run/control/ended"; }
"""


class Recorder:
    """Remembers what an engine said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.progress: list[tuple[str, int, str, int, int]] = []

    def started(self, job: Job) -> None:
        self.events.append(("started", job.name))

    def progressed(self, job: Job, virtual_ns: int, stage: str, done: int, total: int) -> None:
        self.progress.append((job.name, virtual_ns, stage, done, total))

    def finished(self, job: Job, result: JobResult) -> None:
        self.events.append(("finished", job.name))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def fake_kernel(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a kernel out of a few lines of shell."""

    def make(body: str) -> Path:
        path = tmp_path / "linux"
        path.write_text(_PREAMBLE + body, encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Where runs keep their folders, instead of the user's own place."""
    return tmp_path / "runs"


@pytest.fixture
def ledger(base: Path) -> Iterator[Ledger]:
    with Ledger(base=base) as ledger:
        yield ledger


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def gone() -> Callable[[Path], bool]:
    """Whether the process whose number a file holds has ended (its new parent may not have taken note yet)."""

    def has_ended(file: Path) -> bool:
        found = process.find(int(file.read_text()))
        return found is None or found.state in "ZX"

    return has_ended


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Looks at a condition until it holds; fails if it does not for a time that is long on any machine."""

    def look(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            threading.Event().wait(0.001)

    return look
