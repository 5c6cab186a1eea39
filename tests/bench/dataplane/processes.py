"""Processes of the device under test: run on its CPU while a block lasts."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError
from tests.bench.dataplane.bed import Bench
from tests.bench.dataplane.interrupts import shielded

REPOSITORY = Path(__file__).resolve().parents[3]
_READY_S = 30


@contextmanager
def started(
    bench: Bench, argv: Sequence[str], ready: Callable[[subprocess.Popen[str]], bool], **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run a process of the device under test, on its CPU, from when it is ready until the block ends."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **options.pop("env", {})}
    process = None
    try:
        with shielded():
            process = bench.bed.gw.popen(
                argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=REPOSITORY, start_new_session=True, **options,
            )  # fmt: skip
        if not ready(process):
            said = (process.communicate()[1] or "it said nothing").strip().splitlines()[-1]
            raise GatewayError(f"{Path(argv[0]).name} does not run: {said}")
        bench.own(process.pid)
        yield process
    finally:
        if process is not None:
            with shielded():
                bench.disown(process.pid)
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_READY_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], is_so: Callable[[], bool]) -> bool:
    """Wait until something is so; False: the process ended, or it never was."""
    ended = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        for _ in range(_READY_S * 100):
            if is_so():
                return True
            if poll.poll(10):
                return False
        process.kill()
        return False
    finally:
        os.close(ended)


def run_tool(*argv: str) -> None:
    """Run a command to its end.

    Raises:
        GatewayError: It failed.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GatewayError(f"{' '.join(argv)}: {done.stderr.strip()}")
