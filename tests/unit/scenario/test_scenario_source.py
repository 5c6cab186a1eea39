"""The YAML side of scenarios: what is read, what is refused, and that lines are right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.scenario.source import MAX_DEPTH, MAX_FILE_BYTES, line_of, parse_source, read_source


def parse(text: str) -> dict[str, object]:
    return parse_source(text, "f.yaml").data


def refuse(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parse_source(text, "f.yaml")
    assert caught.value.file == "f.yaml"
    assert "\n" not in str(caught.value)
    return caught.value


def test_scalars_mean_what_they_look_like() -> None:
    """Only true, false, null and plain numbers are not text; YAML 1.1's surprises are gone."""
    data = parse(
        "{a: on, b: yes, c: 1:30, d: 010, e: 1_000, f: 0x10, g: true, h: null, i: 1e3, j: '5', k: -7, l: 2.50}"
    )
    assert data == {
        "a": "on", "b": "yes", "c": "1:30", "d": "010", "e": 1000, "f": "0x10", "g": True, "h": None, "i": 1000.0,
        "j": "5", "k": -7, "l": 2.5,
    }  # fmt: skip


def test_keys_are_text() -> None:
    """Keys that would be booleans or numbers elsewhere stay text."""
    assert parse("{on: 1, 5: 2, null: 3}") == {"on": 1, "5": 2, "null": 3}


def test_lines_point_at_keys() -> None:
    """Each value is found on the line of its key, list items on their own."""
    lines = parse_source("a:\n  b: 1\n  c:\n    - x\n    -\n      d: 5\n", "f").lines
    assert [lines[path] for path in (("a",), ("a", "b"), ("a", "c"), ("a", "c", 0), ("a", "c", 1, "d"))] == [
        1,
        2,
        3,
        4,
        6,
    ]


def test_line_of_falls_back_to_what_is_around() -> None:
    """A missing key is reported where it should have stood."""
    lines = parse_source("a:\n  b: 1\n", "f").lines
    assert line_of(lines, ("a", "nothing", 3)) == 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key, first given on line 1"),
        ("a: {b: 1, b: 2}", 1, "duplicate key"),
        ("a: &x 1\n", 1, "anchors are not used here"),
        ("a: 1\nb: *x\n", 2, "aliases are not used here"),
        ("a: !!python/object/apply:os.system ['true']\n", 1, "tags are not used here"),
        ("a: !mine 1\n", 1, "tags are not used here"),
        ("? [1, 2]\n: 3\n", 1, "a key is text"),
        ("a: 1\n---\nb: 2\n", 2, "several YAML documents"),
        ("- a\n", 1, "a mapping with the key 'scenario' is expected"),
        ("just words", 1, "a mapping with the key 'scenario' is expected"),
        ("a: [1, 2\nb: 3", 2, "not valid YAML"),
        ("a: b: c", 1, "not valid YAML"),
        ("a: 1\nb: 1e999\n", 2, "out of range"),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ('a: "\\UFFFFFFFF"', None, "not valid YAML"),
        ('a: 1\nb: "\\ud800"', 2, "half a character"),
    ],
)
def test_refused_text(text: str, line: int | None, words: str) -> None:
    """Everything outside the small part of YAML gets one line that names where and what."""
    error = refuse(text)
    assert words in str(error)
    assert error.line == line


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n...\n", "null"])
def test_empty_files(text: str) -> None:
    """A file without a value is called empty."""
    assert "is empty" in str(refuse(text))


def test_nesting_is_bounded() -> None:
    """Deep nesting is refused early, not by running out of stack."""
    assert "nested deeper" in str(refuse("a: " + "[" * (MAX_DEPTH + 1)))
    assert "nested deeper" in str(refuse("{a: " * 10_000))


def test_number_of_values_is_bounded() -> None:
    """A file that is small but has very many values is refused."""
    assert "more than" in str(refuse("a: [" + "1," * 30_000 + "]"))


def test_unreadable_files(tmp_path: Path) -> None:
    """What is not a readable text file gets one line with its path."""
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: 1\n\x00\x01")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("a: 1\nb: ü".encode("latin-1"))
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path, words in (
        (tmp_path / "missing.yaml", "cannot be read: No such file or directory"),
        (tmp_path, "is not a file"),
        (pipe, "is not a file"),
        (binary, "is binary"),
        (latin, "is not UTF-8 text"),
        (huge, "is larger than"),
        (Path("a\0b"), "cannot be read"),
    ):
        with pytest.raises(ScenarioError, match=words) as caught:
            read_source(path)
        assert caught.value.file == str(path)
        assert "\n" not in str(caught.value)
    assert caught.value.line is None


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """Editors that write a byte order mark do no harm."""
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read_source(path).data == {"a": 1, "b": 2}
