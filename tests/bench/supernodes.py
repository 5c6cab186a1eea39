"""Wall time and memory of supernodes in the virtual-time kernel: built, shaped, routed, read back, verified, removed.

Verified means that each card answered its antipode and eight random others. The program inside marks the moments by
making files in its folder: the machine outside stamps them with its own clock. Removed means that the kernel is done.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from emulator.engine.job import Job, Limits
from emulator.engine.memory import available_bytes
from emulator.engine.progress import out_folder
from emulator.engine.virtual import VirtualEngine
from emulator.errors import EngineError
from tests.bench.table import Row, spread
from tests.support.engine_jobs import Silent

_MARKS = ("start", "built", "verified", "stopped", "gone")
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
    Size("cascade", {"supernodes": 8, "shape": "8x8x8"}, 150, 6),
    _cube(16, 150, 6),
    _cube(22, 480, 16),
)


@dataclass(frozen=True)
class Measured:
    """One build: cards, seconds of wall time of each part and of all, of CPU time, and memory."""

    cards: int
    built_s: float
    verified_s: float
    gone_s: float
    wall_s: float
    cpu_s: float
    peak_gib: float


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
    mark("stopped")
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
        before_s = _cpu_s()
        [result] = VirtualEngine().run([job], Silent())
        cpu_s = _cpu_s() - before_s
        if result.exit_code:
            raise EngineError(f"{size.name} failed: {result.log.read_text(encoding='utf-8')[-500:]}")
        start, built, verified, _stopped, gone = ((out / one).stat().st_mtime for one in _MARKS)
        cards = int((out / "cards").read_text(encoding="utf-8"))
        peak_gib = result.peak_memory_bytes / 2**30
        return Measured(cards, built - start, verified - built, gone - verified, result.wall_s, cpu_s, peak_gib)


def _cpu_s() -> float:
    """CPU time of all machines that have ended, which other work on the host changes less than wall time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
        cards = found[0].cards
        note = f"target {size.target_s} s" if size.target_s else ""
        rows.append(Row(f"{size.name}: wall s, all in", spread([one.wall_s for one in found]), note))
        rows.append(Row("  ms a card: build", spread([one.built_s * 1e3 / cards for one in found])))
        rows.append(Row("  ms a card: verify", spread([one.verified_s * 1e3 / cards for one in found])))
        rows.append(Row("  ms a card: take down", spread([one.gone_s * 1e3 / cards for one in found])))
        rows.append(Row("  CPU ms a card, all in", spread([one.cpu_s * 1e3 / cards for one in found])))
        note = f"target {size.target_gib:g} GiB"
        rows.append(Row("  GiB of memory", spread([one.peak_gib for one in found]), note))
    return rows


if __name__ == "__main__":
    inside(sys.argv[1], sys.argv[2:])
