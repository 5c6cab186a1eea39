"""HTTP/1.1 request heads (RFC 9112) from bytes, strictly: what two readers could understand differently is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controller.rest.http import MAX_BODY_BYTES, MAX_HEADERS_BYTES, MAX_TARGET_BYTES, MOST_SHOWN, Problem
from controller.rest.routes import METHODS

MOST_FIELDS = 100
MAX_HEAD_BYTES = MAX_TARGET_BYTES + MAX_HEADERS_BYTES
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_VERSION = re.compile(rb"HTTP/([0-9])\.([0-9])")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_END = re.compile(rb"\n\r?\n")
_ONCE = ("host", "content-length", "content-type", "authorization", "transfer-encoding", "expect", "last-event-id")
_SHORT_NUMBER = 18


@dataclass(frozen=True)
class Head:
    """What comes before the body.

    Attributes:
        method: As it was sent.
        target: As it was sent.
        minor: 0 or 1: HTTP/1.0 or HTTP/1.1.
        headers: By name in lower case; repeated ones are joined with commas.
    """

    method: str
    target: str
    minor: int
    headers: Mapping[str, str]

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow."""
        words = {word.strip().lower() for word in self.headers.get("connection", "").split(",")}
        return "close" not in words and (self.minor >= 1 or "keep-alive" in words)

    @property
    def expects_continue(self) -> bool:
        """Whether the body is sent only when asked for."""
        return "expect" in self.headers

    def body_bytes(self) -> int:
        """Length of the body.

        Raises:
            Problem: It is not given properly, or too large.
        """
        if "transfer-encoding" in self.headers:
            raise Problem(411, "a body needs a Content-Length; other transfer encodings are not taken")
        text = self.headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit()):
            raise Problem(400, "the Content-Length is not a number")
        digits = text.lstrip("0")
        if len(digits) > _SHORT_NUMBER or int(digits or "0") > MAX_BODY_BYTES:
            raise Problem(413, f"a body of {text[:40]} bytes is too large, at most {MAX_BODY_BYTES} are taken")
        return int(digits or "0")


def split_head(data: bytes | bytearray) -> int | None:
    """Where the head in what was received so far ends, or None: there is more to come.

    Raises:
        Problem: It is too long already.
    """
    found = _END.search(data)
    if found is not None and found.end() <= MAX_HEAD_BYTES:
        return found.end()
    if found is None and len(data) <= MAX_HEAD_BYTES:
        if b"\n" not in data and len(data) > MAX_TARGET_BYTES + 100:
            raise _long_target(len(data))
        return None
    if b"\n" not in data[: MAX_TARGET_BYTES + 100]:
        raise _long_target(len(data))
    raise Problem(431, f"the headers have more than {MAX_HEADERS_BYTES} bytes")


def parse_head(data: bytes) -> Head:
    """Read a head, up to and with the empty line.

    Raises:
        Problem: It is none, or a limit is exceeded.
    """
    lines = data.split(b"\n")
    if any(not line.endswith(b"\r") for line in lines[:-1]) or b"\r" in data.replace(b"\r\n", b""):
        raise Problem(400, "lines of the head end with CR LF, and only there CR or LF may be")
    first, *fields = [line[:-1] for line in lines[:-1]]
    method, target, minor = _request_line(first)
    headers = _headers(fields[:-1])
    if minor >= 1 and "host" not in headers:
        raise Problem(400, "the Host header is missing")
    expectation = headers.get("expect", "100-continue")
    if expectation.lower() != "100-continue":
        raise Problem(417, f"the expectation {expectation[:80]!r} cannot be met")
    return Head(method, target, minor, headers)


def _request_line(line: bytes) -> tuple[str, str, int]:
    parts = line.split(b" ")
    version = _VERSION.fullmatch(parts[-1])
    if len(parts) != 3 or version is None or not _TOKEN.fullmatch(parts[0]):
        raise Problem(400, "the first line is not an HTTP request")
    if version[1] != b"1":
        raise Problem(505, f"HTTP/1.0 and HTTP/1.1 are spoken here, not {parts[2].decode()}")
    if len(parts[1]) > MAX_TARGET_BYTES:
        raise _long_target(len(parts[1]))
    if not _TARGET.fullmatch(parts[1]):
        raise Problem(400, "the request target has characters that must be percent-encoded")
    method = parts[0].decode()
    if method not in METHODS:
        raise Problem(501, f"the method {method[:40]} is not known here")
    return method, parts[1].decode(), 0 if version[2] == b"0" else 1


def _headers(lines: list[bytes]) -> dict[str, str]:
    size = sum(len(line) + 2 for line in lines)
    if size > MAX_HEADERS_BYTES:
        raise Problem(431, f"the headers have {size} bytes, at most {MAX_HEADERS_BYTES} are taken")
    if len(lines) > MOST_FIELDS:
        raise Problem(431, f"there are {len(lines)} headers, at most {MOST_FIELDS} are taken")
    headers: dict[str, str] = {}
    for line in lines:
        name_bytes, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name_bytes) or not _VALUE.fullmatch(value):
            shown = line[:MOST_SHOWN].decode("ascii", "replace")
            raise Problem(400, f"{shown!r} is not a header")
        name, text = name_bytes.decode().lower(), value.strip(b" \t").decode("latin-1")
        if name in headers:
            if name in _ONCE:
                raise Problem(400, f"the header {name} is there twice")
            text = f"{headers[name]}, {text}"
        headers[name] = text
    return headers


def _long_target(size: int) -> Problem:
    return Problem(414, f"the request target has {size} bytes or more, at most {MAX_TARGET_BYTES} are taken")
