"""Canonical bytes: the same records give the same file, whatever order they came in and whatever process wrote them.

``results.json`` is a JSON list with one record a line, sorted by everything that identifies a record. Numbers are
written as Python's ``repr`` writes them, which reads back to the same number; NaN and infinity are refused.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from emulator.errors import InternalError, ScenarioError
from emulator.results.records import Kind, Record

_TEXTS = tuple(name for name in Record.__dataclass_fields__ if name not in ("value", "kind"))


def canonical_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON text with sorted keys and a closing newline.

    Raises:
        InternalError: A number is NaN or infinite, or something is not JSON.
    """
    separators = (",", ":") if indent is None else None
    try:
        text = json.dumps(
            value, sort_keys=True, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise InternalError(f"cannot be written as JSON: {error}") from None
    return text + "\n"


def records_text(records: Iterable[Record]) -> str:
    """The text of ``results.json``.

    Raises:
        InternalError: A value is not a finite number, or a figure is given twice.
    """
    ordered = sorted(records, key=identity)
    for record in ordered:
        _check_number(record)
    for earlier, later in itertools.pairwise(ordered):
        if identity(earlier) == identity(later):
            raise InternalError(f"the figure {_name(later)} ({later.kind.value}, {later.source}) is given twice")
    if not ordered:
        return "[]\n"
    lines = (json.dumps(record.as_json(), ensure_ascii=False, allow_nan=False) for record in ordered)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def identity(record: Record) -> tuple[str, ...]:
    """What makes a record the one it is: everything but its value and unit. Records are sorted by it."""
    return (record.scenario, record.variant, record.workload, record.metric, record.kind.value, record.source)


def parse_json(text: str, file: str) -> Any:
    """Parse JSON from a file of a results folder.

    Raises:
        ScenarioError: It is not JSON; names file and line.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    try:
        data = json.loads(text, parse_constant=refuse)
        if "\\ud" in text.lower():  # an escaped surrogate: alone it is no character and could not be written again
            json.dumps(data, ensure_ascii=False).encode()
        return data
    except json.JSONDecodeError as error:
        raise ScenarioError(f"not valid JSON: {error.msg}", file=file, line=error.lineno) from None
    except RecursionError:
        raise ScenarioError("not valid JSON: nested too deeply", file=file) from None
    except ValueError as error:
        raise ScenarioError(f"not valid JSON: {str(error).splitlines()[0]}", file=file) from None


def parse_records(text: str, file: str) -> list[Record]:
    """Read the text of ``results.json`` back.

    Raises:
        ScenarioError: It is not a list of records; names file and the record's index from 0.
    """
    data = parse_json(text, file)
    if not isinstance(data, list):
        raise ScenarioError("a list of records is expected", file=file, line=1)
    records = []
    for index, entry in enumerate(data):
        try:
            records.append(_record(entry))
        except ValueError as error:
            raise ScenarioError(str(error), file=file, key=f"record {index}") from None
    return records


def _record(entry: object) -> Record:
    if not isinstance(entry, dict):
        raise ValueError("is not a JSON object")
    for key in _TEXTS:
        if key in entry and not isinstance(entry[key], str):
            raise ValueError(f"{key!r} is not text")
    if "kind" in entry and entry["kind"] not in [kind.value for kind in Kind]:
        raise ValueError(f"'kind' is {entry['kind']!r}, not one of {', '.join(kind.value for kind in Kind)}")
    record = Record.from_json(entry)
    if not math.isfinite(record.value):
        raise ValueError("'value' is out of range")
    return record


def _check_number(record: Record) -> None:
    value: object = record.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InternalError(f"the figure {_name(record)} is {value!r}, not a number")
    if not math.isfinite(value):
        raise InternalError(f"the figure {_name(record)} is {value!r}")


def _name(record: Record) -> str:
    return f"{record.variant}: {record.workload}.{record.metric}"
