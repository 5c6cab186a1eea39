"""Memory of the host: how much there is for another machine, and where its backing file may lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from emulator.errors import MissingCapability
from emulator.units import format_size

_MEMINFO = Path("/proc/meminfo")
_MOUNTS = Path("/proc/self/mounts")
_SHM = Path("/dev/shm")  # noqa: S108 - only nameless files are made there


def available_bytes(meminfo: Path = _MEMINFO) -> int:
    """Memory that programs can still get without swapping, in bytes."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def require_memory(size_bytes: int) -> None:
    """Make sure that the host has memory for a job of this size.

    Raises:
        MissingCapability: It has not.
    """
    free_bytes = available_bytes()
    if size_bytes > free_bytes:
        raise MissingCapability(
            "memory",
            f"{format_size(size_bytes)} are asked for and {format_size(free_bytes)} are free: end other programs or ask"
            " for less",
        )


def memory_folder(size_bytes: int, fallback: Path, candidates: Sequence[Path] = (_SHM,)) -> Path:
    """Choose the folder for the nameless file that backs a machine's memory.

    Args:
        size_bytes: How large it may become.
        fallback: Folder to take when no memory file system is suitable (slower: the host writes it to disk).
        candidates: Folders to look at first.
    """
    kinds = _mounted_kinds()
    for folder in candidates:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue
        executable = not found.f_flag & os.ST_NOEXEC
        if kinds.get(str(folder)) == "tmpfs" and executable and found.f_bavail * found.f_frsize >= size_bytes:
            return folder
    return fallback


def _mounted_kinds() -> dict[str, str]:
    kinds = {}
    for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        _, target, kind, *_ = line.split()
        kinds[target] = kind
    return kinds
