"""Who uses a store's file: one controller alone, or several that were told to share it.

The kernel keeps the claim, as a lock on a file beside the store, and drops it with the process, however that ends. So
nothing stale can keep a restart waiting, and a lease in the store (`controller.lease`) is about redundant ones only.
The store itself cannot be locked: SQLite has locks there, which would go with the first close of another descriptor.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time

from controller.tenancy.database import IN_MEMORY
from emulator.errors import ControllerError

_PRIVATE = 0o600
_FLOCK = struct.Struct("@hhqqi4x")
"""``struct flock`` of 64-bit Linux: kind, whence, start, length, process."""
_ROUNDS = 20
_PAUSE_S = 0.05
"""How long one waits for a process that is about to be gone, such as one that was killed a moment ago."""


class InUse(ControllerError):
    """Somebody else has a claim that does not go with the one that is wanted."""


class Claim:
    """A claim on a store's file, from now until it is closed or the process ends.

    Args:
        path: The store's file; ``:memory:`` is one's own anyway.
        shared: Others may claim it as well, if they say so too.

    Raises:
        InUse: Somebody else has a claim that does not go with this one; names the holder and the remedy.
        ControllerError: It cannot be claimed by anybody.
    """

    def __init__(self, path: str, *, shared: bool) -> None:
        self._file: int | None = None
        if path == IN_MEMORY:
            return
        name = f"{os.path.realpath(path)}.lock"
        try:
            self._file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ControllerError(f"{path}: {name} cannot be opened for writing: {reason}") from None
        try:
            _lock(self._file, path, shared)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the claim up. Harmless if done twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _lock(file: int, path: str, shared: bool) -> None:
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    wanted = _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
    for round_ in range(_ROUNDS + 1):
        try:
            fcntl.fcntl(file, fcntl.F_SETLK, wanted)
        except (BlockingIOError, PermissionError):
            found, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, wanted))
        except OSError as error:
            raise ControllerError(f"{path}: cannot be claimed: {error.strerror}") from None
        else:
            return
        if round_ < _ROUNDS and found != fcntl.F_UNLCK:
            time.sleep(_PAUSE_S)
    # A process that this one cannot see, as in another container, has number 0.
    who = f"process {process}" if process > 0 else "a process of another container"
    how = "with --redundant" if found == fcntl.F_RDLCK else "without --redundant"
    raise InUse(
        f"{path} is used by another controller ({who} on {socket.gethostname()}, {how}): "
        "end that one, or give both --redundant"
    )
