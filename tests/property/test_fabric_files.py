"""A fabric file with anything in any place: it is planned for, or refused in one line that says where."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.assembly import Controller
from controller.config import Settings, load_fabric, parse_address
from controller.designs import Design
from controller.paths import Spread
from emulator.errors import ControllerError, ScenarioError
from emulator.model.codec import fabric_from_json, fabric_to_json
from tests.support.controller_fabrics import leaf_spine

GOOD = fabric_to_json(leaf_spine(spines=2, leaves=2, gpus=2, computes=1, routers=1, gateways=1, storage=1))
REST, LISTEN = parse_address("127.0.0.1:0", "--rest"), parse_address("127.0.0.1:0", "--listen")

Path_ = tuple[Any, ...]


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Paths of everything in a JSON value."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def at(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value


PLACES = [path for path in places(GOOD) if path]
VALUES = [at(GOOD, path) for path in PLACES if not isinstance(at(GOOD, path), (dict, list))]
NUMBERS = st.integers(-(1 << 70), 1 << 70) | st.integers(-3, 3) | st.floats()
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=20) | st.sampled_from(VALUES)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """The good fabric with one to three places changed, taken away, added to or doubled."""
    whole = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(PLACES))
        try:
            around = at(whole, path[:-1])
            value = around[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        what = draw(st.sampled_from(["change", "swap", "remove", "add", "double"]))
        if what == "change":
            around[path[-1]] = draw(ANYTHING)
        elif what == "swap":
            around[path[-1]] = copy.deepcopy(at(GOOD, draw(st.sampled_from(PLACES))))
        elif what == "remove":
            del around[path[-1]]
        elif what == "add" and isinstance(value, dict):
            value[draw(st.text(max_size=12))] = draw(SCALARS)
        elif what == "double" and isinstance(around, list):
            around.append(copy.deepcopy(value))
    return whole


def in_one_line(error: Exception) -> None:
    text = str(error)
    assert text.isprintable(), ascii(text)
    assert len(text) < 1000


def refused(error: ScenarioError, file: Path, data: Any) -> None:
    """In one line with the file, and with a pointer, unless the whole of it is wrong."""
    in_one_line(error)
    assert error.file == str(file)
    assert error.key.startswith("/") if error.key is not None else not isinstance(data, dict)


@settings(max_examples=150)
@given(mutated())
def test_it_works_or_is_refused_where_it_is_wrong(data: Any) -> None:
    """Accepted: it comes back equal, and every design plans for it or says why not. Refused: with file and pointer."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fabric.json"
        file.write_text(json.dumps(data))
        try:
            fabric = load_fabric(file)
        except ScenarioError as error:
            refused(error, file, data)
            return
    assert fabric_from_json(fabric_to_json(fabric)) == fabric
    for design in Design:
        try:
            with closing(Controller(Settings(fabric, design, (), Spread.HOSTS, LISTEN, REST))) as controller:
                assert set(controller.core.sessions) == {node.dpid for node in fabric.switches}
        except ControllerError as error:
            in_one_line(error)


@given(ANYTHING)
def test_anything_else_is_no_fabric(data: Any) -> None:
    """Not one thing that is not made from a fabric passes for one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fabric.json"
        file.write_text(json.dumps(data))
        with pytest.raises(ScenarioError) as raised:
            load_fabric(file)
    refused(raised.value, file, data)
