"""JSON files that the controller is started with."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from emulator.errors import ScenarioError

MOST_BYTES = 64 << 20
"""Most of a file; a fabric of 10 000 switches and 30 000 links has 13 MB."""


def read_json(path: Path, *, private: bool = False, most_bytes: int = MOST_BYTES) -> object:
    """Read a regular file of JSON.

    Args:
        path: The file.
        private: Nobody but its owner may have access to it.
        most_bytes: Most that it may have.

    Raises:
        ScenarioError: It cannot be read, is no regular file, is too large, others have access, or it is not JSON.
    """
    file = str(path)
    data = _read(path, file, private, most_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ScenarioError("is not UTF-8 text", file=file) from None
    try:
        found: object = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"is not JSON: {error.msg}", file=file, line=error.lineno) from None
    except ValueError as error:  # a number of thousands of digits, a key that is there twice
        raise ScenarioError(f"is not JSON that one can use: {str(error)[:200]}", file=file) from None
    except RecursionError:
        raise ScenarioError("is not JSON that one can use: nested too deeply", file=file) from None
    return found


def _read(path: Path, file: str, private: bool, most_bytes: int) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ScenarioError("cannot be read: it is not a regular file", file=file)
        if private and status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise ScenarioError(f"others have access to it (mode {mode:04o}): chmod 600 {path}", file=file)
        with path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", file=file) from None
    except ValueError as error:  # a path with a zero byte
        raise ScenarioError(f"cannot be read: {error}", file=file) from None
    if len(data) > most_bytes:
        raise ScenarioError(f"has more than {most_bytes} bytes", file=file)
    return data


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"the key {twice!a} is twice in one object")
    return found
