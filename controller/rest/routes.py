"""The table of routes: which function answers which method of which resource, and how that is described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from controller.rest.http import JSON, MOST_SHOWN, Problem, Request, Response
from controller.rest.parameters import Parameter

Handler = Callable[..., Response]
"""Takes the request and the path's variables."""
Schema = type[BaseModel] | dict[str, Any]
READING = ("GET", "HEAD")
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY")


@dataclass(frozen=True)
class Success:
    """An answer that is what was asked for.

    Attributes:
        description: What it means.
        schema: Its body; None: there is none.
        content_type: Media type of the body.
        headers: Descriptions of its headers.
    """

    description: str
    schema: Schema | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    also: str | None = None
    """Another media type that may be asked for."""


@dataclass(frozen=True)
class Route:
    """One method of one resource.

    Attributes:
        method: ``GET`` stands for ``HEAD`` as well.
        pattern: Path, with variables in braces.
        handler: Answers.
        summary: What it does, one clause.
        tag: Group in the description.
        answers: Successful answers by status.
        parameters: Query parameters and headers that it takes.
        body: What is to be sent.
        problems: Statuses of problems, beyond those that every route has.
        writes: Whether it changes something.
        description: More about it.
    """

    method: str
    pattern: str
    handler: Handler
    summary: str
    tag: str
    answers: Mapping[int, Success]
    parameters: tuple[Parameter, ...] = ()
    body: Schema | None = None
    problems: tuple[int, ...] = ()
    writes: bool = False
    description: str = ""

    @property
    def parts(self) -> list[str]:
        """The pattern, split at its slashes."""
        return self.pattern[1:].split("/")

    @property
    def query_names(self) -> tuple[str, ...]:
        """Names of the query parameters."""
        return tuple(parameter.name for parameter in self.parameters if parameter.where == "query")


class Router:
    """Finds the route for a request. Patterns are like ``/stats/flow/{dpid}``; of several, the one that says most."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}

    def add(self, *routes: Route) -> None:
        """Add routes."""
        for route in routes:
            self.routes.append(route)
            self._by_length.setdefault(len(route.parts), []).append((route.parts, route))

    def find(self, request: Request) -> tuple[Route, dict[str, str]]:
        """The route for a request, and the path's variables.

        Raises:
            Problem: There is no such resource, or it cannot be used with this method.
        """
        method = "GET" if request.method == "HEAD" else request.method
        found = [
            (len(variables), route, variables)
            for parts, route in self._by_length.get(len(request.segments), ())
            if (variables := _match(parts, request.segments)) is not None
        ]
        if not found:
            raise Problem(404, f"there is no resource {request.path[:MOST_SHOWN]!r}")
        fewest = min(count for count, _, _ in found)
        allowed: dict[str, None] = {}
        for count, route, variables in found:
            if count > fewest:
                continue
            if route.method == method:
                return route, variables
            allowed |= dict.fromkeys(READING if route.method == "GET" else (route.method,))
        methods = ", ".join(allowed)
        raise Problem(405, f"{request.method} is not possible here; possible: {methods}", {"Allow": methods})


def _match(parts: list[str], segments: tuple[str, ...]) -> dict[str, str] | None:
    variables = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            variables[part[1:-1]] = segment
        elif part != segment:
            return None
    return variables
