"""From pydantic's errors to this project's: one line each, with file, line, dotted key and a hint for a slip."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from emulator.errors import ScenarioError
from emulator.scenario.document import ControllerSection, Document, ExpectSection, LimitsSection, SamplingSection
from emulator.scenario.fault import FaultEntry, FlapSection
from emulator.scenario.fields import shorten
from emulator.scenario.source import KeyPath, dotted, line_of
from emulator.scenario.topology import TOPOLOGIES
from emulator.scenario.workload import WORKLOAD_SECTIONS

_SECTIONS: dict[str, type[BaseModel]] = {
    "controller": ControllerSection,
    "expect": ExpectSection,
    "faults": FaultEntry,
    "limits": LimitsSection,
    "sampling": SamplingSection,
}


def hint(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or the known words if there are few, or nothing."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    return f": known are {', '.join(words)}" if len(words) <= 16 else ""


def problems_of(error: ValidationError, file: str, lines: Mapping[KeyPath, int]) -> list[ScenarioError]:
    """Translate every error of a validation, in the order of the file's lines.

    What is missing comes last: if a key is misspelt, the line with the slip says more than its absence.
    """
    details = error.errors(include_url=False)
    found = [(detail["type"] == "missing", _problem(detail, file, lines)) for detail in details]
    return [problem for _, problem in sorted(found, key=lambda pair: (pair[0], pair[1].line or 0))]


def _problem(detail: ErrorDetails, file: str, lines: Mapping[KeyPath, int]) -> ScenarioError:
    path = _without_tags(detail["loc"])
    reason = _reason(detail, path)
    return ScenarioError(reason, file=file, line=line_of(lines, path), key=dotted(path) or None)


def _without_tags(loc: tuple[int | str, ...]) -> KeyPath:
    """Drop the names of union members, which pydantic puts between a place and what is inside."""
    if len(loc) > 1 and loc[0] == "topology" and loc[1] in TOPOLOGIES:
        return (loc[0], *loc[2:])
    if len(loc) > 2 and loc[0] == "workloads" and loc[2] in WORKLOAD_SECTIONS:
        return (*loc[:2], *loc[3:])
    return loc


def _reason(detail: ErrorDetails, path: KeyPath) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"unknown key{hint(str(path[-1]), _known_keys(detail['loc']))}"
    if kind == "union_tag_not_found":
        return "the key 'kind' is missing" if isinstance(value, dict) else f"{shorten(value)} is not a mapping"
    if kind == "union_tag_invalid":
        known = TOPOLOGIES if path[0] == "topology" else WORKLOAD_SECTIONS
        return f"there is no kind {shorten(context.get('tag'))}{hint(str(context.get('tag')), known)}"
    if kind == "literal_error":
        choices = str(context.get("expected", "")).replace(" or ", ", ").replace("'", "").split(", ")
        return f"{shorten(value)} is not possible here{hint(str(value), choices)}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{shorten(value)} is not a mapping"
    if kind in ("too_short", "string_too_short"):
        return "is empty"
    if kind == "string_too_long":
        return "is too long"
    if kind == "string_pattern_mismatch":
        return f"{shorten(value)} is not a name: use small letters, digits, - and _, and start with a letter or digit"
    bounds = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
    bounds |= {"greater_than": ("gt", "above"), "less_than": ("lt", "below")}
    if kind in bounds:
        name, words = bounds[kind]
        return f"{shorten(value)} must be {words} {context[name]}"
    return detail["msg"]


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Document
    if len(loc) > 2 and loc[0] == "topology":
        model = TOPOLOGIES[str(loc[1])]
    elif len(loc) > 3 and loc[0] == "workloads":
        model = WORKLOAD_SECTIONS[str(loc[2])]
    elif len(loc) > 3 and loc[2] == "flap":
        model = FlapSection
    elif len(loc) > 1:
        model = _SECTIONS.get(str(loc[0]), Document)
    return [field.alias or name for name, field in model.model_fields.items()]
