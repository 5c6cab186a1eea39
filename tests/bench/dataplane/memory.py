"""Whether a daemon's memory stays as it is while very many packets go through."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.bench.dataplane.bed import Cpus, bench
from tests.bench.dataplane.modes import MODES
from tests.bench.dataplane.rates import observing, sending, sink_for
from tests.bench.dataplane.results import grid

WATCHED = ("offload", "af_xdp", "af_xdp_polling", "packet_mmap", "sockets")
MOST_GROWTH_KIB = 1024
_PACED = {"af_xdp": 400_000.0, "af_xdp_polling": 400_000.0, "packet_mmap": 250_000.0, "sockets": 60_000.0}
"""Packets/s that these carry without losing most of them."""
_WARM_S, _FILL_S, _STEP_S, _SLOW_S = 1.0, 2.0, 0.5, 600.0
_WARM_RATE = 20_000.0


@dataclass(frozen=True)
class Watched:
    """A daemon that was watched: packets that came through, how long that took, and its memory, in KiB.

    Attributes:
        resident_kib: The daemon's memory, each half second. Its allocator takes and gives back a few MiB as batches are
            larger and smaller.
    """

    mode: str
    packets: int
    seconds: float
    resident_kib: tuple[int, ...]
    slabs_before_kib: int
    slabs_after_kib: int

    @property
    def before_kib(self) -> int:
        """The least of the first fifth of the time."""
        return min(self.resident_kib[: self._fifth])

    @property
    def after_kib(self) -> int:
        """The least of the last fifth."""
        return min(self.resident_kib[-self._fifth :])

    @property
    def _fifth(self) -> int:
        return max(1, len(self.resident_kib) // 5)


def _resident_kib(pid: int) -> int:
    return _kib(Path(f"/proc/{pid}/status"), "VmRSS:")


def _unreclaimable_kib() -> int:
    """The kernel's own memory that it cannot give back: of the whole machine."""
    return _kib(Path("/proc/meminfo"), "SUnreclaim:")


def _kib(file: Path, key: str) -> int:
    return next((int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith(key)), 0)


def watch(name: str, packets: int) -> Watched:
    """Let so many packets of 64 bytes through, but for ten minutes at most."""
    mode = MODES[name]
    with (
        tempfile.TemporaryDirectory(prefix="icgw-bench-") as folder,
        bench(Cpus.of_this_machine(), 1500, coalesced=True) as built,
        mode.start(built, Path(folder)) as running,
    ):
        sink = sink_for(built, mode)
        with sending(built, sink, running.target_mac, 64, paced=not mode.frames) as generator, observing(built):
            # What is made once, and pages that are used for the first time, are not growth.
            generator.pace(_WARM_RATE)
            time.sleep(_WARM_S)
            # A flood fills all queues and buffers once.
            generator.pace(None)
            time.sleep(_FILL_S)
            generator.pace(_PACED.get(name))
            time.sleep(_FILL_S)
            resident, slabs = [_resident_kib(running.pid)], _unreclaimable_kib()
            began, first = time.monotonic(), sink.packets()
            while sink.packets() - first < packets and time.monotonic() - began < _SLOW_S:
                time.sleep(_STEP_S)
                resident.append(_resident_kib(running.pid))
            through, taken = sink.packets() - first, time.monotonic() - began
            return Watched(name, through, taken, tuple(resident), slabs, _unreclaimable_kib())


def report(names: Sequence[str], packets: int, console: Console) -> int:
    """Watch these modes and show what came out; 1 if one of them grew."""
    heads = (
        "mode",
        "packets through",
        "s",
        "first, KiB",
        "last, KiB",
        "growth, KiB",
        "most, KiB",
        "kernel's slabs, KiB",
    )
    table = grid("Memory of the daemon: the least of the first and of the last fifth of the time", heads)
    grew = False
    for name in names:
        one = watch(name, packets)
        growth = one.after_kib - one.before_kib
        grew |= growth > MOST_GROWTH_KIB
        slabs = f"{one.slabs_before_kib} to {one.slabs_after_kib}"
        cells = one.packets, f"{one.seconds:.0f}", one.before_kib, one.after_kib, growth, max(one.resident_kib), slabs
        table.add_row(MODES[name].title, *map(str, cells))
    console.print(table)
    return int(grew)
