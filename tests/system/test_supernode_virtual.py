"""Runs tests of supernodes, whole and broken, inside a virtual-time kernel and reports each of them here."""

from __future__ import annotations

import pytest

from tests.support.guest_tests import FOLDER, names_of, run_guests

pytestmark = pytest.mark.virtual

GUESTS = [FOLDER / "supernode_guest.py", FOLDER / "detour_guest.py"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures of each test by its name."""
    return run_guests(GUESTS, tmp_path_factory.mktemp("supernodes"))


@pytest.mark.parametrize("name", [name for guest in GUESTS for name in names_of(guest)])
def test_in_the_virtual_kernel(outcomes: dict[str, list[str]], name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert outcomes[name] == [], "\n".join(outcomes[name])
