"""A YAML file as plain data with the line of every key: the text side of a scenario, before it means anything.

Deliberately a small part of YAML: mappings, lists, text, numbers, true, false and null. Anchors, aliases, tags and
several documents are refused, so a file is as large as it looks and reads the same to people and to the program.
Text such as ``on``, ``yes`` or ``1:30`` stays text. The tree is built from parser events without recursion.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import yaml

from emulator.errors import ScenarioError

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_VALUES = 20_000

KeyPath = tuple[str | int, ...]
"""Mapping keys and list indexes from the root."""

_INTEGER = re.compile(r"[-+]?(?:0|[1-9](?:_?[0-9])*)")
_FLOAT = re.compile(r"[-+]?[0-9](?:_?[0-9])*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_MAX_NUMBER_CHARS = 40
_CONSTANTS: dict[str, object] = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True)
class Source:
    """A read file.

    Attributes:
        file: Its path as the user wrote it.
        text: Its text.
        data: Its root mapping, made of dict, list, str, int, float, bool and None.
        lines: 1-based line of each value by its key path (of the key, where the value has one).
    """

    file: str
    text: str
    data: dict[str, Any]
    lines: Mapping[KeyPath, int]

    def error(self, path: KeyPath, reason: str) -> ScenarioError:
        """An error at a value, with the line of it or of the nearest thing around it that has one."""
        return ScenarioError(reason, file=self.file, line=line_of(self.lines, path), key=dotted(path))


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Line of a value, or of the nearest thing around it that has one."""
    while path not in lines and path:
        path = path[:-1]
    return lines.get(path)


def dotted(path: KeyPath) -> str:
    """A key path as text on one line: ``workloads[0].count``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if part.isprintable() else f".{part!r}"
    return text.lstrip(".")


def read_source(path: str | Path) -> Source:
    """Read a YAML file.

    Raises:
        ScenarioError: It cannot be read, is too large, is not text, or is not the part of YAML described above.
    """
    file = str(path)
    return parse_source(_read_text(Path(path), file), file)


def parse_source(text: str, file: str) -> Source:
    """Parse YAML text; *file* is only named in errors.

    Raises:
        ScenarioError: As `read_source`.
    """
    reader = _Reader(file)
    try:
        data = reader.read(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = (error.problem or error.context or "syntax error").replace("\n", " ")
        raise ScenarioError(f"not valid YAML: {reason}", file=file, line=mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise ScenarioError(f"not valid YAML: {error.reason}", file=file, line=line) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML's scanner lets some errors of Python's own out, for example for \U escapes beyond Unicode.
        words = str(error).splitlines() or [repr(error)]
        raise ScenarioError(f"not valid YAML: {words[0]}", file=file) from None
    return Source(file, text, data, MappingProxyType(reader.lines))


def _read_text(path: Path, file: str) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ScenarioError("is not a file", file=file)
        if status.st_size > MAX_FILE_BYTES:
            raise ScenarioError(f"is larger than {MAX_FILE_BYTES // 1024} KiB, which no scenario needs", file=file)
        raw = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror or error}", file=file) from None
    except ValueError as error:  # a path with a zero byte
        raise ScenarioError(f"cannot be read: {error}", file=file) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ScenarioError("is not UTF-8 text", file=file, line=line) from None
    if "\0" in text:
        raise ScenarioError("is binary, not YAML text", file=file, line=text.count("\n", 0, text.index("\0")) + 1)
    return text


def _line(event: yaml.Event) -> int:
    """1-based line on which an event starts."""
    return event.start_mark.line + 1 if event.start_mark else 1


@dataclass
class _Open:
    """A mapping or list whose end has not come yet."""

    container: dict[str, Any] | list[Any]
    path: KeyPath
    key: str | None = None


class _Reader:
    """Builds the tree from parser events, keeping the stack of open containers itself."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.lines: dict[KeyPath, int] = {}
        self._stack: list[_Open] = []
        self._root: Any = None
        self._documents = 0
        self._values = 0

    def read(self, text: str) -> dict[str, Any]:
        for event in self._events(text):
            self._take(event)
        if not self._documents or self._root is None:
            raise ScenarioError("is empty", file=self._file)
        if not isinstance(self._root, dict):
            raise ScenarioError("a mapping with the key 'scenario' is expected at the top", file=self._file, line=1)
        return self._root

    def _events(self, text: str) -> Iterator[yaml.Event]:
        yield from yaml.parse(text, Loader=yaml.SafeLoader)

    def _fail(self, reason: str, event: yaml.Event, path: KeyPath = ()) -> NoReturn:
        raise ScenarioError(reason, file=self._file, line=_line(event), key=dotted(path) or None)

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fail("has several YAML documents, only one is expected", event)
        elif isinstance(event, yaml.AliasEvent):
            self._fail("aliases are not used here: write the value out", event, self._here(event))
        elif isinstance(event, yaml.ScalarEvent):
            self._refuse_extras(event)
            if self._expects_key():
                self._take_key(event)
            else:
                self._place(self._scalar(event), event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._refuse_extras(event)
            if self._expects_key():
                self._fail("a key is text, not a list or mapping", event, self._stack[-1].path)
            container: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
            path = self._place(container, event)
            if len(self._stack) >= MAX_DEPTH:
                self._fail(f"is nested deeper than {MAX_DEPTH} levels", event)
            self._stack.append(_Open(container, path))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._stack.pop()

    def _refuse_extras(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.ScalarEvent) and any("\ud800" <= char <= "\udfff" for char in event.value):
            self._fail("half a character: surrogates cannot be written", event, self._here(event))
        if event.anchor is not None:
            self._fail("anchors are not used here: write the value out", event, self._here(event))
        if getattr(event, "tag", None) not in (None, "!"):
            self._fail("tags are not used here", event, self._here(event))

    def _here(self, event: yaml.Event) -> KeyPath:
        if not self._stack or (self._expects_key() and not isinstance(event, yaml.CollectionStartEvent)):
            return self._stack[-1].path if self._stack else ()
        return self._next_path()

    def _expects_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].container, dict) and self._stack[-1].key is None

    def _next_path(self) -> KeyPath:
        if not self._stack:
            return ()
        top = self._stack[-1]
        if isinstance(top.container, list):
            return (*top.path, len(top.container))
        return (*top.path, top.key or "")

    def _take_key(self, event: yaml.ScalarEvent) -> None:
        top = self._stack[-1]
        key = str(event.value)
        path = (*top.path, key)
        if path in self.lines:
            self._fail(f"duplicate key, first given on line {self.lines[path]}", event, path)
        self.lines[path] = _line(event)
        top.key = key

    def _place(self, value: Any, event: yaml.Event) -> KeyPath:
        self._values += 1
        if self._values > MAX_VALUES:
            self._fail(f"has more than {MAX_VALUES} values, which no scenario needs", event)
        path = self._next_path()
        self.lines.setdefault(path, _line(event))
        if not self._stack:
            self._root = value
            return path
        top = self._stack[-1]
        if isinstance(top.container, list):
            top.container.append(value)
        else:
            top.container[path[-1]] = value  # type: ignore[index]  # a mapping's path ends in its key
            top.key = None
        return path

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if event.style is not None:  # quoted or block text
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if len(text) <= _MAX_NUMBER_CHARS:
            if _INTEGER.fullmatch(text):
                return int(text.replace("_", ""))
            if _FLOAT.fullmatch(text) and not re.fullmatch(r"[-+]?0[0-9_]+", text):
                number = float(text.replace("_", ""))
                if not math.isfinite(number):
                    self._fail(f"{text} is out of range", event, self._here(event))
                return number
        return text
