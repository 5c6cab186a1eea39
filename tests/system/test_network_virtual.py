"""Runs `tests/support/network_guest.py` inside a virtual-time kernel and reports each of its tests here."""

from __future__ import annotations

import ast
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from tests.support.engine_jobs import Silent

pytestmark = pytest.mark.virtual

GUEST = Path(__file__).resolve().parents[1] / "support" / "network_guest.py"
NAMES = [
    node.name
    for node in ast.parse(GUEST.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]
LIMITS = Limits(virtual_ns=3600 * 10**9, wall_s=900, stall_s=120, memory_bytes=2 << 30)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures of each test by its name; a test that passed has none."""
    folder = tmp_path_factory.mktemp("network")
    out = folder / "out"
    out.mkdir()
    options = "-q -p no:randomly -p no:cacheprovider --tb=short"
    command = f'exec {sys.executable} -m pytest {options} {GUEST} --junitxml="$ICGW_OUT/junit.xml"'
    job = Job("network", ("/bin/sh", "-c", f"cd {GUEST.parents[2]} && {command}"), out, limits=LIMITS)
    [result] = VirtualEngine(base=folder / "runs").run([job], Silent())
    assert (out / "junit.xml").exists(), result.log.read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(out / "junit.xml").iter("testcase"):
        wrong = [one.text or one.get("message", "") for one in case if one.tag in ("failure", "error", "skipped")]
        found.setdefault(case.get("name", "").partition("[")[0], []).extend(wrong)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_in_the_virtual_kernel(outcomes: dict[str, list[str]], name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert outcomes[name] == [], "\n".join(outcomes[name])
