"""Whatever is done to a scenario file, loading it gives a valid scenario or a ScenarioError, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import ScenarioError
from emulator.scenario import Scenario, cell_from_json, cell_to_json, evaluate, loads, resolve
from emulator.scenario.source import parse_source

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(SCENARIOS.rglob("*.yaml"))]

WORDS = st.sampled_from(
    ["kind", "topology.hops", "workloads.rtt.count", "matrix", "seed", "null", "true", "1 us", "99 %", "-1", "0", "1e9",
     "9" * 40, "*", "&a", "!!int 5", "<<", "[", "{", "]", "}", ":", "- ", "\n", "\t", "'", '"', "#", "|", ">", "%", "@",
     "---", "\u2028", "\x07", "µs", "💥", ".nan", ".inf", "0x1f", "1_0", "~"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=3)
)


def load_or_refuse(text: str) -> Scenario | None:
    """Load a text; the only other outcome is an error in one line that names the file."""
    refusal: ScenarioError | None = None
    try:
        scenario = loads(text, "f.yaml")
        cells = resolve(scenario)
    except ScenarioError as error:
        refusal = error
    if refusal is not None:
        assert refusal.file == "f.yaml"
        assert str(refusal).startswith("f.yaml")
        assert "\n" not in str(refusal)
        assert str(refusal).encode()
        return None
    for cell in cells:
        assert cell_from_json(json.loads(json.dumps(cell_to_json(cell)))) == cell
    assert len({cell.variant for cell in cells}) == len(cells)
    assert all(not outcome.passed for outcome in evaluate(scenario.expectations, []))
    return scenario


@given(st.data())
@settings(max_examples=150)
def test_mutated_text(data: st.DataObject) -> None:
    """Characters and words are cut out, put in and repeated anywhere."""
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        text = text[:start] + data.draw(WORDS | st.text(max_size=6) | st.just(text[start:end] * 2)) + text[end:]
    load_or_refuse(text)


def _places(node: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    found = [path]
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found += _places(value, (*path, key))
    return found


@given(st.data())
@settings(max_examples=150)
def test_mutated_tree(data: st.DataObject) -> None:
    """Any value is replaced by any other: the text stays YAML, the meaning is nonsense."""
    tree = yaml.safe_load(data.draw(st.sampled_from(TEXTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_places(tree)[1:]))
        place = tree
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = data.draw(VALUES)
    load_or_refuse(yaml.safe_dump(tree, allow_unicode=True))


@given(VALUES)
@settings(max_examples=100)
def test_any_yaml_tree_reads_back_or_is_refused(value: object) -> None:
    """The reader agrees with JSON about every tree of mappings, lists, text and numbers that it accepts."""
    text = json.dumps({"root": value}, ensure_ascii=False)
    try:
        data = parse_source(text, "f").data
    except ScenarioError:
        return
    expected = json.loads(text, parse_constant=str)["root"]
    assert _comparable(data["root"]) == _comparable(expected)


def _comparable(value: object) -> object:
    """Keys that a JSON object has twice, and numbers too long to be one, are told apart elsewhere."""
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return str(value) if len(str(value)) > 40 else float(value)
    return value


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Files of any bytes give an error with one line."""
    from emulator.scenario import load

    path = tmp_path_factory.mktemp("any") / "f.yaml"
    path.write_bytes(raw)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
