"""The page that a running kernel keeps about itself: virtual time, the running task, counters.

The layout is the kernel's (``time-travel-status.h`` in its patches): little endian, one writer; the fields of the
running task are consistent if their sequence number is even and did not change while they were read.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from emulator.engine.account import Account

PAGE_BYTES = 4096
_MAGIC = b"UMLTIME\0"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ")
_COUNTERS = struct.Struct("<6Q")
_TASK = struct.Struct("<III16s")
_COUNTERS_AT = 24
_TASK_AT = 72
_MESSAGE_AT, _MESSAGE_BYTES = 128, 256
_TRIES = 100


class State(IntEnum):
    """What the kernel is doing."""

    BOOTING = 0
    RUNNING = 1
    HALTED = 2
    PANICKED = 3


@dataclass(frozen=True)
class Status:
    """What the page said.

    Attributes:
        state: What the kernel is doing.
        virtual_ns: Virtual time since boot.
        system_calls: System calls of all programs since boot.
        pid: Process that runs now (0: none).
        comm: Its name.
        message: Why the kernel panicked, if it did.
    """

    state: State
    virtual_ns: int
    system_calls: int
    pid: int
    comm: str
    message: str


def _text(raw: bytes) -> str:
    """Text that stays on one line, whatever programs call themselves."""
    text = raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
    return "".join(letter if letter.isprintable() else "?" for letter in text)


class StatusPage:
    """The page as seen from the host.

    Args:
        path: The file; it is made here, because the kernel does not.
        account: Who the kernel runs as, if not this process's own user.
    """

    def __init__(self, path: Path, account: Account | None = None) -> None:
        path.write_bytes(bytes(PAGE_BYTES))
        if account is not None:
            os.chown(path, account.uid, account.gid)
        with path.open("rb") as file:
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES, access=mmap.ACCESS_READ)

    def read(self) -> Status | None:
        """What the page says, or None while there is no kernel that keeps it."""
        magic, version, state, virtual_ns = _HEADER.unpack_from(self._page)
        if magic != _MAGIC or version != _VERSION:
            return None
        pid, comm = self._task()
        message = _text(self._page[_MESSAGE_AT : _MESSAGE_AT + _MESSAGE_BYTES])
        system_calls = _COUNTERS.unpack_from(self._page, _COUNTERS_AT)[2]
        known = State(state) if state in State.__members__.values() else State.RUNNING
        return Status(known, virtual_ns, system_calls, pid, comm, message)

    def _task(self) -> tuple[int, str]:
        for _ in range(_TRIES):
            before, _pid, tgid, comm = _TASK.unpack_from(self._page, _TASK_AT)
            after = _TASK.unpack_from(self._page, _TASK_AT)[0]
            if before == after and before % 2 == 0:
                return tgid, _text(comm)
        return 0, ""

    def close(self) -> None:
        """Give the mapping back."""
        self._page.close()
