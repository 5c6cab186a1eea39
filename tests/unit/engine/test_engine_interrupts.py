"""Signals are noted while a run cleans up, and act afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from emulator.engine.interrupts import Interrupts


def test_ctrl_c_is_noted_and_raised_at_the_end() -> None:
    """Any number of SIGINT, SIGTERM and SIGHUP leave the body running; the first one counts afterwards."""
    steps: list[object] = []

    def body() -> None:
        with Interrupts() as interrupts:
            steps.append(interrupts.received)
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
            steps.append(os.read(interrupts.fileno(), 1))
            steps.append(interrupts.received)

    with pytest.raises(KeyboardInterrupt):
        body()
    assert steps == [None, b"!", signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_signal_nothing_changes() -> None:
    """Handlers are the same before and after, and an error in the body comes out."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(ZeroDivisionError), Interrupts():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_in_another_thread_it_does_nothing() -> None:
    """Python allows handlers in the main thread only; elsewhere the context is harmless."""
    seen = []

    def body() -> None:
        with Interrupts() as interrupts:
            seen.append(interrupts.received)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [None]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_process_ends_by_the_signal_after_cleaning_up(number: int, repository: Path) -> None:
    """SIGTERM and SIGHUP end the process as they would have, so that a shell sees the right status."""
    code = (
        "import os, sys\nfrom emulator.engine.interrupts import Interrupts\n"
        "with Interrupts():\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    print('cleaned up', flush=True)\n"
        "print('never')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-number, "cleaned up\n", "")


def test_nohup_stays(repository: Path) -> None:
    """A hang-up that the process was told to ignore does not end its run."""
    code = (
        "import os, signal\nfrom emulator.engine.interrupts import Interrupts\n"
        "with Interrupts() as interrupts:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "print(interrupts.received)\n"
    )
    command = ["nohup", sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=repository, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (0, "None\n")
