"""Cleans up after an engine that was killed outright.

An engine cannot act on SIGKILL. So each run starts this small process, which waits until the engine has ended in
whatever way, and then removes what the run's ledger still names. (A kernel dies with its engine by itself; but a
process that it was just starting may miss that, and files do not go away by themselves.)

Started as a program: ``guard.py <repository> <ledger>``, with the engine's end as the end of standard input.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Wait for the engine's end, then remove what it left."""
    repository, ledger = sys.argv[1:]
    while os.read(0, 4096):
        pass
    # After most runs there is nothing to do, and what removes things takes time to import.
    if os.path.lexists(ledger):
        sys.path.insert(0, repository)
        from pathlib import Path

        from emulator.engine.ledger import remove_run

        remove_run(Path(ledger))


if __name__ == "__main__":
    main()
