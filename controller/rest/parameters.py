"""Parameters of requests: each is described once, for reading it and for the OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.rest.http import MOST_SHOWN, Problem, Request, parse_integer


@dataclass(frozen=True)
class Parameter:
    """What every parameter has.

    Attributes:
        name: Its name.
        description: What it means.
        required: Whether it must be there.
        where: ``query`` or ``header``.
        example: A value that shows what it looks like.
    """

    name: str
    description: str
    required: bool = False
    where: str = "query"
    example: str | int | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        return {"type": "string"}

    def openapi(self) -> dict[str, Any]:
        """Its description as OpenAPI writes it."""
        described: dict[str, Any] = {
            "name": self.name,
            "in": self.where,
            "description": self.description,
            "required": self.required,
            "schema": self.schema,
        }
        return described | ({} if self.example is None else {"example": self.example})

    def raw(self, request: Request) -> str | None:
        """Its text, or None if it is not there.

        Raises:
            Problem: It must be there.
        """
        text = request.query.get(self.name)
        if self.required and not text:
            raise Problem(400, f"the parameter {self.name} is missing", parameter=self.name)
        return text

    def refuse(self, text: str, expected: str) -> Problem:
        """What is wrong with a value."""
        return Problem(400, f"{self.name} is {expected}, not {text[:MOST_SHOWN]!r}", parameter=self.name)


@dataclass(frozen=True)
class Text(Parameter):
    """Any text of at least one character."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        return {"type": "string", "minLength": 1}

    def read(self, request: Request) -> str:
        """The text; empty if it is not there."""
        return self.raw(request) or ""


@dataclass(frozen=True)
class Integer(Parameter):
    """A number; decimal, or hexadecimal with ``0x``."""

    lowest: int = 0
    highest: int = (1 << 63) - 1
    default: int | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        found: dict[str, Any] = {"type": "integer", "minimum": self.lowest, "maximum": self.highest}
        return found | ({} if self.default is None else {"default": self.default})

    def read(self, request: Request) -> int | None:
        """The number, or the default."""
        text = self.raw(request)
        if text is None:
            return self.default
        value = parse_integer(text)
        if value is None or not self.lowest <= value <= self.highest:
            raise self.refuse(text, f"a number from {self.lowest} to {self.highest}")
        return value


@dataclass(frozen=True)
class Choice(Parameter):
    """One of several words."""

    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        found: dict[str, Any] = {"type": "string", "enum": list(self.choices)}
        return found | ({} if self.default is None else {"default": self.default})

    def read(self, request: Request) -> str | None:
        """The word, or the default."""
        text = self.raw(request)
        if text is None:
            return self.default
        if text not in self.choices:
            raise self.refuse(text, f"one of {', '.join(self.choices)}")
        return text


@dataclass(frozen=True)
class Words(Parameter):
    """Some of several words, with commas between them."""

    choices: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        word = "|".join(self.choices)
        return {"type": "string", "pattern": f"^({word})(,({word}))*$"}

    def read(self, request: Request) -> frozenset[str] | None:
        """The words, or None if the parameter is not there."""
        text = self.raw(request)
        if text is None:
            return None
        words = frozenset(text.split(","))
        if not words <= set(self.choices):
            raise self.refuse(text, f"one or more of {', '.join(self.choices)}")
        return words


@dataclass(frozen=True)
class Dpid(Parameter):
    """A datapath id."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of its values."""
        return DPID_SCHEMA

    def read(self, request: Request) -> int | None:
        """The datapath id, or None if it is not there."""
        text = self.raw(request)
        return None if text is None else parse_dpid(text, self.name)


DPID_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1},
        {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,16}$"},
    ]
}
HEX_DPID_SCHEMA: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
NAME_SCHEMA: dict[str, Any] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$",
    "maxLength": 64,
}
NUMBER_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1},
        {"type": "string", "pattern": "^(ALL|0x[0-9a-fA-F]{1,8})$"},
    ]
}
PATH_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "dpid": DPID_SCHEMA,
    "hex_dpid": HEX_DPID_SCHEMA,
    "name": NAME_SCHEMA,
    "node": NAME_SCHEMA,
    "vpc": NAME_SCHEMA,
    "port": NUMBER_SCHEMA,
    "queue": NUMBER_SCHEMA,
    "group": NUMBER_SCHEMA,
    "meter": NUMBER_SCHEMA,
}
"""Schemas of the variables in paths, by name."""


def parse_dpid(text: str, parameter: str | None = None) -> int:
    """A datapath id, decimal or ``0x`` hexadecimal.

    Raises:
        Problem: It is none.
    """
    dpid = parse_integer(text)
    if dpid is None or dpid >= 1 << 64:
        extra: dict[str, Any] = {"parameter": parameter} if parameter else {}
        raise Problem(400, f"a datapath id is decimal or 0x hexadecimal, not {text[:80]!r}", None, **extra)
    return dpid
