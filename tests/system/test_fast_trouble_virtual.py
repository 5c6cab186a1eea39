"""Runs the tests of the fast gateway in trouble on veth in one virtual-time kernel, each reported here."""

from __future__ import annotations

import pytest

from gateway.offload.build import PROGRAMS, object_path
from tests.support.guest_tests import FOLDER, names_of, run_guests

pytestmark = pytest.mark.virtual
GUEST = FOLDER / "fast_trouble_guest.py"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures of each test by its name."""
    for program in PROGRAMS:
        object_path(program)  # compiled here, if ever; the guest reads the same files
    return run_guests([GUEST], tmp_path_factory.mktemp("trouble"))


@pytest.mark.parametrize("name", names_of(GUEST))
def test_in_the_virtual_kernel(outcomes: dict[str, list[str]], name: str) -> None:
    """The test of this name passed in the virtual kernel; see there for what it proves."""
    assert outcomes[name] == [], "\n".join(outcomes[name])
