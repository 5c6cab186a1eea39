"""A thread that does something at fixed times until it is told to stop, and hands over what went wrong."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from emulator.linux.timer import Timer, reset_timer_slack


class Worker:
    """Calls *work* now and then after each interval that *work* returns, in ns.

    It sleeps on a nanosecond timer, never in a loop, and ends at once when told to.

    Args:
        name: Of the thread.
        work: What to do; returns the time until the next call.
    """

    def __init__(self, name: str, work: Callable[[], int]) -> None:
        self._work = work
        self._timer = Timer()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        try:
            reset_timer_slack()
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.register(self._timer, select.POLLIN)
            due_ns = time.monotonic_ns()
            while True:
                due_ns += self._work()
                self._timer.arm(due_ns)
                if any(descriptor == self._wake for descriptor, _event in poll.poll()):
                    return
                self._timer.acknowledge()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that stops this one
            self._error = error

    def stop(self) -> BaseException | None:
        """End, and return what went wrong, if anything did."""
        if self._thread.ident is not None:
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        self._timer.close()
        os.close(self._wake)
        return self._error
