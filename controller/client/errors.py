"""What a controller refuses, by its RFC 9457 bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.errors import ControllerError

_MOST_SHOWN = 200


class NotListening(ControllerError):
    """Nobody listens at the controller's address."""


class Refusal(ControllerError):
    """The controller answered with a problem. Subclasses stand for what a program may want to tell apart.

    Args:
        where: Address that was asked.
        status: HTTP status.
        problem: The body's members; empty if it was no problem body.
        text: The body, if it was none.
        headers: Of the answer, names in lower case.

    Attributes:
        detail: One sentence for this occurrence.
        parameter: The parameter at fault, or empty.
        errors: What is wrong with a body: ``pointer`` and ``detail`` of each mistake.
        etag: Version that the resource has, where the controller told it.
        retry_after_s: When to try again, in seconds; None: the controller does not say.
    """

    def __init__(
        self, where: str, status: int, problem: Mapping[str, Any], text: bytes = b"", headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(where, status)
        self.where = where
        self.status = status
        self.problem = dict(problem)
        self.detail = str(problem.get("detail") or repr(text[:_MOST_SHOWN]))
        self.parameter = str(problem.get("parameter", ""))
        self.errors: list[dict[str, str]] = [one for one in problem.get("errors", []) if isinstance(one, dict)]
        self.etag = headers.get("etag")
        retry = headers.get("retry-after", "")
        self.retry_after_s = int(retry) if retry.isascii() and retry.isdigit() else None

    def __str__(self) -> str:
        return f"{self.where}: {self.status} {self.detail}"


class Invalid(Refusal):
    """400, 422: the request or its body is wrong; `parameter` or `errors` say where."""


class Unauthorized(Refusal):
    """401: the controller wants a token, or does not know this one."""


class Forbidden(Refusal):
    """403: the token's owner may not do this."""


class NotFound(Refusal):
    """404: there is no such resource."""


class Conflict(Refusal):
    """409: it does not fit what there is already, or is in use."""


class Outdated(Refusal):
    """412: somebody else changed the resource, or made it already; `etag` is its version now."""


class VersionNeeded(Refusal):
    """428: the resource exists, and replacing it demands its version; `etag` is it."""


class Unavailable(Refusal):
    """503, 504: not now: a standby, too many connections, or a switch that does not answer."""


_KINDS: Mapping[int, type[Refusal]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Outdated,
    422: Invalid,
    428: VersionNeeded,
    503: Unavailable,
    504: Unavailable,
}


def refusal(where: str, status: int, data: object, text: bytes, headers: Mapping[str, str]) -> Refusal:
    """The error for an answer that is none of success."""
    problem = data if isinstance(data, dict) else {}
    return _KINDS.get(status, Refusal)(where, status, problem, text, headers)
