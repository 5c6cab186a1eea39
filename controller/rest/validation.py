"""Holds bodies against the models of resources, and says all that is wrong, each with a JSON pointer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from controller.rest.body import parse_json
from controller.rest.http import JSON, MOST_SHOWN, Problem, Request

Model = TypeVar("Model", bound=BaseModel)
MOST_ERRORS = 50

_SAYINGS = {
    "missing": "is missing",
    "extra_forbidden": "is not a member of this object",
    "string_type": "is a text",
    "string_unicode": "is a text of whole characters",
    "int_type": "is a whole number",
    "int_from_float": "is a whole number",
    "int_parsing": "is a whole number",
    "int_parsing_size": "is a smaller number",
    "float_type": "is a number",
    "bool_type": "is true or false",
    "bool_parsing": "is true or false",
    "none_required": "is null",
    "model_type": "is an object",
    "model_attributes_type": "is an object",
    "dict_type": "is an object",
    "tuple_type": "is a list",
    "list_type": "is a list",
    "ip_v4_address": "is an IPv4 address, like 10.0.0.1",
    "ip_v4_network": "is an IPv4 range with no bits beyond its prefix, like 10.0.0.0/8",
}


def read_json(request: Request) -> Any:
    """The body of a request that must be JSON.

    Raises:
        Problem: It has another media type, is no JSON, or is not there.
    """
    kind = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if kind != JSON:
        raise Problem(
            415, f"the body is {kind[:80] or 'of no type'}, and {JSON} is expected (curl: --json)", {"Accept": JSON}
        )
    return parse_json(request.body)


def validated(model: type[Model], data: Any) -> Model:
    """A resource.

    Raises:
        Problem: The data are none; lists all that is wrong.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise unprocessable(_errors(error)) from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None


def unprocessable(errors: list[dict[str, str]], status: int = 422) -> Problem:
    """What is wrong with a body, as a problem."""
    first = errors[0]
    where = first["pointer"].removeprefix("#")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(status, f"{where}: {first['detail']}{more}" if where else f"{first['detail']}{more}", errors=errors)


def pointer(location: Iterable[int | str]) -> str:
    """A JSON pointer as a URI fragment (RFC 6901): ``#/cidrs/0``."""
    return "#" + "".join(f"/{_escaped(str(part)[:MOST_SHOWN])}" for part in location)


def _escaped(part: str) -> str:
    text = part.replace("~", "~0").replace("/", "~1")
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "-._~$!@,;:") else _percent(char) for char in text
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))


def _errors(error: ValidationError) -> list[dict[str, str]]:
    found = []
    problems = error.errors(include_url=False)
    places = [problem["loc"] for problem in problems]
    for problem in problems:
        location = problem["loc"]
        # A list counts as too short when one of its items is wrong: that is no problem of its own.
        inner = any(len(other) > len(location) and other[: len(location)] == location for other in places)
        if problem["type"] == "too_short" and inner:
            continue
        found.append({"pointer": pointer(location), "detail": _detail(problem)})
    return found[:MOST_ERRORS]


def _detail(problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in ("missing", "extra_forbidden"):
        return _SAYINGS[kind]
    expected = _SAYINGS.get(kind) or _limit(kind, context) or _plain(problem["msg"])
    given = problem["input"]
    if kind == "value_error" or isinstance(given, (dict, list)):
        shown = ("an object" if isinstance(given, dict) else "a list") if kind.endswith("_type") else None
    else:
        shown = _shown(given)
    return f"{expected}, not {shown}" if shown else expected


def _limit(kind: str, context: dict[str, Any]) -> str | None:
    if kind in ("enum", "literal_error"):
        return f"is {str(context['expected']).replace(chr(39), '')}"
    if kind == "string_pattern_mismatch":
        if context["pattern"].startswith("^[A-Za-z0-9]("):
            return "is a name: 1 to 64 letters, digits, '.', '_' and '-', a letter or digit at both ends"
        return f"is a text like {context['pattern']}"
    if kind in ("string_too_long", "too_long"):
        return f"has at most {_counted(context['max_length'], kind)}"
    if kind in ("string_too_short", "too_short"):
        return f"has at least {_counted(context['min_length'], kind)}"
    if kind == "greater_than_equal":
        return f"is at least {context['ge']}"
    if kind == "less_than_equal":
        return f"is at most {context['le']}"
    return None


def _counted(count: int, kind: str) -> str:
    what = "character" if kind.startswith("string") else "item"
    return f"{count} {what}{'' if count == 1 else 's'}"


def _plain(message: str) -> str:
    text = message.removeprefix("Value error, ").removeprefix("Input should be ")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _shown(given: object) -> str:
    text = {None: "null", True: "true", False: "false"}.get(given) if given is None or isinstance(given, bool) else None
    if text is None:
        text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}…"
