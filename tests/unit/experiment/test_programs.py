"""Programs beside the experiment: an early or unclean end is noticed and said with the program's last words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emulator.errors import GatewayError
from emulator.experiment.processes import Program


def start(tmp_path: Path, code: str) -> Program:
    """A program that runs Python code."""

    def launch(log: int) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, text=True)

    return Program("the thing", launch, tmp_path / "thing.log", GatewayError)


READY = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit({status})); print('up', flush=True)\n"


def wait_for_word(program: Program) -> None:
    """Until the program has printed something, which it does once its handler is installed."""
    while not program.log.read_text(encoding="utf-8"):
        program.check()


def test_a_clean_life(tmp_path: Path) -> None:
    """Started, asked to end, ended with status 0: no word about it."""
    with start(tmp_path, READY.format(status=0) + "signal.pause()") as program:
        wait_for_word(program)
        program.check()


def test_an_early_end(tmp_path: Path) -> None:
    """A program that ends by itself is an error with its status and its last line."""
    program = start(tmp_path, "import sys; print('no such ring'); sys.exit(6)")
    program._process.wait()
    with pytest.raises(GatewayError, match=r"the thing ended early with status 6: no such ring"):
        program.check()


def test_an_unclean_end(tmp_path: Path) -> None:
    """One that fails while it ends is an error too."""
    program = start(tmp_path, READY.format(status=3) + "signal.pause()")
    wait_for_word(program)
    with pytest.raises(GatewayError, match="ended with status 3 on SIGTERM"):
        program.stop()


def test_another_error_stays_the_first(tmp_path: Path) -> None:
    """When the block fails, the program is killed and the block's error goes on."""
    program = start(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()")

    def fail() -> None:
        with program:
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        fail()
    assert program._process.poll() is not None
