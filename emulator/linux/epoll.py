"""Waiting for descriptors with a timeout in nanoseconds (`epoll_pwait2(2)`, Linux 5.11): Python's own has milliseconds.

One call waits for sockets and for a time alike, so a loop that does both needs no timer of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
from types import TracebackType
from typing import Any

import numpy as np

from emulator.units import NS_PER_S

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYS_EPOLL_PWAIT2 = 441
_MOST_EVENTS = 4096
_EVENT: np.dtype[Any] = np.dtype(
    [("events", "=u4"), ("data", "=i4"), ("_rest", "=u4")]
    if platform.machine() == "x86_64"
    else [("events", "=u4"), ("_pad", "=u4"), ("data", "=i4"), ("_rest", "=u4")]
)
"""`struct epoll_event`, which is packed on x86-64; of its data, the descriptor."""


class Poller:
    """An epoll instance; a context manager."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._events = np.zeros(_MOST_EVENTS, dtype=_EVENT)
        self._timeout = (ctypes.c_longlong * 2)()

    def register(self, descriptor: int, events: int) -> None:
        """Watch a descriptor."""
        self._epoll.register(descriptor, events)

    def modify(self, descriptor: int, events: int) -> None:
        """Watch a descriptor for something else."""
        self._epoll.modify(descriptor, events)

    def wait(self, timeout_ns: int) -> list[int]:
        """Wait until something happens, or for a time; returns the descriptors, none if the time is over."""
        self._timeout[0], self._timeout[1] = divmod(max(0, timeout_ns), NS_PER_S)
        found = -1
        while found < 0:
            found = _LIBC.syscall(
                _SYS_EPOLL_PWAIT2,
                self._epoll.fileno(),
                ctypes.c_void_p(self._events.ctypes.data),
                _MOST_EVENTS,
                ctypes.byref(self._timeout),
                None,
                0,
            )
            error = ctypes.get_errno()
            if found < 0 and error != errno.EINTR:
                raise OSError(error, os.strerror(error))
        descriptors: list[int] = self._events["data"][:found].tolist()
        return descriptors

    def close(self) -> None:
        """Give the descriptor back."""
        self._epoll.close()

    def __enter__(self) -> Poller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
