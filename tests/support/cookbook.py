"""Reads examples out of a document, and compares what they show with what really comes.

In ``console`` blocks a line with ``$`` is a command, what follows is its output; in ``sh`` blocks all lines are
commands. ``…`` in an output stands for anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ANYTHING = "…"
_FENCE = re.compile(r"^```(\w*)$")
_HEAD = re.compile(r"HTTP/1\.1 \d{3} ")


@dataclass(frozen=True)
class Example:
    """A command of the document.

    Attributes:
        line: Where it begins, from 1.
        command: For a shell, on one line.
        shown: The output that the document shows; None: it shows none.
    """

    line: int
    command: str
    shown: tuple[str, ...] | None


def blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """The fenced blocks: what they are, where the first line is, and the lines."""
    kind: str | None = None
    lines: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and kind is None:
            kind, lines, start = fence[1], [], number + 1
        elif fence and kind is not None:
            yield kind, start, lines
            kind = None
        elif kind is not None:
            lines.append(line)
    assert kind is None, f"the block at line {start} has no end"


def examples(text: str) -> list[Example]:
    """All commands of a document, in order."""
    found: list[Example] = []
    for kind, start, lines in blocks(text):
        assert kind in ("sh", "console"), f"line {start}: a block of the kind {kind!r}"
        position = 0
        while position < len(lines):
            line = start + position
            command = lines[position]
            position += 1
            if kind == "console":
                assert command.startswith("$ "), f"line {line}: an output without a command"
                command = command[2:]
            while command.endswith("\\"):
                command = command[:-1] + lines[position].strip()
                position += 1
            shown: list[str] = []
            while kind == "console" and position < len(lines) and not lines[position].startswith("$ "):
                shown.append(lines[position])
                position += 1
            found.append(Example(line, command, tuple(shown) if kind == "console" else None))
    return found


def mismatch(shown: Sequence[str], came: str) -> str:
    """What is wrong with an output; empty: nothing.

    An answer with its head has the status line and the headers that are shown, in any order among others, and the body.
    JSON is compared as such, everything else line by line.
    """
    if shown and _HEAD.match(shown[0]):
        head, _, body = came.replace("\r\n", "\n").partition("\n\n")
        status, *headers = head.split("\n")
        end = list(shown).index("") if "" in shown else len(shown)
        if not _text_like(shown[0], status):
            return f"the status is {status!r}"
        for header in shown[1:end]:
            if not any(_text_like(header.lower(), one.lower()) for one in headers):
                return f"there is no header {header!r} among {headers}"
        return _body(shown[end + 1 :], body)
    return _body(shown, came)


def _body(shown: Sequence[str], came: str) -> str:
    text = "\n".join(shown)
    if text[:1] in ("{", "["):
        pattern = json.loads(_as_json(text))
        return _json_like(pattern, json.loads(came), "")
    return "" if _lines_like(list(shown), came.splitlines()) else f"it is {came[:2000]!r}"


def _as_json(text: str) -> str:
    """Make ``…`` that stands alone a member, an element or a value."""
    out: list[str] = []
    stack: list[str] = []
    quoted = escaped = False
    last = ""
    for char in text:
        if quoted:
            out.append(char)
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
            continue
        if char == ANYTHING:
            out.append(f'"{ANYTHING}": null' if stack[-1:] == ["{"] and last in "{," else f'"{ANYTHING}"')
        else:
            out.append(char)
        quoted = char == '"'
        if char in "{[":
            stack.append(char)
        elif char in "}]":
            stack.pop()
        if not char.isspace():
            last = char
    return "".join(out)


def _json_like(pattern: Any, value: Any, where: str) -> str:
    if pattern == ANYTHING:
        return ""
    if isinstance(pattern, dict) and isinstance(value, dict):
        rest = {name for name in value if name not in pattern}
        if ANYTHING not in pattern and rest:
            return f"{where or 'it'} has {sorted(rest)} as well"
        for name, inner in pattern.items():
            if name == ANYTHING:
                continue
            if name not in value:
                return f"{where or 'it'} has no {name}"
            found = _json_like(inner, value[name], f"{where}/{name}")
            if found:
                return found
        return ""
    if isinstance(pattern, list) and isinstance(value, list):
        return "" if _list_like(pattern, value) else f"{where or 'it'} is {json.dumps(value)[:2000]}"
    if isinstance(pattern, str) and isinstance(value, str):
        return "" if _text_like(pattern, value) else f"{where or 'it'} is {value!r}"
    same = type(pattern) is type(value) and pattern == value
    return "" if same else f"{where or 'it'} is {json.dumps(value)[:2000]}"


def _list_like(pattern: list[Any], value: list[Any]) -> bool:
    if not pattern:
        return not value
    if pattern[0] == ANYTHING:
        return any(_list_like(pattern[1:], value[start:]) for start in range(len(value) + 1))
    return bool(value) and not _json_like(pattern[0], value[0], "") and _list_like(pattern[1:], value[1:])


def _lines_like(pattern: list[str], lines: list[str]) -> bool:
    if not pattern:
        return not lines
    if pattern[0] == ANYTHING:
        return any(_lines_like(pattern[1:], lines[start:]) for start in range(len(lines) + 1))
    return bool(lines) and _text_like(pattern[0], lines[0]) and _lines_like(pattern[1:], lines[1:])


def _text_like(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split(ANYTHING)), text, re.DOTALL) is not None
