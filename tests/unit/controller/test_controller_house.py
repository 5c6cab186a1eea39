"""The controller's inner borders: who may import Ryu, and which modules stay pure."""

from __future__ import annotations

import ast
from pathlib import Path

import controller

FOLDER = Path(controller.__file__).parent
RYU = {"ryu_app.py", "ryu_codec.py", "ryu_match.py", "ryu_rules.py", "ryu_server.py"}
GREEN = {"green.py", "pending.py", "process.py", *RYU, "rest/server.py"}
IMPURE = {"time", "socket", "select", "random", "threading", "subprocess", "os", "asyncio", "signal", "eventlet", "ryu"}
PURE = {
    *(
        "actions.py",
        "changes.py",
        "damping.py",
        "frame.py",
        "groups.py",
        "hosts.py",
        "linkstate.py",
        "lookup.py",
        "match.py",
    ),
    *("nexthops.py", "passage.py", "repair.py", "session.py", "steering.py"),
    *("core.py", "designs.py", "events.py", "flows.py", "flowtable.py", "pathtrace.py", "pipeline.py"),
    *("prediction.py", "routing.py", "services.py", "spread.py", "stats.py"),
    *("rest/api.py", "rest/backend.py", "rest/http.py", "rest/ryu_shapes.py", "rest/v1.py"),
}


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
    """Ryu is not maintained: it stays behind a few modules, so that another framework could take its place."""
    using = {path for path, names in imports().items() if any(name.split(".")[0] == "ryu" for name in names)}
    assert using == RYU


def test_eventlet_is_taken_from_one_module() -> None:
    """Only `green` imports eventlet itself, so that it is prepared before anybody uses it."""
    found = imports()
    assert {path for path, names in found.items() if any(n.split(".")[0] == "eventlet" for n in names)} == {"green.py"}
    assert {path for path, names in found.items() if "controller.green" in names} == GREEN - {"green.py"}


def test_decisions_are_pure() -> None:
    """Modules that decide have no clock, no sockets, no randomness; they exist, and import only each other."""
    found = imports()
    assert set(found) >= PURE
    for path in PURE:
        assert not {name.split(".")[0] for name in found[path]} & IMPURE, path
        ours = {name for name in found[path] if name.startswith("controller.")}
        for name in ours:
            module = name.removeprefix("controller.").replace(".", "/") + ".py"
            assert module not in found or module in PURE, (path, name)


def test_modules_are_short() -> None:
    """300 lines, as the house asks."""
    assert {path.name for path in FOLDER.rglob("*.py") if len(path.read_text().splitlines()) > 300} == set()
