"""Collectives among cards over TCP: schedules carried out, checked number by number, and timed as nccl-tests do it."""

from __future__ import annotations

from emulator.workloads.collective.job import run as run_job
from emulator.workloads.collective.measure import run

__all__ = ["run", "run_job"]
