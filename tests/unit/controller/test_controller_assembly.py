"""Taking a store into use: who may is settled before anything in the file is changed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from controller.assembly import Controller
from controller.config import Address, Settings
from controller.designs import Design
from controller.paths import Spread
from controller.tenancy.claim import InUse
from controller.tenancy.migrations import APPLICATION_ID, MIGRATIONS
from emulator.errors import ScenarioError
from tests.support.controller_fabrics import leaf_spine

FABRIC = leaf_spine()
HOLDER = """
import sys
from controller.tenancy.claim import Claim
claim = Claim(sys.argv[1], shared=sys.argv[2] == "shared")
print(flush=True)
sys.stdin.read()
"""


def settings(store: Path, *, redundant: bool = False) -> Settings:
    listen = Address("127.0.0.1", 0)
    return Settings(
        FABRIC, Design.GATEWAY, (), Spread.HOSTS, listen, listen, store=str(store), lldp_interval_ns=0,
        redundant=redundant,
    )  # fmt: skip


@contextmanager
def held(store: Path, how: str, repository: Path) -> Iterator[None]:
    """Another process has a claim on the store."""
    argv = [sys.executable, "-c", HOLDER, str(store), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=repository) as process:
        assert process.stdout
        assert process.stdout.readline() == "\n"
        yield
        process.communicate()


def version(store: Path) -> int:
    with closing(sqlite3.connect(store)) as connection:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return found


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of the first format."""
    store = tmp_path / "store.db"
    with closing(sqlite3.connect(store)) as connection:
        for statement in (*MIGRATIONS[0], f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 1"):
            connection.execute(statement)
        connection.commit()
    return store


@pytest.mark.parametrize(("how", "redundant"), [("alone", False), ("alone", True), ("shared", False)])
def test_a_store_in_use_is_left_alone(old: Path, how: str, redundant: bool, repository: Path) -> None:
    """Whoever is refused has changed nothing, the file's format least of all; afterwards it is brought up to date."""
    before = old.read_bytes()
    with held(old, how, repository), pytest.raises(InUse, match="is used by another controller"):
        Controller(settings(old, redundant=redundant))
    assert old.read_bytes() == before
    assert version(old) == 1
    with closing(Controller(settings(old, redundant=redundant))):
        assert version(old) == len(MIGRATIONS)


def test_what_cannot_be_claimed_cannot_be_used(old: Path) -> None:
    """The lock's file is a folder: that is said as of any store that cannot be used, and nothing was changed."""
    old.with_name("store.db.lock").mkdir()
    with pytest.raises(ScenarioError, match=r"^--store: .*store\.db\.lock cannot be opened for writing: Is a dir"):
        Controller(settings(old))
    assert version(old) == 1


def test_a_refused_store_can_be_claimed_by_others(old: Path, repository: Path) -> None:
    """A store that does not fit the fabric: the claim goes with the refusal."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("INSERT INTO resources VALUES ('tenants', '', 'a', 1, '[]')")
        connection.execute("UPDATE counters SET value = 1")
        connection.commit()
    with pytest.raises(ScenarioError, match="tenant a: a tenant is an object"):
        Controller(settings(old))
    with held(old, "alone", repository):
        assert old.with_name("store.db.lock").exists()
