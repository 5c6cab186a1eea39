"""Wall time of gigabytes of TCP at 100 Gbit/s, MTU 9000, through the ``forward`` daemon in the virtual kernel.

Next to it the same with the kernel's own forwarding, which costs no virtual time, and without anything in the middle:
the difference is the daemon's. Every packet is a true one. The receiver wakes up once a MiB, so that it hardly counts.
Round trips are held against the model too.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from emulator.engine.job import Job
from emulator.engine.virtual import VirtualEngine
from emulator.errors import EngineError
from tests.bench.table import Row, spread
from tests.support.engine_jobs import Silent
from tests.support.gateway_forwarding import COSTLY_BYTES
from tests.support.gateway_run import LIMITS

_REPOSITORY = Path(__file__).resolve().parents[2]
_EXPERIMENTS = {
    "forward_gigabyte": ("forwarding", "through the forward daemon"),
    "kernel_throughput": ("kernel", "through the kernel's forwarding"),
    "direct_throughput": ("direct", "with nothing in the middle"),
}


class _Watch(Silent):
    """Notes when the job said what."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    def progressed(self, job: Job, virtual_ns: int, stage: str, done: int, total: int) -> None:
        """The first time that this stage is told of."""
        self.times.setdefault(stage, time.monotonic())


def _run(folder: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """All experiments in one machine: what they measured, and the wall time of each in s a GB."""
    out = folder / "out"
    out.mkdir()
    argv = (sys.executable, "-m", "tests.support.gateway_guest", *_EXPERIMENTS, "forward_rtt")
    job = Job("gateway", argv, out, limits=LIMITS, environment={"PYTHONPATH": str(_REPOSITORY)})
    watch = _Watch()
    [result] = VirtualEngine(base=folder / "runs").run([job], watch)
    if result.exit_code:
        raise EngineError(f"the experiments ended with exit code {result.exit_code}")
    found: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    failed = [str(one["failed"]) for one in found.values() if "failed" in one]
    if failed:
        raise EngineError(failed[0].strip().splitlines()[-1])
    walls = {}
    for name, (stage, _) in _EXPERIMENTS.items():
        walls[name] = (watch.times[f"{stage} ends"] - watch.times[f"{stage} begins"]) / COSTLY_BYTES * 1e9
    return found, walls


def measure(rounds: int) -> list[Row]:
    """Wall seconds for a gigabyte of each, and how far round trips are from the model."""
    walls: dict[str, list[float]] = {name: [] for name in _EXPERIMENTS}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="icgw-bench-") as folder:
            found, taken = _run(Path(folder))
        for name, wall in taken.items():
            walls[name].append(wall)
    rows = [Row(f"a gigabyte {what}, wall s a GB", spread(walls[name])) for name, (_, what) in _EXPERIMENTS.items()]
    goodput = 8 * COSTLY_BYTES / found["forward_gigabyte"]["virtual_ns"]
    rows.append(Row("goodput through the daemon in virtual time, Gbit/s", spread([goodput])))
    errors = [rtt - one["theory_ns"] for one in found["forward_rtt"]["runs"] for rtt in one["rtt_ns"]]
    rows.append(Row("round trips through the daemon less the model, ns", spread(errors)))
    return rows
