"""Finding the virtual-time kernel that was built for this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from emulator.errors import MissingCapability

KERNEL_VARIABLE = "ICGW_KERNEL"
_NAME = "virtual-time kernel"
_REPOSITORY = Path(__file__).resolve().parents[2]


def find_kernel(environment: Mapping[str, str] = os.environ, repository: Path = _REPOSITORY) -> Path:
    """Return the kernel's path: the one the environment names, else the one in the build's cache.

    Args:
        environment: ``ICGW_KERNEL`` in it overrides the cache.
        repository: Root of the clone, which holds the build script.

    Raises:
        MissingCapability: There is none, with what to do about it.
    """
    named = environment.get(KERNEL_VARIABLE)
    if named:
        path = Path(named)
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise MissingCapability(_NAME, f"{KERNEL_VARIABLE} names {named}, which is not a program")
        return path.resolve()
    script = repository / "kernel" / "build.py"
    if not script.is_file():
        raise MissingCapability(_NAME, f"{script} is not there: run from a clone, or set {KERNEL_VARIABLE}")
    command = [sys.executable, str(script), "--print-path"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines or not os.access(lines[-1], os.X_OK):
        raise MissingCapability(_NAME, "it is not built yet: run 'make kernel' (or 'sudo make setup')")
    return Path(lines[-1])


def describe_kernel(path: Path) -> dict[str, str]:
    """What tells one kernel from another: source version and key of its configuration, and the digest of the file."""
    return {"build": path.parent.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
