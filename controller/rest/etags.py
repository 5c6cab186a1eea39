"""Conditional requests (RFC 9110, section 13) on resources whose version is a number."""

from __future__ import annotations

import re

from controller.rest.http import Problem, Request, Response
from controller.rest.parameters import Parameter

_VERSION = re.compile(r'(W/)?"?([1-9][0-9]{0,17})"?', re.ASCII)


class ETags(Parameter):
    """A header with entity tags, or a star. Tags that are none of ours match nothing; quotes may be forgotten."""

    def read(self, request: Request) -> Condition | None:
        """The condition, or None: there is none."""
        text = request.headers.get(self.name.lower())
        if text is None:
            return None
        if text.strip() == "*":
            return Condition(anything=True)
        found = [match for part in text.split(",") if (match := _VERSION.fullmatch(part.strip()))]
        strong = frozenset(int(match[2]) for match in found if not match[1])
        return Condition(strong=strong, weak=frozenset(int(match[2]) for match in found))


class Condition:
    """What a request demands of the resource's version.

    Attributes:
        anything: Any version will do.
        strong: Versions whose tags were given as strong ones.
        weak: Versions whose tags were given, however.
    """

    def __init__(
        self,
        *,
        anything: bool = False,
        strong: frozenset[int] = frozenset(),
        weak: frozenset[int] = frozenset(),
    ) -> None:
        self.anything = anything
        self.strong = strong
        self.weak = weak


IF_MATCH = ETags(
    "If-Match", "ETag of the version that is to be replaced or deleted; refused if there is another one.",
    where="header", example='"17"',
)  # fmt: skip
IF_NONE_MATCH_READ = ETags(
    "If-None-Match", "ETags of versions that the client has; if it is one of them, there is no body.", where="header"
)
IF_NONE_MATCH_WRITE = ETags("If-None-Match", "`*`: only create, never replace.", where="header", example="*")


def etag(version: int) -> str:
    """The ETag of a version."""
    return f'"{version}"'


def fresh(request: Request, version: int) -> bool:
    """Whether the client has this version already."""
    condition = IF_NONE_MATCH_READ.read(request)
    return condition is not None and (condition.anything or version in condition.weak)


def not_modified(version: int) -> Response:
    """The answer to a client that has this version already."""
    return Response(304, headers={"ETag": etag(version)})


def required_version(request: Request, current: int | None) -> int | None:
    """The version that ``If-Match`` demands, which is the present one; None: nothing is demanded.

    Args:
        request: The request.
        current: The resource's version, or None: it does not exist.

    Raises:
        Problem: Another version is demanded.
    """
    condition = IF_MATCH.read(request)
    if condition is None:
        return None
    if current is None:
        raise Problem(412, "there is no such resource, so it does not have the version that If-Match demands")
    if not condition.anything and current not in condition.strong:
        raise Problem(412, f"the resource was changed: it has version {etag(current)} now", {"ETag": etag(current)})
    return current
