"""Reads JSON bodies, and refuses whatever two readers could understand differently."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from controller.rest.http import MAX_BODY_BYTES, MOST_SHOWN, Problem

MOST_DEPTH = 64
MOST_DIGITS = 32
_EXACT = 1 << 53
_OPENING = frozenset(b"[{(")
_CLOSING = frozenset(b"]})")
_QUOTE, _APOSTROPHE, _BACKSLASH = b"\"'\\"


def parse_json(body: bytes) -> Any:
    """JSON text (RFC 8259) in UTF-8.

    Raises:
        Problem: It is something else, or nested too deeply, or has a key twice, a number that is none, or a number of
            absurd length.
    """
    text = decode(body)
    check_depth(body, quotes=(_QUOTE,))
    try:
        data = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_float,
        )
        if b"\\u" in body:
            json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {error.msg}: line {error.lineno}, column {error.colno}") from None
    except UnicodeEncodeError:
        raise Problem(400, "the body has a surrogate escape without its other half") from None
    except RecursionError:
        raise _too_deep() from None
    return data


def decode(body: bytes) -> str:
    """A body's text.

    Raises:
        Problem: It is empty, too large, or not UTF-8.
    """
    if len(body) > MAX_BODY_BYTES:
        raise Problem(413, f"the body has {len(body)} bytes, at most {MAX_BODY_BYTES} are taken")
    if not body.strip():
        raise Problem(400, "the body is empty; JSON is expected")
    if body.startswith(b"\xef\xbb\xbf"):
        raise Problem(400, "the body begins with a byte order mark, which JSON must not")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8: byte {error.start}") from None


def check_depth(body: bytes, quotes: tuple[int, ...]) -> None:
    """Refuse what is nested more deeply than any description of a resource.

    Raises:
        Problem: It is.
    """
    depth, quote, skip = 0, 0, False
    for byte in body:
        if skip:
            skip = False
        elif quote:
            if byte == _BACKSLASH:
                skip = True
            elif byte == quote:
                quote = 0
        elif byte in quotes:
            quote = byte
        elif byte in _OPENING:
            depth += 1
            if depth > MOST_DEPTH:
                raise _too_deep()
        elif byte in _CLOSING:
            depth -= 1


PYTHON_QUOTES = (_QUOTE, _APOSTROPHE)
"""Both kinds of quotation marks of Python's texts."""


def _too_deep() -> Problem:
    return Problem(400, f"the body is nested too deeply, at most {MOST_DEPTH} levels are taken")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Problem(400, f"the body has the key {key[:MOST_SHOWN]!r} twice in one object")
            seen.add(key)
    return found


def _constant(name: str) -> NoReturn:
    raise Problem(400, f"the body has {name}, which is not JSON")


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise Problem(400, f"the body has a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float | int:
    """A number; JSON does not tell 5.0 from 5."""
    value = float(text) if len(text) <= 2 * MOST_DIGITS else float("inf")
    if value in (float("inf"), float("-inf")):
        raise Problem(400, f"the body has the number {text[:40]}, which is too large or too long")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value
