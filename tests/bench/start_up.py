"""Wall time from nothing to a network that is up, in the virtual-time kernel: hosts on one switch.

Up means built, shaped, addressed, all ports in the switch, read back, and every host reached by an echo. The program
inside marks the moments by making files in its folder: the machine outside stamps them with its own clock.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from emulator.engine.job import Job, Limits
from emulator.engine.progress import out_folder
from emulator.engine.virtual import VirtualEngine
from emulator.errors import EngineError
from tests.bench.table import Row, spread
from tests.support.engine_jobs import Silent

SIZES = (16, 64, 256)
TARGET_S = 20
"""What 256 hosts may take on two cores; plain Mininet took 91 s in such a kernel."""

_LIMITS = Limits(virtual_ns=600 * 10**9, wall_s=600, memory_bytes=2 << 30)
_MARKS = ("start", "built", "reached", "gone")


def inside(hosts: int) -> None:
    """Build, check and take down; the part that runs in the virtual-time kernel."""
    from emulator.network import build
    from topologies import single

    def mark(name: str) -> None:
        (out_folder() / name).touch()

    network = build(single(hosts=hosts))
    mark("start")
    with network:
        mark("built")
        network.verify()
        mark("reached")
    mark("gone")


def seconds(folder: Path, hosts: int) -> tuple[float, float, float]:
    """Wall seconds to build, to reach all hosts besides, and to take down."""
    out = folder / "out"
    out.mkdir()
    argv = (sys.executable, "-m", "tests.bench.start_up", str(hosts))
    root = str(Path(__file__).resolve().parents[2])
    job = Job(f"start-up-{hosts}", argv, out, limits=_LIMITS, environment={"PYTHONPATH": root})
    [result] = VirtualEngine().run([job], Silent())
    if result.exit_code:
        raise EngineError(f"the start-up of {hosts} hosts failed: see {result.log}")
    start, built, reached, gone = ((out / name).stat().st_mtime for name in _MARKS)
    return built - start, reached - built, gone - reached


def measure(rounds: int) -> list[Row]:
    """Start networks of each size several times."""
    rows = []
    for hosts in SIZES:
        times = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="icgw-bench-") as name:
                times.append(seconds(Path(name), hosts))
        note = f"target {TARGET_S} s" if hosts == max(SIZES) else ""
        rows.append(Row(f"{hosts} hosts on a switch: wall s until up", spread([a + b for a, b, _ in times]), note))
        rows.append(Row(f"{hosts} hosts on a switch: wall s to take down", spread([c for _, _, c in times])))
    return rows


if __name__ == "__main__":
    inside(int(sys.argv[1]))
