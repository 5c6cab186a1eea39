"""Timers with nanoseconds: a timerfd on an absolute time, and the process's timer slack.

Python's own select, poll and epoll take micro- or milliseconds and a relative time, for which the clock would have to
be read; in virtual time each reading moves the clock. A timerfd takes the absolute nanosecond.
"""

from __future__ import annotations

import ctypes
import errno
import os

from emulator.errors import GatewayError

CLOCK_REALTIME = 0
CLOCK_MONOTONIC = 1

_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2
_PR_SET_TIMERSLACK = 29
_NS_PER_S = 1_000_000_000


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)
_settime = _libc.timerfd_settime


def use_exact_timers() -> None:
    """Ask for 1 ns of timer slack instead of 50 us, for this thread and those it starts later."""
    if _libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0) != 0:
        raise GatewayError(f"cannot set the timer slack: {os.strerror(ctypes.get_errno())}")


class Timer:
    """A one-shot timer that makes its descriptor readable at an absolute time.

    It need not be read: arming it again clears it.

    Args:
        clock: `CLOCK_REALTIME` or `CLOCK_MONOTONIC`.
    """

    def __init__(self, clock: int) -> None:
        self._flags = _TFD_TIMER_ABSTIME
        if clock == CLOCK_REALTIME:
            self._flags |= _TFD_TIMER_CANCEL_ON_SET
        self._fd: int = _libc.timerfd_create(clock, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            raise GatewayError(f"cannot make a timer: {os.strerror(ctypes.get_errno())}")
        self._spec = _Itimerspec()
        self._value = self._spec.value
        self._reference = ctypes.byref(self._spec)

    def fileno(self) -> int:
        """For epoll."""
        return self._fd

    def arm(self, time_ns: int) -> bool:
        """Let the timer go off at an absolute time (at once, if that is past).

        Returns:
            False if the clock was set since the timer was armed before; it is armed all the same.
        """
        value = self._value
        # A time of zero would disarm it.
        value.seconds, value.nanoseconds = divmod(time_ns if time_ns > 0 else 1, _NS_PER_S)
        if _settime(self._fd, self._flags, self._reference, None) == 0:
            return True
        code = ctypes.get_errno()
        if code == errno.ECANCELED:
            return False
        raise GatewayError(f"cannot arm a timer: {os.strerror(code)}")

    def disarm(self) -> None:
        """Let it not go off, and make its descriptor not readable."""
        self._value.seconds = self._value.nanoseconds = 0
        _settime(self._fd, self._flags, self._reference, None)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
