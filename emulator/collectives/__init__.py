"""Collective communication as data: who sends which part of the buffer to whom, in which step, and what becomes of it.

A `Schedule` is made by a pure function of the number of ranks or the shape of a torus. `check` proves that it computes
what its collective promises; `cost` predicts its time on a fabric; an executor elsewhere carries it out.

This package knows no sockets, no clock and no topology functions: a fabric and its routes are given to it.
"""

from __future__ import annotations

from emulator.collectives.catalogue import SCHEDULES, build, fits
from emulator.collectives.proof import Proof, check
from emulator.collectives.schedule import Collective, Schedule, Step

__all__ = ["SCHEDULES", "Collective", "Proof", "Schedule", "Step", "build", "check", "fits"]
