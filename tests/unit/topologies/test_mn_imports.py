"""What stock Mininet loads needs nothing but Mininet and the standard library."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ABSENT = ("numpy", "pydantic", "networkx", "psutil", "yaml", "pyroute2", "matplotlib", "rich", "jinja2")
"""What the rest of the project uses, and the system's Python need not have."""

LOAD = f"""
import sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
from topologies import FABRICS, mn_parts
for name in sorted(FABRICS):
    mn_parts.topos[name]()
print(len(mn_parts.topos))
"""


def test_mn_needs_no_other_package() -> None:
    """Every topology can be made where nothing else is installed."""
    if importlib.util.find_spec("mininet") is None:
        pytest.skip("Mininet is not installed")
    done = subprocess.run([sys.executable, "-c", LOAD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 10
