"""Waiting: epoll sets, and signals as a readable descriptor. The loop never polls: it sleeps until something happens.

There are two sets. *Idle* is waited on while no frame is held, *holding* while some are; a descriptor can be in both.
So a forwarder that holds frames is woken by its timer, its control socket and signals, but not by each arriving frame.
"""

from __future__ import annotations

import contextlib
import enum
import select
import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import ClassVar

Handler = Callable[[int], None]
"""Is called with the epoll event mask."""


class When(enum.Flag):
    """When a descriptor is waited for."""

    IDLE = enum.auto()
    HOLDING = enum.auto()
    ALWAYS = IDLE | HOLDING


class Loop:
    """Two epoll sets and the handlers of their descriptors."""

    def __init__(self) -> None:
        self._sets = {When.IDLE: select.epoll(), When.HOLDING: select.epoll()}
        self._handlers: dict[int, Handler] = {}
        self._when: dict[int, When] = {}
        self.wait_idle = self._sets[When.IDLE].poll
        self.wait_holding = self._sets[When.HOLDING].poll

    def add(self, fd: int, handler: Handler, events: int = select.EPOLLIN, when: When = When.ALWAYS) -> None:
        """Wait for events of a descriptor from now on."""
        for key, epoll in self._sets.items():
            if key in when:
                epoll.register(fd, events)
        self._handlers[fd] = handler
        self._when[fd] = when

    def modify(self, fd: int, events: int) -> None:
        """Wait for other events of a descriptor."""
        for key, epoll in self._sets.items():
            if key in self._when[fd]:
                epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Wait for it no more; call this before closing it."""
        for key, epoll in self._sets.items():
            if key in self._when[fd]:
                epoll.unregister(fd)
        del self._handlers[fd], self._when[fd]

    def discard(self, fd: int) -> None:
        """The same, if it is waited for at all."""
        if fd in self._handlers:
            self.remove(fd)

    def dispatch(self, events: Sequence[tuple[int, int]]) -> None:
        """Call the handlers of what a wait returned.

        A handler may remove others and add new ones, even under the number of a descriptor that it closed: only who was
        waited for is called.
        """
        found = [(fd, mask, self._handlers.get(fd)) for fd, mask in events]
        for fd, mask, handler in found:
            if handler is not None and self._handlers.get(fd) is handler:
                handler(mask)

    def close(self) -> None:
        """Close both sets."""
        for epoll in self._sets.values():
            epoll.close()


class HeldSignals:
    """Keeps SIGTERM, SIGINT and SIGHUP waiting while a daemon is being set up and taken down.

    Whoever enters `StopSignals` within gets those that came before. What comes when that was left changes nothing: the
    daemon is about to end. Whoever has SIGHUP ignored, as by ``nohup``, keeps it so.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    entered: ClassVar[HeldSignals | None] = None
    """The one that is in force."""

    def __enter__(self) -> HeldSignals:
        """Let them wait. Masking them would not do: libraries have threads that would get them."""
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = [
            (number, signal.signal(number, _ignore))
            for number in self._SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        ]
        self._outer, HeldSignals.entered = HeldSignals.entered, self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget those that wait, and give the signals back."""
        HeldSignals.entered = self._outer
        for number, handler in self._before:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self.reader.close()
        self._writer.close()


class StopSignals:
    """The signals that end a daemon as a readable descriptor, while the context is entered.

    Args:
        loop: Where to wait.
        stop: Is called once for each signal, from the loop and never in between.
    """

    def __init__(self, loop: Loop, stop: Callable[[], None]) -> None:
        self._loop = loop
        self._stop = stop
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> StopSignals:
        """Take the signals over."""
        self._reader = (HeldSignals.entered or self._stack.enter_context(HeldSignals())).reader
        self._loop.add(self._reader.fileno(), self._read)
        return self

    def _read(self, _events: int) -> None:
        for _ in self._reader.recv(64):
            self._stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back; if they were held before, those that nobody looked at wait again."""
        self._loop.remove(self._reader.fileno())
        self._stack.close()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The wake-up descriptor tells the loop; a handler must exist so that Python writes to it."""
