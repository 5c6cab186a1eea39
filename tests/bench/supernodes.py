"""Wall time and memory of supernodes in the virtual-time kernel: built, shaped, routed, read back, verified, removed.

Verified means that each card answered its antipode and eight random others. The program inside marks the moments by
making files in its folder: outside, the time and what the machine has used of the CPU are noted. On a host that does
other things, too, only the latter says whether the effort for a card grows. Removed means that the kernel is done.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from emulator.engine import process
from emulator.engine.job import Job, Limits
from emulator.engine.memory import available_bytes
from emulator.engine.progress import out_folder
from emulator.engine.virtual import VirtualEngine
from emulator.errors import EngineError
from tests.bench.apart import ended_cpu_s
from tests.bench.table import Row, spread
from tests.support.engine_jobs import Silent

_MARKS = ("start", "built", "verified", "gone")
_PARTS = ("build", "verify", "take down")
"""What happens between two marks."""

_LOOK_S = 0.01
_TICKS = os.sysconf("SC_CLK_TCK")
_REMOVAL_S = 60
"""Emulated seconds that the kernel is given to remove what was let go of: it works while the program sleeps."""

_REPEATED_CARDS = 1000
"""Larger ones are built once, whatever the number of rounds."""


@dataclass(frozen=True)
class Size:
    """A supernode to build.

    Attributes:
        topology: Name of its function.
        parameters: Of that.
        target_s: Most wall seconds, boot included; 0: none is set.
        target_gib: Most memory.
    """

    topology: str
    parameters: dict[str, int | str]
    target_s: int
    target_gib: float

    @property
    def name(self) -> str:
        """Its name in the table."""
        return " ".join([self.topology, *(f"{key}={value}" for key, value in self.parameters.items())])


def _cube(edge: int, target_s: int, target_gib: float) -> Size:
    return Size("torus3d", dict.fromkeys("xyz", edge), target_s, target_gib)


SIZES = (
    _cube(4, 0, 2),
    _cube(8, 20, 2),
    _cube(10, 0, 3),
    Size("cascade", {"supernodes": 8, "shape": "8x8x8"}, 150, 6),
    _cube(16, 150, 6),
    _cube(22, 480, 16),
)


@dataclass(frozen=True)
class Measured:
    """One build.

    Attributes:
        cards: How many there are.
        wall_ms: Of real time for a card, by part; ``all in`` with booting.
        cpu_ms: Of CPU time likewise.
        wall_s: Of real time, all in.
        peak_gib: Most memory.
    """

    cards: int
    wall_ms: dict[str, float]
    cpu_ms: dict[str, float]
    wall_s: float
    peak_gib: float


class _Watch(threading.Thread):
    """Notes the time, and what this process's machine has used of the CPU, when a mark appears.

    Args:
        out: Where marks are made.
    """

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self._out = out
        self._over = threading.Event()
        self.seen: dict[str, tuple[float, float]] = {}

    def run(self) -> None:
        """See `threading.Thread`."""
        for name in _MARKS:
            while not (self._out / name).exists():
                if self._over.wait(_LOOK_S):
                    return
            self.seen[name] = (time.monotonic(), _machine_cpu_s())

    def end(self) -> None:
        """Look no longer."""
        self._over.set()
        self.join()


def _machine_cpu_s() -> float:
    """CPU seconds that the children of this process, and all that run in them, have used."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    there = [one for one in map(process.find, numbers) if one is not None]
    machines = {one.session for one in there if one.parent == os.getpid() and one.session == one.pid}
    ticks = 0
    for one in there:
        if one.session in machines:
            with suppress(OSError):  # ended meanwhile
                fields = Path(f"/proc/{one.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # its own, and that of its children that have ended
    return ticks / _TICKS


def inside(topology: str, words: list[str]) -> None:
    """Build, verify and take down; the part that runs in the virtual-time kernel."""
    from emulator.network import build
    from topologies import FABRICS, antipodes, routing_of

    def mark(name: str) -> None:
        (out_folder() / name).touch()

    pairs = [word.partition("=") for word in words]
    fabric = FABRICS[topology](**{key: int(value) if value.isdecimal() else value for key, _, value in pairs})
    network = build(fabric, routing=routing_of(fabric))
    mark("start")
    with network:
        mark("built")
        network.verify(far=antipodes(fabric))
        mark("verified")
    time.sleep(_REMOVAL_S)
    mark("gone")
    (out_folder() / "cards").write_text(str(len(fabric.ends)), encoding="utf-8")


def build_once(size: Size) -> Measured:
    """Build one supernode."""
    with tempfile.TemporaryDirectory(prefix="icgw-bench-") as name:
        out = Path(name)
        argv = (sys.executable, "-m", "tests.bench.supernodes", *size.name.split())
        root = str(Path(__file__).resolve().parents[2])
        limits = Limits(10**12, 3600, 600, int(size.target_gib * 2**30))
        job = Job("supernode", argv, out, limits=limits, environment={"PYTHONPATH": root})
        watch = _Watch(out)
        watch.start()
        before_s = ended_cpu_s()
        try:
            [result] = VirtualEngine().run([job], Silent())
        finally:
            watch.end()
        cpu_s = ended_cpu_s() - before_s
        if result.exit_code:
            raise EngineError(f"{size.name} failed: {result.log.read_text(encoding='utf-8')[-500:]}")
        cards = int((out / "cards").read_text(encoding="utf-8"))
        seen = [watch.seen[name] for name in _MARKS]
        wall_ms, cpu_ms = (
            {
                part: (after[kind] - before[kind]) * 1e3 / cards
                for part, before, after in zip(_PARTS, seen, seen[1:], strict=False)
            }
            for kind in (0, 1)
        )
        wall_ms["all in"], cpu_ms["all in"] = result.wall_s * 1e3 / cards, cpu_s * 1e3 / cards
        return Measured(cards, wall_ms, cpu_ms, result.wall_s, result.peak_memory_bytes / 2**30)


def measure(rounds: int) -> list[Row]:
    """Build supernodes of each size for which there is memory."""
    rows = []
    for size in SIZES:
        if available_bytes() < size.target_gib * 2**30:
            sys.stderr.write(f"  {size.name}: left out, for {size.target_gib:g} GiB of memory are not free\n")
            continue
        found = [build_once(size)]
        while len(found) < rounds and found[0].cards < _REPEATED_CARDS:
            found.append(build_once(size))
        note = f"target {size.target_s} s" if size.target_s else ""
        rows.append(Row(f"{size.name}: wall s, all in", spread([one.wall_s for one in found]), note))
        for part in (*_PARTS, "all in"):
            rows.append(Row(f"  ms a card: {part}", spread([one.wall_ms[part] for one in found])))
            rows.append(Row(f"  CPU ms a card: {part}", spread([one.cpu_ms[part] for one in found])))
        note = f"target {size.target_gib:g} GiB"
        rows.append(Row("  GiB of memory", spread([one.peak_gib for one in found]), note))
    return rows


if __name__ == "__main__":
    inside(sys.argv[1], sys.argv[2:])
