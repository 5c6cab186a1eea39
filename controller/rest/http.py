"""Requests, responses and problems as plain data. No sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel

if TYPE_CHECKING:
    from controller.rest.events import Follow

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
MAX_TARGET_BYTES = 8192
MAX_HEADERS_BYTES = 65_536
MAX_BODY_BYTES = 1 << 20
MOST_WAIT_MS = 60_000
"""The longest that ``/v1/health`` waits."""
MOST_SHOWN = 200


class Problem(Exception):
    """An answer that is not what was asked for; becomes an RFC 9457 body.

    Args:
        status: HTTP status.
        detail: One sentence for this occurrence.
        headers: Further response headers.
        extra: Further members of the body, for example ``parameter`` or ``errors``.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(status, detail)
        self.status = HTTPStatus(status)
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.status.value} {self.status.phrase}: {self.detail}"


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        method: In capitals.
        segments: The path, split at its slashes and then decoded, so that a name may contain an encoded slash.
        query: Parameters, each at most once.
        headers: By name in lower case.
        body: Undecoded.
        path: As it stood in the request line, for messages.
    """

    method: str
    segments: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    path: str = "/"

    def known(self, *names: str) -> None:
        """Refuse parameters with other names."""
        for name in self.query:
            if name not in names:
                allowed = ", ".join(names) or "none"
                text = name[:MOST_SHOWN]
                raise Problem(400, f"unknown parameter {text!r}; this resource takes: {allowed}", parameter=text)


@dataclass(frozen=True)
class Response:
    """A response with its body.

    Attributes:
        status: HTTP status.
        body: Bytes.
        content_type: Media type.
        headers: Further headers.
        follow: Instead of the body: what to send as it happens.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    follow: Follow | None = None

    def with_headers(self, **headers: str) -> Response:
        """The same with further headers; underscores in names become hyphens."""
        return replace(self, headers={**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}})


def parse_integer(text: str) -> int | None:
    """A non-negative decimal or ``0x`` hexadecimal number of at most 20 characters, or None."""
    if not text.isascii() or len(text) > 20:
        return None
    if text.isdigit():
        return int(text)
    digits = text[2:]
    if text[:2].lower() == "0x" and digits and all(char in "0123456789abcdefABCDEF" for char in digits):
        return int(digits, 16)
    return None


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON body; of a model, the fields that were set."""
    text = data.model_dump_json(exclude_unset=True) if isinstance(data, BaseModel) else json.dumps(data)
    return Response(status, text.encode() + b"\n", headers=dict(headers or {}))


def problem_response(problem: Problem, instance: str) -> Response:
    """A problem as RFC 9457 writes it."""
    body = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail,
        "instance": _as_uri(instance),
        **problem.extra,
    }
    return Response(problem.status, json.dumps(body).encode() + b"\n", PROBLEM_JSON, problem.headers)


def _as_uri(text: str) -> str:
    """A request's path as it may stand in a URI, whatever was in it."""
    return "".join(char if "!" <= char <= "~" and char not in '"<>\\^`{|}' else "%3F" for char in text)[:MOST_SHOWN]


def parse_request(method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Request:
    """Split a request target, in origin form or absolute form.

    Raises:
        Problem: It is too long, malformed, or has a parameter twice.
    """
    if len(target) > MAX_TARGET_BYTES:
        raise Problem(414, f"the request target has {len(target)} bytes, at most {MAX_TARGET_BYTES} are taken")
    whole = target.split("#", 1)[0]
    if whole[:7].lower() == "http://":
        authority, slash, rest = whole[7:].partition("/")
        whole = slash + rest
        if not authority or "@" in authority:
            raise Problem(400, "the request target is malformed")
    if not whole.startswith("/"):
        raise Problem(400, "the request target is malformed: it begins with a slash")
    path, _, query_text = whole.partition("?")
    try:
        segments = tuple(unquote(part, errors="strict") for part in path[1:].split("/"))
        pairs = parse_qsl(
            query_text, keep_blank_values=True, strict_parsing=bool(query_text), errors="strict", max_num_fields=64
        )
        for text in (*segments, *(text for pair in pairs for text in pair)):
            text.encode()
    except ValueError:
        raise Problem(400, "the request target is malformed") from None
    query: dict[str, str] = {}
    for name, value in pairs:
        if name in query:
            raise Problem(400, f"the parameter {name[:MOST_SHOWN]!r} is there twice", parameter=name[:MOST_SHOWN])
        query[name] = value
    return Request(method, segments, query, dict(headers or {}), body, path)
