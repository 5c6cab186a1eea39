"""Whatever bytes come, the parsers of heads and bodies give a result or a problem, and never anything else.

The corpus holds what was worth thinking of, one case a file; hypothesis makes more from its pieces.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.rest import ryu_bodies
from controller.rest.body import MOST_DEPTH, parse_json
from controller.rest.http import Problem, parse_request
from controller.rest.wire import MAX_HEAD_BYTES, parse_head, split_head

CORPUS = Path(__file__).parent / "corpus"
HEADS = {path.name: path.read_bytes() for path in sorted((CORPUS / "rest_head").iterdir())}
BODIES = {path.name: path.read_bytes() for path in sorted((CORPUS / "rest_body").iterdir())}
GOOD_HEADS = {"plain", "websocket", "absolute", "encoded_slash", "overlong_utf8", "percent_end"}
"""Heads that are well formed; what is wrong with some of them is the target."""
UNSURE_LENGTH = {"length_list", "length_plus", "length_arabic", "chunked_and_length"}
"""Heads whose body cannot be measured."""
GOOD_BODIES = {"object", "pair", "null_escape", "brackets_in_text", "number_zero"}


def head_status(data: bytes) -> int:
    """Read a head, its target and its body's length; 0 if all is well, 1 if there is more to come."""
    try:
        end = split_head(data)
        if end is None:
            return 1
        head = parse_head(data[:end])
        assert 0 <= head.body_bytes() <= 1 << 20
        assert all(name == name.lower() and "\n" not in value for name, value in head.headers.items())
        parse_request(head.method, head.target, head.headers)
    except Problem as problem:
        return refused(problem)
    return 0


def refused(problem: Problem) -> int:
    """Check a problem and return its status."""
    assert problem.status in (400, 411, 413, 414, 417, 431, 501, 505)
    assert "Traceback" not in problem.detail
    return problem.status


@pytest.mark.parametrize("name", HEADS)
def test_heads(name: str) -> None:
    """Each case of the corpus, and each of its beginnings."""
    data = HEADS[name]
    status = head_status(data)
    assert (status in (0, 400)) if name in GOOD_HEADS else status >= 400, status
    if name in UNSURE_LENGTH:
        assert status in (400, 411)
    for length in range(len(data)):
        head_status(data[:length])


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    """Each case of the corpus, in JSON and as Ryu reads bodies."""
    if name in GOOD_BODIES:
        assert parse_json(BODIES[name]) == json.loads(BODIES[name])
    else:
        with pytest.raises(Problem):
            parse_json(BODIES[name])
    read_as_ryu(BODIES[name])


def read_as_ryu(body: bytes) -> None:
    try:
        found = ryu_bodies.parse(body)
    except Problem as problem:
        refused(problem)
    else:
        json.dumps(found)


def test_what_python_means_and_json_does_not() -> None:
    """Ryu's notation gives the same as JSON would."""
    found = ryu_bodies.parse(b"{'a': (1, 0x10, None, True), \"b\": {'c': []}, }")
    assert found == {"a": [1, 16, None, True], "b": {"c": []}}


def test_limits_are_where_they_are_said_to_be() -> None:
    """The last depth and the last header that are taken, and the first that are not."""
    parse_json(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)
    with pytest.raises(Problem, match="nested too deeply"):
        parse_json(b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1))
    lines = [b"X%d: y" % number for number in range(99)]
    head = b"\r\n".join([b"GET / HTTP/1.1", b"Host: x", *lines, b"", b""])
    assert head_status(head) == 0
    assert head_status(head.replace(b"Host", b"A: b\r\nHost")) == 431
    assert head_status(b"GET /" + b"a" * 8191 + b" HTTP/1.1\r\nHost: x\r\n\r\n") == 0
    assert head_status(b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\nHost: x\r\n\r\n") == 414
    assert head_status(b"a" * (MAX_HEAD_BYTES + 1)) == 414
    assert head_status(b"GET / HTTP/1.1\r\n" + b"a" * (MAX_HEAD_BYTES + 1)) == 431


_HEAD_PIECES = st.sampled_from([
    *(b"GET ", b"PUT ", b"/", b"/v1/health", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r", b": ", b"Host: x\r\n"),
    *(b"Content-Length: ", b"5", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"\x00", b"\xff"),
    *(b" ", b"\t", b"?a=b", b"%2F", b"%", b"\r\n\r\n", b"Connection: close\r\n"),
])  # fmt: skip
_BODY_PIECES = st.sampled_from([
    *(b"{", b"}", b"[", b"]", b"(", b")", b'"', b"'", b"a", b":", b",", b"1", b"-", b".", b"e", b"9" * 40, b"null"),
    *(b"true", b"NaN", b"None", b"0x1", b"\\", b"\\ud800", b"\\u0061", b" ", b"\n", b"\xff", b"\xc3\xa9", b'"a": 1'),
])  # fmt: skip


@settings(max_examples=400)
@given(st.lists(_HEAD_PIECES | st.binary(max_size=4), max_size=20).map(b"".join))
@example(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
def test_any_head(data: bytes) -> None:
    """Pieces of heads in any order."""
    head_status(data)


@settings(max_examples=400)
@given(st.sampled_from(sorted(HEADS)), st.integers(0, 200), st.binary(max_size=3), st.integers(0, 3))
def test_changed_heads(name: str, at: int, put: bytes, drop: int) -> None:
    """The corpus with a few bytes changed."""
    data = HEADS[name]
    head_status(data[:at] + put + data[at + drop :])


@settings(max_examples=400)
@given(st.lists(_BODY_PIECES, max_size=25).map(b"".join))
@example(b'{"a": 1, "a": 1}')
def test_any_body(data: bytes) -> None:
    """Pieces of JSON and Python in any order: what is taken is what the standard library reads, too."""
    try:
        found = parse_json(data)
    except Problem as problem:
        refused(problem)
    else:
        assert same(found, json.loads(data))
    read_as_ryu(data)


_FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=300)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text() | _FLOATS,
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)  # fmt: skip
def test_good_json_is_read(data: Any) -> None:
    """Everything that JSON can say comes through unchanged, but for 5.0 being 5."""
    assert same(parse_json(json.dumps(data).encode()), data)


def same(one: Any, other: Any) -> bool:
    """Equal, with integers for whole floats."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other) or (isinstance(other, float) and math.isnan(other))
