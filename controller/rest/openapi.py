"""The OpenAPI 3.1 description, made from the table of routes and the models of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from controller.rest.http import PROBLEM_JSON, Request, Response, json_response
from controller.rest.parameters import PATH_SCHEMAS
from controller.rest.routes import Route, Router, Schema, Success
from controller.rest.schemas.common import ProblemBody

VERSION = "1.0.0"
_REF = "#/components/schemas/{model}"
_SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the file given with --tokens; changes need one with the role `write`.",
}
_CHALLENGE = {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "What is wrong (RFC 6750)."}}
_TAGS = {
    "fabric": "The network and the ways through it.",
    "switches": "What switches hold and count.",
    "controller": "The controller itself.",
    "gateways": "Daemons that carry tenants' storage traffic, and what they were told.",
    "tenants": "What tenants and the operator declare.",
    "ryu": "Ryu's own resources, for scripts written for them.",
}
_NETWORK_FORMAT = "ipv4network"
_NETWORK_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}$"


class OpenApiResource:
    """Answers with the description.

    Args:
        router: What there is.
        secured: Whether tokens are needed.
    """

    def __init__(self, router: Router, *, secured: bool) -> None:
        self._router = router
        self._secured = secured
        self._answer: Response | None = None

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/openapi.json",
                self.openapi,
                "This description",
                "controller",
                {200: Success("An OpenAPI 3.1 document.", {"type": "object"})},
            )
        ]

    def openapi(self, request: Request) -> Response:
        """The description."""
        del request
        if self._answer is None:
            self._answer = json_response(document(self._router.routes, secured=self._secured))
        return self._answer


def document(routes: Iterable[Route], *, secured: bool) -> dict[str, Any]:
    """The description of some routes."""
    listed = list(routes)
    names = _schemas(listed)
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        operations = paths.setdefault(route.pattern, {})
        operations[route.method.lower()] = _operation(route, "get", names, secured=secured)
        if route.method == "GET":
            operations["head"] = _operation(route, "head", names, secured=secured)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "icgw controller",
            "version": VERSION,
            "summary": "SDN controller of an AI-computing fabric",
            "description": "Declares tenants, VPCs, services, endpoints and policies, and tells what the fabric does.",
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": names.definitions},
    }
    if secured:
        found["components"]["securitySchemes"] = {"bearer": _SECURITY}
        found["security"] = [{"bearer": []}]
    return found


class _Names:
    """Where the schemas of models are."""

    def __init__(self, references: Mapping[type[BaseModel], str], definitions: dict[str, Any]) -> None:
        self._references = references
        self.definitions = definitions

    def of(self, schema: Schema) -> dict[str, Any]:
        """A schema, or a reference to it."""
        return schema if isinstance(schema, dict) else {"$ref": self._references[schema]}


def _schemas(routes: list[Route]) -> _Names:
    # Of answers the same schema serves as of requests: what is sent in answers has all that a request must have.
    models: dict[type[BaseModel], None] = {ProblemBody: None}
    for route in routes:
        for schema in (route.body, *(answer.schema for answer in route.answers.values())):
            if isinstance(schema, type):
                models[schema] = None
    mapped, top = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    references = {model: mapped[model, "validation"]["$ref"] for model in models}
    definitions: dict[str, Any] = top["$defs"]
    _tidy(definitions)
    return _Names(references, definitions)


def _tidy(node: Any) -> None:
    """Take out what only Python programmers understand."""
    if isinstance(node, list):
        for item in node:
            _tidy(item)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("title"), str):
        del node["title"]  # pydantic's version of the name
    if isinstance(node.get("description"), str):
        node["description"] = node["description"].split("\n\nAttributes:")[0]
    if node.get("format") == _NETWORK_FORMAT:
        node["pattern"] = _NETWORK_PATTERN
    for value in node.values():
        _tidy(value)


def _operation(route: Route, kind: str, names: _Names, *, secured: bool) -> dict[str, Any]:
    words = re.sub(r"[^A-Za-z0-9]+", "_", route.pattern).strip("_")
    head = kind == "head"
    found: dict[str, Any] = {
        "operationId": f"{'head' if head else route.method.lower()}_{words}",
        "summary": f"{route.summary}: the head alone" if head else route.summary,
        "tags": [route.tag],
        "parameters": [_variable(name) for name in re.findall(r"\{(\w+)\}", route.pattern)]
        + [parameter.openapi() for parameter in route.parameters],
        "responses": _responses(route, names, head=head, secured=secured),
    }
    if route.description:
        found["description"] = route.description
    if route.body is not None:
        required = route.method != "POST" or route.writes
        found["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": names.of(route.body)}},
        }
    return found


def _variable(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": PATH_SCHEMAS[name]}


def _responses(route: Route, names: _Names, *, head: bool, secured: bool) -> dict[str, Any]:
    found = {str(status): _success(answer, names, head=head) for status, answer in route.answers.items()}
    problems = {400, 403, 414, 431, 500, *route.problems, *((401,) if secured else ())}
    for status in sorted(problems):
        content = {} if head else {"content": {PROBLEM_JSON: {"schema": names.of(ProblemBody)}}}
        found[str(status)] = {"description": HTTPStatus(status).phrase + ".", **content}
        if status == HTTPStatus.UNAUTHORIZED:
            found[str(status)]["headers"] = _CHALLENGE
    return found


def _success(answer: Success, names: _Names, *, head: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answer.description}
    if answer.headers:
        found["headers"] = {
            name: {"schema": {"type": "string"}, "description": text} for name, text in answer.headers.items()
        }
    if answer.schema is not None and not head:
        found["content"] = {answer.content_type: {"schema": names.of(answer.schema)}}
        if answer.also:
            found["content"][answer.also] = {"schema": {"type": "string"}}
    return found
