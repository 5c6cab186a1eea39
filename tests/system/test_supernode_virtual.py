"""Runs `tests/support/supernode_guest.py` inside a virtual-time kernel and reports each of its tests here."""

from __future__ import annotations

import pytest

from tests.support.guest_tests import FOLDER, names_of, run_guests

pytestmark = pytest.mark.virtual

GUEST = FOLDER / "supernode_guest.py"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures of each test by its name."""
    return run_guests([GUEST], tmp_path_factory.mktemp("supernodes"))


@pytest.mark.parametrize("name", names_of(GUEST))
def test_in_the_virtual_kernel(outcomes: dict[str, list[str]], name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert outcomes[name] == [], "\n".join(outcomes[name])
