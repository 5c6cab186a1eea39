"""Canonical bytes of results.json, and reading them back."""

from __future__ import annotations

import json

import pytest

from emulator.errors import InternalError, ScenarioError
from emulator.results import Kind, Record, canonical_json, parse_records, records_csv, records_text


def record(value: float = 1, **changes: object) -> Record:
    data = {
        "scenario": "s", "variant": "v", "workload": "w", "metric": "m", "value": value, "unit": "ns",
        "kind": Kind.MEASURED, "source": "test",
    }  # fmt: skip
    return Record(**{**data, **changes})  # type: ignore[arg-type]


def test_one_record_a_line() -> None:
    """The file is a JSON list that diffs line by line."""
    text = records_text([record(2, metric="b"), record(1.5, metric="a")])
    assert text.splitlines() == [
        "[",
        '{"scenario": "s", "variant": "v", "workload": "w", "metric": "a", "value": 1.5, "unit": "ns", '
        '"kind": "measured", "source": "test"},',
        '{"scenario": "s", "variant": "v", "workload": "w", "metric": "b", "value": 2, "unit": "ns", '
        '"kind": "measured", "source": "test"}',
        "]",
    ]
    assert json.loads(text)[1]["value"] == 2


def test_no_records() -> None:
    """An empty result is an empty list, not an empty file."""
    assert records_text([]) == "[]\n"
    assert parse_records("[]\n", "f") == []


def test_numbers_keep_their_type_and_every_digit() -> None:
    """Integers stay integers, floats come back bit by bit."""
    values = [0.1, 1e-300, 2**63, -0.0, 1.0, 1]
    text = records_text([record(value, metric=str(index)) for index, value in enumerate(values)])
    back = [one.value for one in parse_records(text, "f")]
    assert [repr(value) for value in back] == [repr(value) for value in values]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None, "5"])
def test_what_is_no_number_is_refused(value: object) -> None:
    """A figure that is not a finite number never reaches a file."""
    with pytest.raises(InternalError, match=r"the figure v: w\.m is"):
        records_text([record(value)])  # type: ignore[arg-type]


def test_a_figure_given_twice_is_refused() -> None:
    """Two values for the same figure of the same kind and source contradict each other."""
    with pytest.raises(InternalError, match=r"v: w\.m \(measured, test\) is given twice"):
        records_text([record(1), record(2)])
    records_text([record(1), record(2, kind=Kind.THEORY), record(3, source="other tool")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f:1: not valid JSON"),
        ("[\n{},\n", "f:3: not valid JSON"),
        ("{}", "f:1: a list of records is expected"),
        ("[5]", "f: record 0: is not a JSON object"),
        ("[{}]", "f: record 0: a record has the keys"),
        ('[{"value": NaN}]', "f: not valid JSON: NaN is not a number"),
        ("[" * 100_000, "f: not valid JSON: nested too deeply"),
        ("[1" + "0" * 5000 + "]", "f: not valid JSON: Exceeds"),
        ('["\\ud800"]', "f: not valid JSON: 'utf-8' codec can't encode"),
    ],
)
def test_damaged_files(text: str, words: str) -> None:
    """What is not a list of records gets one line with file and line or record."""
    with pytest.raises(ScenarioError) as caught:
        parse_records(text, "f")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "guessed"}, "'kind' is 'guessed', not one of measured"),
        ({"value": "5"}, "a record's value is a number, not '5'"),
        ({"value": True}, "a record's value is a number"),
        ({"unit": 5}, "'unit' is not text"),
        ({"extra": 1}, "a record has the keys"),
    ],
)
def test_damaged_records_are_named_by_their_index(change: dict[str, object], words: str) -> None:
    """The index says which of many records is wrong."""
    good = record().as_json()
    with pytest.raises(ScenarioError) as caught:
        parse_records(json.dumps([good, {**good, "metric": "n", **change}]), "f")
    assert caught.value.key == "record 1"
    assert words in str(caught.value)


def test_canonical_json_refuses_what_is_not_json() -> None:
    """Sets and NaN have no canonical form."""
    for value in ({1, 2}, float("nan"), object()):
        with pytest.raises(InternalError, match="cannot be written as JSON"):
            canonical_json({"a": value})
    assert canonical_json({"b": 1, "a": "ü"}, indent=None) == '{"a":"ü","b":1}\n'


def test_csv() -> None:
    """CSV has a header, the canonical order, and quotes what needs quotes."""
    text = records_csv([record(2, metric="b"), record(1.5, metric="a", source='x, "y"\nz')])
    assert text.splitlines()[0] == "scenario,variant,workload,metric,value,unit,kind,source"
    assert text.splitlines()[1].startswith("s,v,w,a,1.5,ns,measured,")
    assert '"x, ""y""\nz"' in text
    assert text.endswith("s,v,w,b,2,ns,measured,test\n")
