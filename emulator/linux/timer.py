"""Nanosecond timers: sleeping to an absolute time, and the timer slack that would spoil it."""

from __future__ import annotations

import ctypes
import os
import time
from types import TracebackType

from emulator.units import NS_PER_S

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_TIMERSLACK = 29
_TFD_CLOEXEC = 0o2000000
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def reset_timer_slack() -> None:
    """Let the calling thread's sleeps end on time: Linux adds up to 50 us to them by default."""
    _LIBC.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)


class Timer:
    """A `timerfd` on CLOCK_MONOTONIC: blocks its caller until an absolute time, without a busy loop."""

    def __init__(self) -> None:
        self._fd = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, _TFD_CLOEXEC)
        if self._fd < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def fileno(self) -> int:
        """The descriptor, for `select.poll`: readable once the armed time has come."""
        return int(self._fd)

    def arm(self, time_ns: int) -> None:
        """Become readable when CLOCK_MONOTONIC reads at least *time_ns*; at once if it already does."""
        # A value of zero would disarm the timer; one nanosecond is in the past just as well.
        seconds, nanoseconds = divmod(max(time_ns, 1), NS_PER_S)
        setting = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if _LIBC.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(setting), None) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def acknowledge(self) -> None:
        """Block until the armed time has come, and stop being readable."""
        os.read(self._fd, 8)

    def wait_until(self, time_ns: int) -> None:
        """Block until CLOCK_MONOTONIC reads at least *time_ns*; not at all if it already does."""
        self.arm(time_ns)
        self.acknowledge()

    def wait(self, duration_ns: int) -> None:
        """Block for *duration_ns*."""
        self.wait_until(time.monotonic_ns() + duration_ns)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Timer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def realtime_offset_ns() -> int:
    """CLOCK_REALTIME less CLOCK_MONOTONIC, in ns: packet timestamps are on the former, schedules on the latter."""
    best_gap, best = None, 0
    for _ in range(5):
        before = time.monotonic_ns()
        real = time.time_ns()
        gap = time.monotonic_ns() - before
        if best_gap is None or gap < best_gap:
            best_gap, best = gap, real - before - gap // 2
    return best
