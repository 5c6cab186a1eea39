"""Runs files of tests inside one virtual-time kernel, and says which of their tests failed and how."""

from __future__ import annotations

import ast
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from emulator.engine.job import Job, Limits
from emulator.engine.virtual import VirtualEngine
from tests.support.engine_jobs import Silent

FOLDER = Path(__file__).resolve().parent
LIMITS = Limits(virtual_ns=3600 * 10**9, wall_s=900, stall_s=120, memory_bytes=2 << 30)


def names_of(guest: Path) -> list[str]:
    """Names of the test functions in a file, without importing it."""
    return [
        node.name
        for node in ast.parse(guest.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def run_guests(guests: Sequence[Path], folder: Path) -> dict[str, list[str]]:
    """Failures of each test by its name; a test that passed has none.

    Tests may leave files in the folder that the variable ``GUEST_OUT`` names, which is ``out`` in *folder*.
    """
    out = folder / "out"
    out.mkdir()
    options = "-q -p no:randomly -p no:cacheprovider --tb=short"
    files = " ".join(map(str, guests))
    command = (
        f'GUEST_OUT="$ICGW_OUT" exec {sys.executable} -m pytest {options} {files} --junitxml="$ICGW_OUT/junit.xml"'
    )
    job = Job("guest", ("/bin/sh", "-c", f"cd {FOLDER.parents[1]} && {command}"), out, limits=LIMITS)
    [result] = VirtualEngine(base=folder / "runs").run([job], Silent())
    assert (out / "junit.xml").exists(), result.log.read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(out / "junit.xml").iter("testcase"):
        wrong = [one.text or one.get("message") or "" for one in case if one.tag in ("failure", "error", "skipped")]
        found.setdefault(case.get("name", "").partition("[")[0], []).extend(wrong)
    return found
