"""Supernodes in stock Mininet on this machine's own kernel: cards that forward for each other reach each other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parents[1] / "support" / "network_mn.py"
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child")


@pytest.mark.parametrize(
    ("words", "pings"),
    [
        (("torus3d,2,2,3",), 12 * 11),
        (("torus3d,2,2,4,twist=2", "--host", "lazy"), 16 * 15),
        (("torus3d,3,3,1,routing=adaptive", "--host", "lazy"), 9 * 8),
        (("tree,fanouts=2x4,oversubscription=2", "--host", "lazy"), 8 * 7),
        (("fat_tree,k=4,routing=static", "--host", "lazy"), 16 * 15),
        (("dual_plane,nodes=2,rails=2", "--host", "lazy"), 4 * 3),
        (("dragonfly,2,1,1", "--host", "lazy"), 6 * 5),
        (("cascade,shape=2x2",), 8 * 7),
        (("cascade,inside=tree,shape=2x2", "--host", "lazy"), 8 * 7),
        (("tree,fanouts=2x2,switching=openflow",), 4 * 3),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_all_cards_reach_each_other(tmp_path: Path, words: tuple[str, ...], pings: int) -> None:
    """Every card answers every other at the first try, only cards are asked, and nothing is left behind."""
    if shutil.which("mn") is None:
        pytest.skip("Mininet is not installed")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not permit user namespaces")
    argv = [*UNSHARE, sys.executable, str(RUNNER), "", "SIGINT", "--topo", *words, "--test", "pingall"]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)}
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["status"] == 0, found["said"]
    assert f"0% dropped ({pings}/{pings} received)" in found["said"]
    assert (found["links"], found["processes"], found["files"], found["bystander"]) == (["lo"], [], [], True)


@pytest.mark.parametrize("option", ["--nat", "--innamespace"])
def test_what_needs_a_switch_is_refused(tmp_path: Path, option: str) -> None:
    """Mininet wires a NAT, or a network for its switches' control, to the first switch: one line if there is none."""
    if shutil.which("mn") is None:
        pytest.skip("Mininet is not installed")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not permit user namespaces")
    argv = [*UNSHARE, sys.executable, str(RUNNER), "", "SIGINT", "--topo", "torus3d,3,1,1", option, "--test", "none"]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)}
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(result.stdout)
    assert found["status"] == 2
    assert f"error: {option} needs an OpenFlow switch, and torus3d has none here" in found["said"]
    assert "Error:" not in found["said"], "no traceback"
    assert (found["links"], found["processes"], found["files"]) == (["lo"], [], [])
