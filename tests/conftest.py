"""Shared set-up: the seed of the run and the skip-or-fail rule for the virtual kernel."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# Examples are drawn from the printed seed, so a failure can be repeated; the wall clock never decides a test.
hypothesis.settings.register_profile("icgw", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("icgw")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the clone."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _no_stray_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not depend on what the caller's shell exports, except for the kernel to test with."""
    for name in list(os.environ):
        if name.startswith("ICGW_") and name != "ICGW_KERNEL":
            monkeypatch.delenv(name)
