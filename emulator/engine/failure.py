"""Errors that a job left behind, as exceptions of this project's tree."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from emulator import errors
from emulator.engine.progress import ERROR_FILE
from emulator.errors import EmulatorError, EngineError, HostError, MissingCapability

_log = logging.getLogger(__name__)


def _class_of(kind: str, exit_code: int) -> type[EmulatorError]:
    """The named exception, or, for a name that this project does not have, the branch of the exit code."""
    named = getattr(errors, kind, None)
    if isinstance(named, type) and issubclass(named, EmulatorError):
        return named
    for branch in EmulatorError.__subclasses__():
        if branch.exit_code == exit_code:
            return branch
    return EngineError


def rebuild(kind: str, message: str, exit_code: int) -> EmulatorError:
    """Make the exception that a job reported.

    Args:
        kind: Name of its class.
        message: Its one line.
        exit_code: Exit code of the job; decides the branch if *kind* is unknown.

    Returns:
        An instance whose text is *message*. Classes that are made of several facts are represented by the nearest
        base that is made of a message alone (same exit code).
    """
    wanted = _class_of(kind, exit_code)
    if wanted is MissingCapability:
        name, separator, remedy = message.removeprefix("missing ").partition(": ")
        return MissingCapability(name, remedy) if separator else HostError(message)
    if wanted is errors.CommandError:
        return EngineError(message)
    return wanted(message)


def reported_error(out: Path) -> EmulatorError | None:
    """Read the error that the job of a results folder left, if it left one."""
    path = out / ERROR_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return rebuild(str(data["kind"]), str(data["message"]), int(data["exit_code"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        _log.warning("%s cannot be understood: %s", path, error)
        return None
