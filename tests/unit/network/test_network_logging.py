"""Mininet's import does not change how everything else logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_loggers_made_after_mininet_still_reach_handlers(repository: Path) -> None:
    """A logger that is first asked for after Mininet was imported passes its warnings on to the root's handlers."""
    code = """
import logging, sys
import emulator.network.mininet_view, topologies.mininet_topo
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter("seen: %(message)s"))
logging.getLogger().addHandler(handler)
logging.getLogger("made.later").warning("a word")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout == "seen: a word\n"
