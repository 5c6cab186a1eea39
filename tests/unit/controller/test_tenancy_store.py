"""The store: what is acknowledged is there, whatever happens to the process, the file, or beside it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.tenancy import migrations
from controller.tenancy.ground import Ground
from controller.tenancy.invariants import problems
from controller.tenancy.kinds import Kind
from controller.tenancy.migrations import APPLICATION_ID, MIGRATIONS
from controller.tenancy.refusals import Refused, Why
from controller.tenancy.state import TenancyState
from controller.tenancy.store import Store
from emulator.errors import ControllerError
from tests.support import tenancy_sites

GROUND = tenancy_sites.small_site("gateway").ground
NOWHERE = Ground({}, frozenset(), frozenset())
RANGE = {"cidrs": ["10.0.0.0/8"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a store may be."""
    return tmp_path / "tenants.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    """An empty store."""
    opened = Store(file, GROUND)
    yield opened
    assert problems(opened.state, GROUND) == []
    opened.close()


def fill(store: Store) -> None:
    """Something of everything."""
    store.put(Kind.TENANTS, "a", {"description": "ä\U0001f642\x00"})
    store.put(Kind.VPCS, "v", {"tenant": "a", **RANGE})
    store.put(Kind.NODES, ("v", "g0"), {"ip": "10.0.0.1", "groups": ["red"]})
    store.put(Kind.SERVICES, "s", {"kind": "block", "node": "st0", "port": 4420, "vpcs": ["v"]})
    store.put(Kind.ENDPOINTS, ("v", "e"), {"service": "s", "ip": "10.0.0.9", "port": 1})
    store.put(
        Kind.POLICIES, "p", {"vpc": "v", "action": "allow", "protocol": "tcp", "ports": [{"first": 1, "last": 2}]}
    )


def test_what_is_stored_is_there_after_reopening(store: Store, file: Path) -> None:
    """Resources, versions and the change counter, of all kinds; what was deleted stays away."""
    fill(store)
    store.put(Kind.TENANTS, "b", {})
    store.delete(Kind.TENANTS, "b")
    other = Store(file, GROUND)
    assert other.state == store.state
    assert other.put(Kind.TENANTS, "c", {}).version == store.state.change + 1
    other.close()


def test_the_file_is_its_owners_alone(store: Store, file: Path) -> None:
    """The file, and those that SQLite makes beside it, can be read by nobody else."""
    fill(store)
    for path in file.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_refused_changes_leave_no_trace(store: Store, file: Path) -> None:
    """Neither in memory, nor on disk, nor with subscribers."""
    fill(store)
    before = store.state
    seen: list[TenancyState] = []
    store.subscribe(lambda _, after: seen.append(after))
    for attempt in (
        lambda: store.put(Kind.VPCS, "x", {"tenant": "no", **RANGE}),
        lambda: store.put(Kind.TENANTS, "a", {}, if_match=99),
        lambda: store.put(Kind.TENANTS, "a", {}, if_none_match=True),
        lambda: store.put(Kind.TENANTS, "a", []),
        lambda: store.delete(Kind.TENANTS, "a"),
        lambda: store.delete(Kind.POLICIES, "p", if_match=1),
        lambda: store.delete(Kind.POLICIES, "no"),
        lambda: store.get(Kind.NODES, ("v", "no")),
    ):
        with pytest.raises(Refused):
            attempt()
        assert store.state is before
    assert seen == []
    other = Store(file, GROUND)
    assert other.state == before
    other.close()


def test_pages_are_in_order_and_complete(store: Store) -> None:
    """Going through pages of any size gives every name once, in order; parts of a VPC are listed with it."""
    fill(store)
    names = [*sorted(f"t{number}" for number in range(25)), "u"]
    for name in reversed(names):
        store.put(Kind.TENANTS, name, {})
    for limit in (1, 7, 26, 27, 28, 1000):
        found: list[str] = []
        after: str | None = None
        while True:
            page = store.list(Kind.TENANTS, after=after, limit=limit)
            found += [item.key[0] for item in page.items]
            after = page.after
            if after is None:
                break
        assert found == ["a", *names]
    assert [item.key for item in store.list(Kind.NODES, "v").items] == [("v", "g0")]
    assert [item.key for item in store.list(Kind.ENDPOINTS, "v").items] == [("v", "e")]
    assert store.list(Kind.TENANTS, after="zzz").items == ()
    for arguments in ((Kind.NODES, None), (Kind.TENANTS, "v"), (Kind.NODES, "no")):
        with pytest.raises(Refused):
            store.list(*arguments)
    for limit in (0, -1, 1001):
        with pytest.raises(Refused) as caught:
            store.list(Kind.TENANTS, limit=limit)
        assert caught.value.why is Why.INVALID


def test_another_processs_changes_are_taken_in(store: Store, file: Path) -> None:
    """Before each change, and on request; subscribers see one step per look, without gaps."""
    seen: list[tuple[TenancyState, TenancyState]] = []
    store.subscribe(lambda before, after: seen.append((before, after)))
    other = Store(file, GROUND)
    fill(other)
    assert store.reload_if_changed()
    assert not store.reload_if_changed()
    assert store.state == other.state
    other.delete(Kind.POLICIES, "p")
    stored = store.put(Kind.TENANTS, "b", {})
    assert stored.version == other.state.change + 1
    assert "p" not in store.state.policies
    with pytest.raises(Refused, match="has version"):
        other.put(Kind.TENANTS, "b", {"description": "x"}, if_match=1)
    for (_, after), (before, _) in pairwise(seen):
        assert after is before
    assert seen[-1][1] is store.state
    other.close()


def test_threads_creating_at_once_lose_nothing(store: Store, file: Path) -> None:
    """Two tenants come and fill their VPCs a thousand times at the same time: all is there, and valid."""
    failures: list[BaseException] = []
    stores = [store, Store(file, GROUND)]

    def create(number: int) -> None:
        try:
            for turn in range(500):
                name = f"t{number}-{turn}"
                stores[number].put(Kind.TENANTS, name, {}, if_none_match=True)
                stores[number].put(Kind.VPCS, name, {"tenant": name, **RANGE}, if_none_match=True)
        except BaseException as error:  # noqa: BLE001  # the test says what it was
            failures.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for one in stores:
        one.reload_if_changed()
    assert stores[0].state == stores[1].state
    assert len(store.state.tenants) == len(store.state.vpcs) == 1000
    assert {vpc.segment for vpc in store.state.vpcs.values()} == set(range(2, 1002))
    stores[1].close()


def test_threads_sharing_a_store_lose_nothing(store: Store) -> None:
    """The same with one store for all threads, which race for one name as well: exactly one of them makes it."""
    made: list[str] = []

    def create(number: int) -> None:
        for turn in range(100):
            store.put(Kind.TENANTS, f"t{number}-{turn}", {})
            try:
                store.put(Kind.TENANTS, f"race-{turn}", {"description": str(number)}, if_none_match=True)
            except Refused:
                continue
            made.append(f"race-{turn}")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == sorted(f"race-{turn}" for turn in range(100))
    assert len(store.state.tenants) == 400


def writer(file: Path, prefix: str, count: int, repository: Path) -> subprocess.Popen[str]:
    """A process that declares tenants with a VPC each."""
    return subprocess.Popen(
        [sys.executable, str(repository / "tests/support/tenancy_writer.py"), str(file), prefix, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )


def test_processes_creating_at_once_lose_nothing(file: Path, repository: Path) -> None:
    """Two processes start on one new file and declare tenants and VPCs: all is there, with segments of their own."""
    count = 100
    processes = [writer(file, prefix, count, repository) for prefix in "xy"]
    lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in processes] == [0, 0]
    assert len(lines) == 2 * count
    store = Store(file, NOWHERE)
    assert {line.split()[0]: int(line.split()[1]) for line in lines} == {
        name: store.get(Kind.VPCS, name).version for name in store.state.vpcs
    }
    assert problems(store.state, NOWHERE) == []
    store.close()


@pytest.mark.parametrize("acknowledged", [1, 7, 30])
def test_a_killed_process_leaves_what_it_acknowledged(file: Path, repository: Path, acknowledged: int) -> None:
    """Kill -9 in the midst of many puts: every acknowledged one is there, the state is valid, at most one more came."""
    process = writer(file, "k", 1_000_000, repository)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    names = [line.split()[0] for line in lines if line.endswith("\n")]
    store = Store(file, NOWHERE)
    assert len(names) >= acknowledged
    assert store.state.vpcs.keys() >= set(names)
    assert len(store.state.vpcs) <= len(names) + 1
    assert len(store.state.tenants) - len(store.state.vpcs) in (0, 1)
    assert problems(store.state, NOWHERE) == []
    store.put(Kind.TENANTS, "after", {})
    store.close()


def raw(file: Path, *statements: str) -> None:
    """Change a file behind the store's back."""
    connection = sqlite3.connect(file, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_files_of_older_versions_are_migrated(file: Path) -> None:
    """A file of each earlier format opens with its resources, and has the newest format then."""
    for version in range(1, len(MIGRATIONS)):
        file.unlink(missing_ok=True)
        body = json.dumps({"description": "old"})
        raw(
            file,
            *(statement for step in MIGRATIONS[:version] for statement in step),
            f"PRAGMA application_id = {APPLICATION_ID}",
            f"PRAGMA user_version = {version}",
            f"INSERT INTO resources VALUES ('tenants', '', 'a', 1, '{body}')",
            "UPDATE counters SET value = 1",
        )
        store = Store(file, GROUND)
        assert store.state.tenants["a"].description == "old"
        assert store.leases.acquire("main", "one", 0, 10).generation == 1
        store.close()


def test_a_failed_migration_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps or none."""
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE extra (x)", "NO SQL AT ALL")))
    with pytest.raises(ControllerError, match="cannot be used"):
        Store(file, GROUND)
    monkeypatch.undo()
    Store(file, GROUND).close()
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone()[0] == 0
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda file: file.write_bytes(b"no database " * 100), "is not a database of this program"),
        (lambda file: file.mkdir(), "cannot be opened for writing"),
        (lambda file: raw(file, "CREATE TABLE other (x)"), "is another program's database"),
        (lambda file: raw(file, "PRAGMA user_version = 1"), "is another program's database"),
        (
            lambda file: raw(file, f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 99"),
            "has format 99, of a newer version of this program; this one knows",
        ),
    ],
)
def test_other_files_are_refused_in_one_line_and_left_alone(file: Path, prepare: Any, words: str) -> None:
    """What is not ours is not touched, and the line names the file."""
    prepare(file)
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(ControllerError, match=words) as caught:
        Store(file, GROUND)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert before is None or file.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE resources SET body = '{' WHERE kind = 'tenants'", "tenant a is not JSON"),
        ("UPDATE resources SET body = '[]' WHERE kind = 'tenants'", "tenant a: a tenant is an object"),
        ("UPDATE resources SET body = '{\"ip\": 7}' WHERE kind = 'nodes'", "node v/g0: ip: 7"),
        ("UPDATE resources SET body = x'ff' WHERE kind = 'tenants'", "tenant a is not JSON"),
        ("UPDATE resources SET kind = 'tenets' WHERE kind = 'tenants'", "unknown kind 'tenets'"),
        ("DELETE FROM resources WHERE kind = 'tenants'", "does not fit the fabric: VPC v: there is no tenant a"),
        ("UPDATE resources SET name = 'g99' WHERE kind = 'nodes'", "node v/g99: there is no host g99"),
        ("DROP TABLE resources", "cannot be used: no such table"),
        ("DELETE FROM counters", "has lost its change counter"),
        ("UPDATE counters SET value = 'many'", "has lost its change counter"),
        ("UPDATE resources SET version = 'x' WHERE kind = 'nodes'", "a version is not the number of a change"),
        ("UPDATE counters SET value = 2", "a version is not the number of a change"),
    ],
)
def test_damaged_contents_are_refused_in_one_line(file: Path, statement: str, words: str) -> None:
    """Rows that make no sense end in a sentence that names the row."""
    store = Store(file, GROUND)
    fill(store)
    store.close()
    raw(file, statement)
    with pytest.raises(ControllerError, match=words) as caught:
        Store(file, GROUND)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["/proc/none/x.db", "/dev/null/x.db", "x\0y", ""])
def test_impossible_paths_are_refused_in_one_line(path: str) -> None:
    """Folders that do not exist, or take no files, or names that cannot be."""
    with pytest.raises(ControllerError) as caught:
        Store(path, GROUND)
    assert "\n" not in str(caught.value)


def test_a_full_disk_costs_the_change_only(file: Path) -> None:
    """The change is refused in one line, the state stays, and goes on when there is room again."""
    store = Store(file, GROUND)
    fill(store)
    pages = store._database._connection.execute("PRAGMA page_count").fetchone()[0]
    # The limit makes SQLite say what a full disk makes it say.
    store._database._connection.execute(f"PRAGMA max_page_count = {pages}")

    def put_until_full() -> None:
        for number in range(1000):
            store.put(Kind.TENANTS, f"t{number}", {"description": "x" * 500})

    with pytest.raises(ControllerError, match="the disk is full, so the change was not made"):
        put_until_full()
    last = store.state
    assert not store.reload_if_changed()
    assert store.state is last
    store._database._connection.execute("PRAGMA max_page_count = 1000000")
    store.put(Kind.TENANTS, "more", {})
    again = Store(file, GROUND)
    assert again.state == store.state
    again.close()
    store.close()


def test_memory_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file everything works, and no file appears."""
    monkeypatch.chdir(tmp_path)
    store = Store(":memory:", GROUND)
    fill(store)
    assert not store.reload_if_changed()
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_says_so(store: Store, file: Path) -> None:
    """Late callers get an error of ours; the state can still be read."""
    late = Store(file, GROUND)
    fill(store)
    late.close()
    late.close()
    with pytest.raises(ControllerError):
        late.put(Kind.TENANTS, "a", {})
    with pytest.raises(ControllerError):
        late.reload_if_changed()
    assert late.state == TenancyState()


def test_a_lease_has_one_holder_and_growing_generations(store: Store, file: Path) -> None:
    """Two controllers with the file between them: one holds, the other gets it after the end or the release."""
    other = Store(file, GROUND)
    one, two = store.leases, other.leases
    assert one.read("main") is None
    first = one.acquire("main", "one", 100, 50)
    assert (first.holder, first.generation, first.expires_ns) == ("one", 1, 150)
    assert two.acquire("main", "two", 149, 50) == first
    assert one.acquire("main", "one", 120, 50).generation == 1
    renewed = one.renew("main", "one", 1, 130, 50)
    assert renewed is not None
    assert renewed.expires_ns == 180
    assert two.renew("main", "two", 1, 130, 50) is None
    assert two.acquire("main", "two", 180, 50).generation == 2
    assert one.renew("main", "one", 1, 181, 50) is None
    assert not one.release("main", "one", 1, 181)
    assert two.release("main", "two", 2, 190)
    assert one.acquire("main", "one", 190, 50).generation == 3
    # Whoever lets a lease run out gets a new generation, even if nobody else had it meanwhile.
    assert one.renew("main", "one", 3, 240, 50) is None
    assert one.acquire("main", "one", 240, 50).generation == 4
    assert one.read("other") is None
    other.close()


def test_a_clock_that_is_set_back_shortens_no_lease(store: Store) -> None:
    """What was promised holds."""
    leases = store.leases
    leases.acquire("main", "one", 1000, 100)
    renewed = leases.renew("main", "one", 1, 500, 100)
    assert renewed is not None
    assert renewed.expires_ns == 1100
    assert leases.acquire("main", "one", 500, 100).expires_ns == 1100
    assert leases.acquire("main", "two", 500, 100).holder == "one"
