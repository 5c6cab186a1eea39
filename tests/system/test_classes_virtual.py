"""Runs the tests of links that keep storage and compute apart in one virtual-time kernel, and reports each here."""

from __future__ import annotations

import pytest

from tests.support.guest_tests import FOLDER, names_of, run_guests

pytestmark = pytest.mark.virtual

GUEST = FOLDER / "classes_guest.py"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures of each test by its name."""
    return run_guests([GUEST], tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("name", names_of(GUEST))
def test_in_the_virtual_kernel(outcomes: dict[str, list[str]], name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert outcomes[name] == [], "\n".join(outcomes[name])
