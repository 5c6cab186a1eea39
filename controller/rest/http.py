"""Requests, responses and problems as plain data, and the table of routes. No sockets."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
MAX_TARGET_BYTES = 8192
MAX_HEADERS_BYTES = 65_536
MAX_BODY_BYTES = 65_536
MOST_WAIT_MS = 60_000
"""The longest that ``/v1/health`` waits."""


class Problem(Exception):
    """An answer that is not what was asked for; becomes an RFC 9457 body.

    Args:
        status: HTTP status.
        detail: One sentence for this occurrence.
        headers: Further response headers.
        extra: Further members of the body, for example ``parameter``.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **extra: str) -> None:
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
        path: Decoded path.
        query: Parameters, each at most once.
    """

    method: str
    path: str
    query: Mapping[str, str]

    def known(self, *names: str) -> None:
        """Refuse parameters with other names."""
        for name in self.query:
            if name not in names:
                allowed = ", ".join(names) or "none"
                raise Problem(400, f"unknown parameter {name!r}; this resource takes: {allowed}", parameter=name)

    def integer(self, name: str, default: int | None, lowest: int, highest: int) -> int | None:
        """A number among the parameters; decimal, or hexadecimal with ``0x``."""
        text = self.query.get(name)
        if text is None:
            return default
        value = parse_integer(text)
        if value is None or not lowest <= value <= highest:
            raise Problem(400, f"{name} is a number from {lowest} to {highest}, not {text!r}", parameter=name)
        return value

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        """One of several words among the parameters."""
        text = self.query.get(name, default)
        if text not in choices:
            raise Problem(400, f"{name} is one of {', '.join(choices)}, not {text!r}", parameter=name)
        return text

    def text(self, name: str) -> str:
        """A parameter that must be there."""
        text = self.query.get(name)
        if not text:
            raise Problem(400, f"the parameter {name} is missing", parameter=name)
        return text


@dataclass(frozen=True)
class Response:
    """A response with its body.

    Attributes:
        status: HTTP status.
        body: Bytes.
        content_type: Media type.
        headers: Further headers.
    """

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


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


def json_response(data: Any, status: int = 200) -> Response:
    """A JSON body."""
    return Response(status, json.dumps(data).encode() + b"\n")


def problem_response(problem: Problem, instance: str) -> Response:
    """A problem as RFC 9457 writes it."""
    body = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.detail,
        "instance": instance,
        **problem.extra,
    }
    return Response(problem.status, json.dumps(body).encode() + b"\n", PROBLEM_JSON, problem.headers)


def parse_request(method: str, target: str) -> Request:
    """Split a request target.

    Raises:
        Problem: It is too long, malformed, or has a parameter twice.
    """
    if len(target) > MAX_TARGET_BYTES:
        raise Problem(414, f"the request target has {len(target)} bytes, at most {MAX_TARGET_BYTES} are taken")
    try:
        parts = urlsplit(target)
        path = unquote(parts.path, errors="strict")
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    except ValueError:
        raise Problem(400, "the request target is malformed") from None
    query: dict[str, str] = {}
    for name, value in pairs:
        if name in query:
            raise Problem(400, f"the parameter {name!r} is there twice", parameter=name)
        query[name] = value
    return Request(method, path, query)


Handler = Callable[..., Response]
"""Takes the request and the path's variables."""


class Router:
    """Finds the handler for a path. Patterns are like ``/stats/flow/{dpid}``."""

    def __init__(self) -> None:
        self._routes: list[tuple[list[str], Handler]] = []

    def add(self, pattern: str, handler: Handler) -> None:
        """Add a resource that can be read."""
        self._routes.append((pattern.strip("/").split("/"), handler))

    def dispatch(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            Problem: There is no such resource, or it cannot be used with this method.
        """
        segments = request.path.strip("/").split("/")
        for pattern, handler in self._routes:
            if len(pattern) != len(segments):
                continue
            variables = {}
            for part, segment in zip(pattern, segments, strict=True):
                if part.startswith("{"):
                    variables[part[1:-1]] = segment
                elif part != segment:
                    break
            else:
                if request.method not in ("GET", "HEAD"):
                    raise Problem(405, f"{request.method} is not possible here: read-only", {"Allow": "GET, HEAD"})
                return handler(request, **variables)
        raise Problem(404, f"there is no resource {request.path[:200]!r}")
