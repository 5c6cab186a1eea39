"""Whether the kernel's clock stands still while anything computes."""

from __future__ import annotations

from pathlib import Path

_COMMAND_LINE = Path("/proc/cmdline")


def clock_is_virtual(command_line: Path = _COMMAND_LINE) -> bool:
    """Whether this kernel was told to run in virtual time, which its command line says."""
    try:
        words = command_line.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return False
    return any(word == "time-travel" or word.startswith("time-travel=") for word in words)
