"""The one exception tree of the project, and the exit code that each branch stands for.

::

    EmulatorError                     exit code
    ├─ ScenarioError                   2   bad file, flag or value: names file, line and key
    │   ├─ UnitError
    │   └─ TopologyError
    ├─ HostError                       3   the machine lacks something: names it and the remedy
    │   └─ MissingCapability
    ├─ EngineError                     4   a kernel, command, link or node failed
    │   ├─ CommandError
    │   ├─ LinkError
    │   ├─ NodeError
    │   ├─ StalledError                    virtual time stands still: names the process that busy-waits
    │   └─ LimitError                      a limit on virtual or wall time was reached
    ├─ ControllerError                 5
    ├─ GatewayError                    6
    ├─ WorkloadError                   7
    ├─ ExpectationFailed              20   ran well, but the answer differs from what the scenario expects
    └─ InternalError                  70   our own defect
    (Ctrl-C)                         130

Exceptions keep the facts as attributes and build their one line in ``__str__``.
"""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report SIGINT."""


class EmulatorError(Exception):
    """Base of every error that a user may see; ``exit_code`` is the process's exit code."""

    exit_code = 70


class ScenarioError(EmulatorError):
    """Bad input: a scenario file, a command-line value or an API body.

    Args:
        reason: What is wrong, one sentence without a full stop.
        file: Path of the file, if there is one.
        line: 1-based line in that file, if known.
        key: Dotted key path, for example ``topology.links.rate``.
    """

    exit_code = 2

    def __init__(
        self, reason: str, *, file: str | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.line = line
        self.key = key

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f":{self.line}" if where else f"line {self.line}"
        parts = [part for part in (where, self.key) if part]
        return ": ".join([*parts, self.reason])


class UnitError(ScenarioError):
    """A quantity that is not a number with a known unit, or that is not exact."""


class TopologyError(ScenarioError):
    """A topology that cannot be: duplicate names, unknown nodes, disconnected parts, impossible links."""


class HostError(EmulatorError):
    """The machine lacks something, or something was left behind on it."""

    exit_code = 3


class MissingCapability(HostError):
    """A named capability is missing.

    Args:
        name: What is missing, for example ``netem``.
        remedy: What the user can do about it, one clause.
    """

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__(name, remedy)
        self.name = name
        self.remedy = remedy

    def __str__(self) -> str:
        return f"missing {self.name}: {self.remedy}"


class EngineError(EmulatorError):
    """A kernel, command, link or node failed."""

    exit_code = 4


class CommandError(EngineError):
    """A command ended with a non-zero status.

    Args:
        argv: The command, as a list.
        returncode: Its exit status (negative: the signal).
        stderr: What it said; the last line is shown.
        where: Node or namespace in which it ran.
    """

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str = "", where: str | None = None) -> None:
        super().__init__(argv, returncode)
        self.argv = list(argv)
        self.returncode = returncode
        self.stderr = stderr
        self.where = where

    def __str__(self) -> str:
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        said = f": {lines[-1]}" if lines else ""
        at = f" in {self.where}" if self.where else ""
        return f"'{' '.join(self.argv)}'{at} ended with status {self.returncode}{said}"


class LinkError(EngineError):
    """A link could not be made, or the kernel set something else than what was asked."""


class NodeError(EngineError):
    """A host or switch could not be made or did not answer."""


class StalledError(EngineError):
    """Virtual time stands still because a program busy-waits."""


class LimitError(EngineError):
    """A limit on virtual or wall time was reached."""


class ControllerError(EmulatorError):
    """The controller failed, or was asked for something it cannot do."""

    exit_code = 5


class GatewayError(EmulatorError):
    """The gateway's data plane failed."""

    exit_code = 6


class WorkloadError(EmulatorError):
    """A workload's program died, or what it printed cannot be understood."""

    exit_code = 7


class ExpectationFailed(EmulatorError):
    """The scenario ran well, but the answer differs from its ``expect``."""

    exit_code = 20


class InternalError(EmulatorError):
    """A defect of this project."""

    exit_code = 70
