"""Runs the gateway's experiments in one emulated machine, from the test's side."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from tests.support.engine_jobs import Silent

LIMITS = Limits(virtual_ns=10**13, wall_s=600, stall_s=120, memory_bytes=1 << 30)
"""Limits that healthy experiments never come near."""


def run_experiments(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run experiments (see `tests.support.gateway_guest`) and return what each measured."""
    out = folder / "out"
    out.mkdir()
    repository = Path(__file__).resolve().parents[2]
    argv = (sys.executable, "-m", "tests.support.gateway_guest", *names)
    job = Job("gateway", argv, out, limits=LIMITS, environment={"PYTHONPATH": str(repository)})
    [result] = VirtualEngine(base=folder / "runs").run([job], Silent())
    log = result.log.read_text(encoding="utf-8")
    assert result.exit_code == 0, f"the experiments ended with exit code {result.exit_code}: {log[-2000:]}"
    measured: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    return measured
