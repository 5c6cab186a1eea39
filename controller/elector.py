"""Takes part in the election of the controller that decides, by the lease in the store."""

from __future__ import annotations

import logging
import time

from controller.driver import Driver
from controller.events import Deposed, Elected
from controller.green import eventlet
from controller.lease import LENGTH_NS, Attempt, Election
from controller.tenancy.store import Store
from emulator.errors import ControllerError

LOG = logging.getLogger("controller")
NAME = "controller"
"""Of the lease."""
_NS = 10**9


class Elector:
    """Keeps the lease, or waits for it.

    Args:
        election: Decides what to do.
        store: Has the lease.
        driver: Hears of the outcome.
    """

    def __init__(self, election: Election, store: Store, driver: Driver) -> None:
        self._election = election
        self._store = store
        self._driver = driver
        self._woken = eventlet.event.Event()

    def run(self) -> None:
        """Take part for ever."""
        with self._driver.guarded():
            while True:
                self._round()
                pause_s = max(0, self._election.next_ns(time.monotonic_ns()) - time.monotonic_ns()) / _NS
                with eventlet.Timeout(pause_s, False):
                    self._woken.wait()

    def lost(self) -> None:
        """A switch said that another controller was elected later."""
        if self._election.active:
            self._election.lost(time.monotonic_ns())
            self._deposed("a switch knows a later one")

    def end(self) -> None:
        """Give the lease back, so that the other controller need not wait for its end."""
        if not self._election.active:
            return
        generation, step = self._election.generation, self._election.step(time.monotonic_ns())
        try:
            self._store.leases.release(NAME, self._election.name, generation, step.now_ns)
        except ControllerError as error:
            LOG.warning("the lease is not given back: %s", error)

    def _round(self) -> None:
        election = self._election
        was, generation = election.active, election.generation
        step = election.step(time.monotonic_ns())
        try:
            if step.attempt is Attempt.ACQUIRE:
                lease = self._store.leases.acquire(NAME, election.name, step.now_ns, LENGTH_NS)
                election.answered(lease, time.monotonic_ns())
            else:
                kept = self._store.leases.renew(NAME, election.name, step.generation, step.now_ns, LENGTH_NS)
                if kept is None:
                    election.lost(time.monotonic_ns())
                else:
                    election.answered(kept, time.monotonic_ns())
            # What others declared must be known before anything is done, and is shown meanwhile.
            if not was:
                self._store.reload_if_changed()
        except ControllerError as error:
            LOG.warning("the store cannot be used: %s", error)
            election.answered(None, time.monotonic_ns())
        if election.active and (not was or election.generation != generation):
            self._driver.handle(Elected(election.generation))
        elif was and not election.active:
            self._deposed("its lease ended")
        elif not election.active and election.generation != generation:
            self._deposed(f"{election.holder} decides")

    def _deposed(self, reason: str) -> None:
        self._driver.handle(Deposed(self._election.generation, reason))
