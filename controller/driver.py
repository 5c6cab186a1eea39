"""Drives the core by the clock: gives it events with the time, hands its commands over, and calls it when it asks to.

An unexpected error ends the whole controller (the switches go on forwarding) instead of leaving it half alive.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controller.core import Core
from controller.designs import Plan
from controller.events import Command, Deposed, Elected, Event, Tick
from controller.flows import Program
from controller.green import eventlet
from controller.journal import Entry, Kind, Severity

LOG = logging.getLogger("controller")
_NS = 10**9
_LEAST_PAUSE_S = 0.001


class Driver:
    """The core and its clock.

    Args:
        core: Decides.
        crashed: Called with an error that nobody expected.

    Attributes:
        core: As given.
        execute: Takes the core's commands; to be set before anything happens.
        office_changed: Called after this controller was elected or deposed.
    """

    def __init__(self, core: Core, crashed: Callable[[BaseException], None]) -> None:
        self.core = core
        self.execute: Callable[[Command], None] = _nowhere
        self.office_changed: Callable[[], None] = lambda: None
        self._crashed = crashed
        self._timer: Any = None
        self._changed = eventlet.event.Event()
        core.journal.listen(_log)

    def handle(self, event: Event) -> None:
        """Give the core an event."""
        now_ns = self._now_ns()
        self._take(self.core.handle(event, now_ns))
        if isinstance(event, (Elected, Deposed)):
            self.office_changed()

    def note(self, kind: Kind, message: str, *, severity: Severity = Severity.INFO, **fields: object) -> None:
        """Note something in the journal that does not concern the core."""
        self.core.journal.add(self._now_ns(), kind, message, severity=severity, **fields)

    def declare(self, plan: Plan, layers: Mapping[str, Program], note: str) -> None:
        """Give the core other layers."""
        now_ns = self._now_ns()
        self._take(self.core.declare(plan, layers, note, now_ns))

    def warn(self, message: str) -> None:
        """Have something noted that tenants should look at."""
        self.note(Kind.TENANCY, message, severity=Severity.WARNING)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the core is ready; false if it is not in time."""
        with contextlib.suppress(eventlet.Timeout), eventlet.Timeout(timeout_s):
            while not self.core.ready:
                self._changed.wait()
        return self.core.ready

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Whatever goes wrong inside ends the controller."""
        try:
            yield
        except Exception as error:
            LOG.debug("unexpected error", exc_info=True)
            self._crashed(error)

    def _now_ns(self) -> int:
        now_ns = time.monotonic_ns()
        self.core.journal.epoch_ns = time.time_ns() - now_ns
        return now_ns

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            self.execute(command)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ns = self.core.next_ns()
        if next_ns is not None:
            pause_s = max(_LEAST_PAUSE_S, (next_ns - time.monotonic_ns()) / _NS)
            self._timer = eventlet.spawn_after(pause_s, self._tick)
        changed, self._changed = self._changed, eventlet.event.Event()
        changed.send(None)

    def _tick(self) -> None:
        with self.guarded():
            self._timer = None
            self.handle(Tick())


def _nowhere(_: Command) -> None:
    """There are no switches yet."""


def _log(entry: Entry) -> None:
    LOG.log(logging.WARNING if entry.severity is Severity.WARNING else logging.INFO, "%s", entry.message)
