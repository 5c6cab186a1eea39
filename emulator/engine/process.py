"""What ``/proc`` says about processes, and ending those that are one's own."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_GRACE_S = 10.0


@dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        pid: Its number, which is used again later; with *start_ticks* it is unique until the next boot.
        start_ticks: When it was started, in clock ticks since boot.
        parent: Process that started it, or took it over.
        session: Session that it belongs to: the pid of the process that opened it.
        state: One letter as in ``ps``; ``Z`` has ended and waits for its parent.
    """

    pid: int
    start_ticks: int
    parent: int
    session: int
    state: str


def find(pid: int) -> Process | None:
    """Look a process up, or return None if there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, so split after the last one.
    fields = text.rpartition(")")[2].split()
    return Process(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0])


def is_running(pid: int, start_ticks: int) -> bool:
    """Whether the very process that was started then still runs."""
    process = find(pid)
    return process is not None and process.start_ticks == start_ticks and process.state not in "ZX"


def _all() -> Iterator[Process]:
    """All processes that have not ended."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            process = find(int(entry.name))
            if process is not None and process.state not in "ZX":
                yield process


def session_members(session: int) -> Iterator[Process]:
    """All processes of a session that have not ended."""
    return (process for process in _all() if process.session == session)


def end_session(session: int) -> bool:
    """Kill every process of a session and wait until they have ended.

    Args:
        session: The session's number.

    Returns:
        Whether there was anything to end.
    """
    found = False
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline:
        # Again and again, because a process may start another one before the signal reaches it.
        handles = [handle for member in session_members(session) if (handle := _kill(member.pid)) is not None]
        if not handles:
            return found
        found = True
        for handle in handles:
            with select.epoll() as poll:
                poll.register(handle, select.EPOLLIN)
                poll.poll(max(0.0, deadline - time.monotonic()))
            os.close(handle)
    return found


def _kill(pid: int) -> int | None:
    """Kill a process; return a handle that becomes readable when it has ended, or None if it already has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    return handle


def resident_peak_bytes(pid: int) -> int:
    """The most memory that a process ever had resident, in bytes (0 once it has ended)."""
    return _status_bytes(pid, "VmHWM:")


def resident_below_bytes(pid: int) -> int:
    """Memory that a process and all its descendants have resident now, in bytes; shared pages count for each."""
    children: dict[int, list[int]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process.pid)
    total, left = 0, [pid]
    while left:
        one = left.pop()
        total += _status_bytes(one, "VmRSS:")
        left += children.pop(one, [])
    return total


def _status_bytes(pid: int, key: str) -> int:
    try:
        text = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in text.splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    return 0
