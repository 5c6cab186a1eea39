"""Signals that end a run, noted instead of acted upon, so that clean-up is never cut short."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Context in which Ctrl-C, SIGTERM and SIGHUP are only noted, however often they come.

    When the context is left they act as they would have outside, so a caller sees `KeyboardInterrupt`, or the process
    ends by the signal, once everything is cleaned up. A signal that the process ignores (``nohup``) stays ignored.
    Outside the main thread Python delivers no signals, and this does nothing.

    Attributes:
        received: The first signal that came, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}
        self._read, self._write = -1, -1

    def fileno(self) -> int:
        """A file descriptor that becomes readable when a signal comes."""
        return self._read

    def __enter__(self) -> Interrupts:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        if threading.current_thread() is not threading.main_thread():
            return self
        # SIGINT first: from then on no KeyboardInterrupt can come in between.
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
        with suppress(BlockingIOError):
            os.write(self._write, b"!")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for number in reversed(_SIGNALS):
                if number in self._before:
                    signal.signal(number, self._before[number])
        finally:
            os.close(self._read)
            os.close(self._write)
        if self.received is not None:
            os.kill(os.getpid(), self.received)
            # A handler that returns does not undo that the run was cut short.
            raise KeyboardInterrupt
