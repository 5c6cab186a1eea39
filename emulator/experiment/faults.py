"""Carries out the faults of workloads that start together, each at its moment, and mends everything afterwards."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from emulator.errors import EmulatorError
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model.fault import Action, Fault, Happened
from emulator.network import Network

_log = logging.getLogger(__name__)

MOST_LATE_NS = 200_000
"""A fault that comes later than this is warned of."""


class FaultDriver:
    """A thread that breaks and mends a network by the clock; a context manager.

    Args:
        network: The network.
        faults: What to do, in order of time.
        repair: Sends packets around what is broken, in a network whose nodes forward for each other.
        detection_ns: When it is called, counted from each fault; None: not while workloads run. Afterwards it is
            called all the same, so that the next ones find routes as they were.
    """

    def __init__(
        self,
        network: Network,
        faults: Sequence[Fault],
        repair: Callable[[], object] | None = None,
        detection_ns: int | None = None,
    ) -> None:
        self.faults = tuple(faults)
        self._network = network
        self._do: dict[Action, Callable[[str], None]] = {
            Action.CUT: network.cut,
            Action.SILENCE: network.silence,
            Action.RESTORE: network.restore,
            Action.STOP: network.stop_switch,
            Action.START: network.start_switch,
        }
        self._repair = repair
        self._detection_ns = detection_ns if repair is not None else None
        self._happened: list[Happened] = []
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._timer = Timer()
        self._start_ns = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)

    def begin(self, start_ns: int) -> None:
        """Count the faults' times from this moment (CLOCK_MONOTONIC)."""
        self._start_ns = start_ns
        if self.faults:
            self._thread.start()

    def happened(self) -> tuple[Happened, ...]:
        """The faults so far, in order."""
        return tuple(self._happened)

    def _run(self) -> None:
        try:
            reset_timer_slack()
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.register(self._timer, select.POLLIN)
            waiting, looks_ns = deque(self.faults), deque[int]()
            while waiting or looks_ns:
                # A fault at the moment of a look comes first: the look sees it.
                fault = waiting[0] if waiting else None
                if fault is not None and looks_ns and looks_ns[0] < self._start_ns + fault.at_ns:
                    fault = None
                self._timer.arm(looks_ns[0] if fault is None else self._start_ns + fault.at_ns)
                if any(descriptor == self._wake for descriptor, _event in poll.poll()):
                    return
                self._timer.acknowledge()
                if fault is None:
                    looks_ns.popleft()
                    if self._repair is not None:
                        self._repair()
                    continue
                waiting.popleft()
                at_ns = self._strike(fault)
                if self._detection_ns is not None:
                    looks_ns.append(at_ns + self._detection_ns)
        except Exception as error:  # noqa: BLE001 - raised again in the thread that ends this one
            self._error = error

    def _strike(self, fault: Fault) -> int:
        """Carry a fault out; returns when."""
        at_ns = time.monotonic_ns()
        self._do[fault.action](fault.target)
        self._happened.append(Happened(fault, at_ns, time.monotonic_ns()))
        late_ns = at_ns - self._start_ns - fault.at_ns
        if late_ns > MOST_LATE_NS:
            _log.warning("'%s' came %d ns late: a program keeps the processor busy", fault.title, late_ns)
        return at_ns

    def close(self) -> None:
        """End, and mend what is still broken.

        Raises:
            EmulatorError: A fault could not be carried out, or something could not be mended.
        """
        if self._thread.ident is not None:
            os.eventfd_write(self._wake, 1)
            self._thread.join()
        self._timer.close()
        os.close(self._wake)
        missed = len(self.faults) - len(self._happened)
        if self._error is None and missed:
            first = self.faults[len(self._happened)]
            _log.warning(
                "%d fault%s not carried out, from '%s' at %d ns on: %s had ended",
                missed, " was" if missed == 1 else "s were", first.title, first.at_ns, first.during,
            )  # fmt: skip
        try:
            self._network.mend()
            if self._repair is not None and self._happened:
                self._repair()
        except EmulatorError as error:
            self._error = self._error or error
        if self._error is not None:
            raise self._error

    def __enter__(self) -> FaultDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except EmulatorError as second:
            error.__context__ = second  # beside the first, never instead of it
