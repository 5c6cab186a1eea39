"""The controller with the kernel's Open vSwitch and each design's real data plane, in virtual time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.designs import plan
from controller.prediction import carriers
from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from emulator.model.fabric import Role
from tests.support.controller_fabrics import leaf_spine, services_of
from tests.support.engine_jobs import Silent

pytestmark = pytest.mark.virtual

JOB = Path(__file__).resolve().parents[1] / "support" / "controller_job.py"
TCP_BYTES = 300_000
LIMITS = Limits(virtual_ns=2 * 3600 * 10**9, wall_s=300, memory_bytes=1 << 30)


def run(folder: Path, *argv: str) -> tuple[dict[str, Any], int]:
    """Run a command in the machine; its last line is JSON. Returns that and the virtual time that passed, in ns."""
    out = folder / "out"
    out.mkdir()
    job = Job("controller", argv, out, limits=LIMITS)
    [result] = VirtualEngine(base=folder / "runs").run([job], Silent())
    text = result.log.read_text()
    assert result.exit_code == 0, text
    return json.loads(text.splitlines()[-1]), result.virtual_ns


@pytest.mark.parametrize(
    ("design", "hops", "through"),
    [("shortest-path", 0, set()), ("gateway", 1, {"gateway"}), ("conventional", 2, {"router", "compute"})],
)
def test_storage_traffic_takes_the_designs_way(tmp_path: Path, design: str, hops: int, through: set[str]) -> None:
    """Claim G09 from port counters, with real ICMP and TCP through real proxies and forwarders.

    Steps: in the machine, build a fabric, start the controller and the design's data plane; ping every storage node
    from every client and one client from storage; echo 300 kB over TCP to two services and to a port that is none.
    Verify: everything arrives; the time to live shows the number of forwarding hops; the roles that got bytes are
    exactly the design's and, for general compute nodes, what was predicted from the rules; other traffic is direct.
    """
    seen, _ = run(tmp_path, sys.executable, str(JOB), design)
    assert seen["health"]["ready"] is True
    assert seen["planned"] is True
    assert len(seen["pings"]) == 7
    assert set(map(tuple, seen["pings"].values())) == {(f"ttl={64 - hops}", "0%")}
    assert set(map(tuple, seen["direct"].values())) == {("ttl=64", "0%")}
    assert list(seen["tcp"].values()) == [TCP_BYTES] * 3
    carried = {role for role in ("gateway", "router", "compute") if seen["bytes_to"][role]}
    assert carried == through
    fabric = leaf_spine(gpus=3, storage=2)
    predicted = carriers(plan(fabric, design, services_of(fabric, 4420)), Role.COMPUTE)
    assert bool(predicted) == bool(seen["bytes_to"]["compute"])
    for role in through:
        # Two services, their bytes in both directions, with the headers of at most a packet for every 536 bytes.
        assert 4 * TCP_BYTES < seen["bytes_to"][role] < 4 * TCP_BYTES * 1.2
    assert seen["exit_code"] == 0
    assert not [line for line in seen["log"] if " WARNING " in line or " ERROR " in line]


_IDLE = """
import json, resource, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from controller_fabrics import leaf_spine, services_of
from controller_process import running_controller
fabric, folder = leaf_spine(), Path("/tmp/idle")
folder.mkdir()
def switches(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
with running_controller(folder, fabric, "gateway", services_of(fabric, 4420)) as controller:
    before = switches(controller.process.pid)
    time.sleep(3600)
    woken = switches(controller.process.pid) - before
    start = time.monotonic_ns()
    ready = controller.client.get("/v1/health", wait_ms=5000)["ready"]
    waited_ms = (time.monotonic_ns() - start) / 1e6
    print(json.dumps({"woken": woken, "ready": ready, "waited_ms": waited_ms, "code": controller.end()}))
"""


def test_idling_and_waiting_do_not_poll(tmp_path: Path) -> None:
    """An hour without switches wakes the controller about once a minute, and a bounded wait takes its time exactly.

    A program that polled would make an hour of virtual time take for ever; one that waits makes it free.
    """
    seen, virtual_ns = run(tmp_path, sys.executable, "-c", _IDLE, str(JOB.parent))
    assert virtual_ns > 3600 * 10**9
    assert seen["woken"] < 200
    assert seen["ready"] is False
    assert 5000 <= seen["waited_ms"] < 5020
    assert seen["code"] == 0
