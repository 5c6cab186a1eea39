"""One AllReduce of 16 MiB among 256 cards of a torus, packet by packet, next to SimGrid's flows of the same messages.

Both are given the same schedule and the same links; cards add up in no time. The emulator's wall time is that of the
whole run: boot, building 256 cards, connecting them, the AllReduce with every number checked, and taking all down.
SimGrid's is that of its program, without starting Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from emulator.collectives import Collective, build
from emulator.collectives.cost import schedule_edges
from emulator.collectives.messages import messages_of
from emulator.errors import MissingCapability
from emulator.model.theory import tcp_goodput_bps
from tests.bench.apart import ended_cpu_s
from tests.bench.table import Row, spread
from tests.support.scenario_runs import run_text
from topologies import routing_of, torus3d

SHAPE, SIZE_BYTES, ALGORITHM = (8, 8, 4), 16 << 20, "torus-buckets"
_PROGRAM = Path(__file__).with_name("simgrid_collective.py")
_PYTHON = "/usr/bin/python3"
_SCENARIO = f"""\
scenario: bench
question: How long does one AllReduce of 256 cards take to emulate?
topology: {{kind: torus3d, x: {SHAPE[0]}, y: {SHAPE[1]}, z: {SHAPE[2]}}}
workloads:
  - {{name: one, kind: collective, algorithm: {ALGORITHM}, begin: {SIZE_BYTES} B, iterations: 1, warm_up: 0,
     reduce_rate: 0 bit/s}}
limits: {{virtual: 60 s, wall: 3600 s, memory: 4 GiB}}
"""


def plan() -> dict[str, object]:
    """The platform and the messages as SimGrid's program takes them."""
    fabric = torus3d(*SHAPE)
    routing = routing_of(fabric)
    if routing is None:
        raise MissingCapability("routes of a torus", "this is a defect of icgw")
    names = [node.name for node in fabric.ends]
    schedule = build(Collective.ALL_REDUCE, ALGORITHM, SHAPE)
    edges = schedule_edges(schedule, SIZE_BYTES)
    messages = messages_of(schedule, edges)
    pairs = sorted(set(zip(messages.source.tolist(), messages.target.tolist(), strict=True)))
    parts = [part for _, _, part in messages.connections]
    actors: dict[tuple[int, int], dict[int, tuple[list[tuple[str, int]], list[str]]]] = {}
    columns = (messages.source, messages.target, messages.step, messages.connection, messages.sizes(edges))
    for source, target, step, connection, size in zip(*(one.tolist() for one in columns), strict=True):
        box = f"c{connection}"
        actors.setdefault((source, parts[connection]), {}).setdefault(step, ([], []))[0].append((box, size))
        actors.setdefault((target, parts[connection]), {}).setdefault(step, ([], []))[1].append(box)
    return {
        "ranks": len(names),
        "links": [(tcp_goodput_bps(link.spec) / 8, link.spec.delay_ns / 1e9) for link in fabric.links for _ in (0, 1)],
        "routes": [
            (source, target, [2 * hop.link + (not hop.forward) for hop in routing.path(names[source], names[target])])
            for source, target in pairs
        ],
        "actors": [(rank, [steps[step] for step in sorted(steps)]) for (rank, _), steps in sorted(actors.items())],
    }


def simulate(folder: Path) -> dict[str, float]:
    """Run SimGrid's program.

    Raises:
        MissingCapability: SimGrid is missing, or its program failed.
    """
    file = folder / "plan.json"
    file.write_text(json.dumps(plan()), encoding="utf-8")
    result = subprocess.run([_PYTHON, str(_PROGRAM), str(file)], capture_output=True, text=True, check=False)
    if result.returncode:
        lines = result.stderr.strip().splitlines()
        raise MissingCapability(f"SimGrid ({lines[-1] if lines else 'no message'})", "run 'sudo make bench'")
    return dict(json.loads(result.stdout.splitlines()[-1]))


def emulate(folder: Path) -> dict[str, float]:
    """Run the same in the virtual-time kernel."""
    before_s = ended_cpu_s()
    outcome = run_text(_SCENARIO, folder)
    cpu_s = ended_cpu_s() - before_s
    figures = {record.metric: record.value for record in outcome.records if record.kind.value == "measured"}
    manifest = json.loads((folder / "results" / "manifest.json").read_text(encoding="utf-8"))
    [cell] = manifest["cells"]
    return {
        "simulated_s": figures["time_16MiB"] / 1e9,
        "wrong": figures["wrong_16MiB"],
        "wall_s": cell["wall_s"],
        "cpu_s": cpu_s,
        "peak_bytes": cell["peak_memory_bytes"],
    }


def measure(_rounds: int) -> list[Row]:
    """One run of each, whatever the number of rounds: they take minutes."""
    with tempfile.TemporaryDirectory(prefix="icgw-bench-") as text:
        folder = Path(text)
        theirs = simulate(folder)  # first: what it lacks is said before anything takes minutes
        ours = emulate(folder)
    cpus = os.cpu_count()
    rows = []
    for name, found in (("packets", ours), ("SimGrid, flows", theirs)):
        result = f"{found['simulated_s'] * 1e6:.2f} us"
        if "wrong" in found:
            result += f", {found['wrong']:.0f} numbers wrong"
        rows.append(
            Row(f"all_reduce, 256 cards, 16 MiB: {name}, s", spread([found["wall_s"]]), f"{result}; {cpus} CPUs")
        )
        rows.append(Row(f"all_reduce, 256 cards, 16 MiB: {name}, CPU s", spread([found["cpu_s"]])))
        rows.append(Row(f"all_reduce, 256 cards, 16 MiB: {name}, GiB", spread([found["peak_bytes"] / (1 << 30)])))
    return rows
