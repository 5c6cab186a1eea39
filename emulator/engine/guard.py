"""Cleans up after an engine that was killed outright.

An engine cannot act on SIGKILL. So each run starts this small process, which waits until the engine has ended in
whatever way, and then removes what the run's ledger still names. It needs the standard library only and outlives the
engine by as long as that takes. (A kernel dies with its engine by itself; but a process that it was just starting may
miss that, and files do not go away by themselves.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]


def start_guard(ledger: Path) -> subprocess.Popen[bytes]:
    """Start the guard of a run; it does its work when the returned process's standard input is closed."""
    return subprocess.Popen(
        [sys.executable, "-S", "-m", "emulator.engine.guard", str(ledger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        start_new_session=True,
    )


def main() -> None:
    """Wait for the engine's end, then remove what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    from emulator.engine.ledger import remove_run

    remove_run(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
