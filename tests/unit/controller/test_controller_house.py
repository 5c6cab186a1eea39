"""The controller's inner borders: who may import Ryu, and which modules stay pure."""

from __future__ import annotations

import ast
from pathlib import Path

import controller

FOLDER = Path(controller.__file__).parent
GREEN = {
    *("green.py", "driver.py", "elector.py", "pending.py", "process.py", "gateways/connections.py"),
    *("rest/connection.py", "rest/server.py", "rest/streams.py", "slices.py"),
}
"""Modules that use green threads; those that know Ryu, whose names begin with ``ryu_``, do so too."""
SHELL = {
    *GREEN,
    *("__init__.py", "__main__.py", "assembly.py", "cli.py", "config.py", "log.py"),
    *("client/__init__.py", "client/client.py", "client/stream.py", "client/wire.py"),
    *("tenancy/claim.py", "tenancy/database.py", "tenancy/leases.py", "tenancy/migrations.py", "tenancy/store.py"),
}
"""Modules that touch the world: files, sockets, clocks. All others decide."""
IMPURE = {
    *("time", "socket", "select", "random", "threading", "subprocess", "os", "asyncio", "signal", "sqlite3"),
    *("eventlet", "ryu"),
}


def knows_ryu(path: str) -> bool:
    """Whether a module may import Ryu."""
    return path.startswith("ryu_")


def imports() -> dict[str, set[str]]:
    """What each module imports, by its path below the package."""
    found: dict[str, set[str]] = {}
    for path in FOLDER.rglob("*.py"):
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[str(path.relative_to(FOLDER))] = names
    return found


def test_few_modules_import_ryu() -> None:
    """Ryu is not maintained: it stays behind modules named after it, so that another framework could take its place."""
    using = {path for path, names in imports().items() if any(name.split(".")[0] == "ryu" for name in names)}
    assert using
    assert [path for path in using if not knows_ryu(path)] == []


def test_eventlet_is_taken_from_one_module() -> None:
    """Only `green` imports eventlet itself, so that it is prepared before anybody uses it."""
    found = imports()
    assert {path for path, names in found.items() if any(n.split(".")[0] == "eventlet" for n in names)} == {"green.py"}
    using = {path for path, names in found.items() if "controller.green" in names}
    assert {path for path in using if not knows_ryu(path)} == GREEN - {"green.py"}


def test_decisions_are_pure() -> None:
    """Modules that decide have no clock, no sockets, no randomness, and import none that has, but for types."""
    found = imports()
    assert set(found) >= SHELL
    pure = {path for path in found if path not in SHELL and not knows_ryu(path)}
    assert {"core/core.py", "designs.py", "flowtable.py", "rest/api.py", "tenancy/compile.py"} <= pure
    for path in pure:
        assert not {name.split(".")[0] for name in found[path]} & IMPURE, path
        for name in found[path]:
            module = name.removeprefix("controller.").replace(".", "/") + ".py"
            stored = path.startswith("rest/") and module == "tenancy/store.py"
            assert module not in found or module in pure or stored, (path, name)


def test_modules_are_short() -> None:
    """300 lines, as the house asks."""
    assert {path.name for path in FOLDER.rglob("*.py") if len(path.read_text().splitlines()) > 300} == set()
