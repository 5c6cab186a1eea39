"""Stock Mininet on this machine's own kernel, with our topologies: the user's commands, in namespaces of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).resolve().parents[1] / "support" / "network_mn.py"
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child")
PROBE = "tc qdisc add dev lo root netem delay 1us"


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    if shutil.which("mn") is None:
        pytest.skip("Mininet is not installed")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not permit user namespaces")


@pytest.fixture(scope="module")
def has_netem() -> bool:
    """Whether this machine's kernel can delay."""
    return subprocess.run([*UNSHARE, *PROBE.split()], capture_output=True, check=False).returncode == 0


def mn(folder: Path, *words: str, marker: str = "", number: str = "SIGINT") -> dict[str, Any]:
    argv = [*UNSHARE, sys.executable, str(RUNNER), marker, number, *words]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(folder)}
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def leaves_nothing(found: dict[str, Any]) -> bool:
    return (found["links"], found["processes"], found["files"], found["bystander"]) == (["lo"], [], [], True)


def test_the_reference_fabric_pings(tmp_path: Path) -> None:
    """The command of the guide: every host reaches every other at the first try, over a fabric with loops.

    Verify: exit code, 90 of 90 pings, and that no interface, process or file is left and no bystander was killed.
    """
    found = mn(tmp_path, "--topo", "icgw,gpus=4,storage=2", "--test", "pingall")
    assert found["status"] == 0, found["said"]
    assert "0% dropped (90/90 received)" in found["said"]
    assert leaves_nothing(found), found


@pytest.mark.parametrize("topology", ["chain,3", "chain,1", "dumbbell,pairs=2", "single,5"])
def test_every_topology_pings_with_lazy_hosts(tmp_path: Path, topology: str) -> None:
    """All topologies, with hosts that start their shells only for the pings."""
    found = mn(tmp_path, "--topo", topology, "--host", "lazy", "--test", "pingall")
    assert found["status"] == 0, found["said"]
    assert " 0% dropped" in found["said"]
    assert leaves_nothing(found), found


def test_mininets_own_topologies_still_work(tmp_path: Path) -> None:
    """Loading our file does not change what else Mininet can do."""
    found = mn(tmp_path, "--topo", "linear,3", "--test", "pingall")
    assert found["status"] == 0, found["said"]
    assert "0% dropped (6/6 received)" in found["said"]
    assert leaves_nothing(found), found


@pytest.mark.parametrize(
    "words", [("--topo", "icgw,delay=5us"), ("--topo", "chain", "--link", "icgw"), ("--topo", "chain,rate=10Gbit/s")]
)
def test_a_delay_needs_netem(tmp_path: Path, has_netem: bool, words: tuple[str, ...]) -> None:
    """Asking for a delay or rate where there is no netem is one line that names the virtual engine; else it works."""
    found = mn(tmp_path, *words, "--test", "pingall")
    errors = [line for line in found["said"].splitlines() if line.startswith("error: ")]
    if has_netem:
        assert (found["status"], errors) == (0, [])
    else:
        assert found["status"] == 3
        assert len(errors) == 1
        assert "netem" in errors[0]
        assert "icgw run" in errors[0]
        assert "Creating network" not in found["said"], "it is refused before anything is made"
    assert leaves_nothing(found), found


@pytest.mark.parametrize("marker", ["Adding links", "Configuring hosts", "Starting 8 switches", "testing ping"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_interrupting_at_any_stage_leaves_nothing(tmp_path: Path, marker: str, number: str) -> None:
    """Ctrl-C and termination remove what was made, and only that: Mininet's own clean-up would kill every ping."""
    found = mn(tmp_path, "--topo", "icgw", "--test", "pingall", marker=marker, number=number)
    assert leaves_nothing(found), found
    assert "Cleanup complete" not in found["said"]
    if number == "SIGTERM":
        assert found["status"] == 143, found["said"]
    else:
        assert "Keyboard Interrupt" in found["said"]
    assert "completed in" not in found["said"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("icgw,gpus=none", "error: gpus: 'none' is not a whole number"),
        ("icgw,cards=3", "error: cards: icgw has no such parameter"),
        ("dumbbell,aqm=codel", "error: aqm: 'codel' is no queue management"),
        ("chain,mtu=9kB", None),
        ("chain,mtu=9000", "error: mtu: 9000 has no unit"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: str, line: str | None) -> None:
    """A wrong parameter ends with exit code 2 and its one line; 9 kB is an exact size and fine."""
    found = mn(tmp_path, "--topo", words, "--test", "pingall")
    assert found["status"] == (2 if line else 0), found["said"]
    assert line is None or line in found["said"]
    assert "Traceback" not in found["said"]
    assert leaves_nothing(found), found
