"""Wall time for each emulated gigabyte of TCP over a chain at 100 Gbit/s, next to ns-3 moving the same packets.

Both run pinned to the same CPU, in turn. The emulator's time is taken from whole runs of two sizes: their difference is
the cost of the bytes, the rest is the cost of starting a machine, a controller and a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from emulator.engine.virtual import VirtualEngine
from emulator.errors import MissingCapability
from emulator.experiment.prepare import prepare
from emulator.experiment.run import run
from tests.bench.table import Row, spread
from tests.support.engine_jobs import Silent

GB = 10**9
SMALL_BYTES, LARGE_BYTES = GB // 10, GB // 10 + GB
HOPS, MTU_BYTES = 3, 9000
_SOURCE = Path(__file__).with_name("ns3_chain.cc")
_MODULES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")

_SCENARIO = """\
scenario: bench
question: How much wall time does an emulated gigabyte cost?
topology: {{kind: chain, hops: {hops}, rate: 100 Gbit/s, delay: 5 us, mtu: {mtu} B, queue: 10000 packets}}
workloads: [{{name: bulk, kind: tcp, sources: h0, targets: h1, size: {size} B}}]
limits: {{virtual: 60 s, wall: 300 s, memory: 2 GiB}}
"""


def compile_ns3(folder: Path) -> Path:
    """Compile the comparison program.

    Raises:
        MissingCapability: There is no ns-3, or no compiler.
    """
    if not shutil.which("g++") or not shutil.which("pkg-config"):
        raise MissingCapability("g++ or pkg-config", "run 'sudo make bench', which installs them")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", *(f"ns3-{name}" for name in _MODULES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if flags.returncode:
        raise MissingCapability("ns-3 (libns3-dev)", "run 'sudo make bench', which installs it")
    program = folder / "ns3_chain"
    subprocess.run(["g++", "-O2", "-std=c++17", "-o", str(program), str(_SOURCE), *flags.stdout.split()], check=True)
    return program


def time_ns3(program: Path, size_bytes: int) -> float:
    """Wall seconds of one ns-3 run."""
    start = time.monotonic()
    subprocess.run(
        [str(program), f"--bytes={size_bytes}", f"--hops={HOPS}", f"--mtu={MTU_BYTES}"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.monotonic() - start


def time_emulator(folder: Path, size_bytes: int) -> float:
    """Wall seconds of one whole run of the emulator."""
    file = folder / "bench.yaml"
    file.write_text(_SCENARIO.format(hops=HOPS, mtu=MTU_BYTES, size=size_bytes), encoding="utf-8")
    scenario, cells = prepare(file)
    start = time.monotonic()
    run(scenario, cells, engine=VirtualEngine(), folder=folder / "results", observer=Silent())
    return time.monotonic() - start


def measure(rounds: int) -> list[Row]:
    """Run both in turn and compare."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    try:
        with tempfile.TemporaryDirectory(prefix="icgw-bench-") as name:
            folder = Path(name)
            program = compile_ns3(folder)
            ns3, small, large = [], [], []
            for _ in range(rounds):
                ns3.append(time_ns3(program, GB))
                small.append(time_emulator(folder, SMALL_BYTES))
                large.append(time_emulator(folder, LARGE_BYTES))
    finally:
        os.sched_setaffinity(0, cpus)
    per_gb = [b - a for a, b in zip(small, large, strict=True)]
    return [
        Row("icgw, wall s for each emulated GB", spread(per_gb), "true packets, MTU 9000, 3 hops"),
        Row(
            "icgw, wall s to start and stop everything",
            spread([b - c / 10 for b, c in zip(small, per_gb, strict=True)]),
        ),
        Row("ns-3, wall s for each simulated GB", spread(ns3), "same packets"),
        Row("ratio ns-3 / icgw, each GB", spread([a / b for a, b in zip(ns3, per_gb, strict=True)])),
        Row("ratio ns-3 / icgw, whole runs of 1 GB", spread([a / b for a, b in zip(ns3, large, strict=True)])),
    ]
