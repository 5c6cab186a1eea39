"""The matrix of a scenario: every combination of its axes, each applied to the file's data before validation.

An axis is either a dotted key with a list of values, or a name with choices that set several dotted keys together::

    matrix:
      topology.hops: [1, 3, 5]
      congestion:
        cubic: {workloads.bulk.congestion: cubic}
        dctcp: {workloads.bulk.congestion: dctcp, workloads.bulk.ecn: true, topology.aqm: ecn-threshold}

In a dotted key a workload is called by its name.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from emulator.errors import ScenarioError
from emulator.scenario.problems import hint
from emulator.scenario.source import KeyPath, Source, dotted

MAX_COMBINATIONS = 1000
_ROOTS = {"topology": 2, "workloads": 3, "limits": 2, "sampling": 2, "seed": 1, "faults": 1, "controller": 2}
"""What can be varied, and the parts that a dotted key has there."""

_WHOLE = ("topology",)
"""What a named choice may replace as a whole, too: another kind takes other keys."""

_MAX_LABEL = 60
_AXIS_DEPTH = 3
"""Parts of the place of an axis's value; a named choice's settings are below that."""


@dataclass(frozen=True)
class Setting:
    """One dotted key's value in a choice: where it goes, what it is, and where it stands in the file."""

    target: KeyPath
    value: Any
    place: KeyPath


@dataclass(frozen=True)
class Choice:
    """One value of an axis, with its label in variant names."""

    label: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Combination:
    """The file's data with one choice of every axis applied."""

    label: str
    data: dict[str, Any]
    lines: dict[KeyPath, int]


def combinations(source: Source) -> Iterator[Combination]:
    """All combinations in the order of the file, the last axis varying fastest.

    Raises:
        ScenarioError: An axis names what cannot be varied, is empty, repeats a choice, or they are too many.
    """
    axes = _axes(source)
    total = 1
    for axis in axes:
        total *= len(axis)
    if total > MAX_COMBINATIONS:
        raise _error(source, ("matrix",), f"makes {total} combinations, at most {MAX_COMBINATIONS} are run")
    base = {key: value for key, value in source.data.items() if key != "matrix"}
    for choices in itertools.product(*axes):
        data, lines = copy.deepcopy(base), dict(source.lines)
        for setting in itertools.chain.from_iterable(choice.settings for choice in choices):
            _apply(data, setting)
            _move_lines(lines, setting)
        yield Combination(",".join(choice.label for choice in choices), data, lines)


def _axes(source: Source) -> list[list[Choice]]:
    matrix: dict[str, Any] = source.data.get("matrix", {})
    last_parts = [name.rpartition(".")[2] for name in matrix]
    axes = []
    for name, values in matrix.items():
        short = name.rpartition(".")[2]
        title = name if last_parts.count(short) > 1 else short
        path: KeyPath = ("matrix", name)
        if isinstance(values, list):
            choices = [
                Choice(
                    f"{title}={_label(source, (*path, index), value)}", (_setting(source, (*path, index), name, value),)
                )
                for index, value in enumerate(values)
            ]
        elif isinstance(values, dict):
            choices = [
                Choice(f"{title}={_label(source, (*path, choice), choice)}", _settings(source, (*path, choice), keys))
                for choice, keys in values.items()
            ]
        else:
            raise _error(source, path, "is neither a list of values nor a mapping of choices")
        if not choices:
            raise _error(source, path, "has no values")
        for index, choice in enumerate(choices):
            if choice.label in [earlier.label for earlier in choices[:index]]:
                raise _error(source, path, f"has {choice.label!r} twice")
        axes.append(choices)
    return axes


def _settings(source: Source, path: KeyPath, keys: Any) -> tuple[Setting, ...]:
    if not isinstance(keys, dict) or not keys:
        raise _error(source, path, "is not a mapping from dotted keys to values")
    return tuple(_setting(source, (*path, key), key, value) for key, value in keys.items())


def _setting(source: Source, path: KeyPath, key: str, value: Any) -> Setting:
    return Setting(_target(source, path, key), value, path)


def _target(source: Source, path: KeyPath, key: str) -> KeyPath:
    parts = key.split(".")
    if key in _WHOLE and len(path) > _AXIS_DEPTH:
        return (key,)
    if parts[0] not in _ROOTS:
        raise _error(source, path, f"{parts[0]!r} cannot be varied{hint(parts[0], _ROOTS)}")
    if len(parts) != _ROOTS[parts[0]] or not all(parts):
        shape = {1: parts[0], 2: f"{parts[0]}.<key>", 3: "workloads.<name>.<key>"}[_ROOTS[parts[0]]]
        raise _error(source, path, f"{key!r} is not a dotted key: write it like {shape}")
    if parts[0] != "workloads":
        return tuple(parts)
    names = [entry["name"] for entry in source.data["workloads"]]
    if parts[1] not in names:
        raise _error(source, path, f"there is no workload {parts[1]!r}{hint(parts[1], names)}")
    if parts[2] == "name":
        raise _error(source, path, "a workload's name cannot be varied")
    return ("workloads", names.index(parts[1]), parts[2])


def _apply(data: dict[str, Any], setting: Setting) -> None:
    place: Any = data
    for part in setting.target[:-1]:
        if isinstance(place, dict) and place.get(part) is None:
            place[part] = {}
        place = place[part]
    place[setting.target[-1]] = copy.deepcopy(setting.value)


def _move_lines(lines: dict[KeyPath, int], setting: Setting) -> None:
    """Let lines of the file be found under the keys that a setting replaces, and no others."""
    depth = len(setting.target)
    for path in [path for path in lines if path[:depth] == setting.target]:
        del lines[path]
    for path, line in list(lines.items()):
        if path[: len(setting.place)] == setting.place:
            lines[setting.target + path[len(setting.place) :]] = line


def _label(source: Source, path: KeyPath, value: Any) -> str:
    if isinstance(value, list):
        text = "+".join(_label(source, (*path, index), item) for index, item in enumerate(value))
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, (str, int, float)):
        text = str(value)
    else:
        raise _error(source, path, "is neither text nor a number")
    if not text or len(text) > _MAX_LABEL or not text.isprintable() or set(text) & set(",=*?[]"):
        raise _error(source, path, "cannot be part of a variant's name: use up to 60 characters without , = * ? [ ]")
    return text


def _error(source: Source, path: KeyPath, reason: str) -> ScenarioError:
    line = source.lines.get(path, source.lines.get(path[:-1]))
    return ScenarioError(reason, file=source.file, line=line, key=dotted(path))
