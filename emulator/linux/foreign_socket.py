"""Options of sockets that belong to another process, by way of `pidfd_getfd(2)` (Linux 5.6)."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYS_PIDFD_GETFD = 438


def find_descriptor(pid: int, inode: int) -> int | None:
    """The number under which a process has the socket with the given inode open; None: it does not."""
    wanted = f"socket:[{inode}]"
    folder = Path(f"/proc/{pid}/fd")
    try:
        for entry in folder.iterdir():
            if str(entry.readlink()) == wanted:
                return int(entry.name)
    except OSError:
        # The process is gone, has just closed a descriptor, or is not ours to look at.
        return None
    return None


def set_receive_low_water(pid: int, inode: int, size_bytes: int) -> bool:
    """Let a process's TCP socket become readable only when this much has arrived; whether that was possible.

    A reader of large blocks is then woken once a block instead of once a packet. What arrives, and when, is the same.
    """
    number = find_descriptor(pid, inode)
    if number is None:
        return False
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        descriptor = _LIBC.syscall(_SYS_PIDFD_GETFD, process, number, 0)
    finally:
        os.close(process)
    if descriptor < 0:
        return False
    with socket.socket(fileno=descriptor) as copy:
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)
    return True
