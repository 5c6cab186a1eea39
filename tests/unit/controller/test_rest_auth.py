"""Tokens: who may do what, files that are refused, and web pages that must not use an open interface."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from controller.rest.api import Api
from controller.rest.auth import Role, Token, Tokens
from controller.rest.tokens import check_exposure, load_tokens
from emulator.errors import ScenarioError
from tests.support.controller_backend import FakeBackend


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


READER, WRITER = "r" * 20, "w-._~+/=="
TOKENS = Tokens(
    (
        Token("reader", Role.READ, bytes.fromhex(digest(READER))),
        Token("writer", Role.WRITE, bytes.fromhex(digest(WRITER))),
    )
)


@pytest.fixture
def api() -> Api:
    return Api(FakeBackend(store=True), TOKENS)


@pytest.mark.parametrize("target", ["/v1/health", "/metrics", "/v1/openapi.json", "/stats/switches", "/nothing", "["])
@pytest.mark.parametrize(
    ("header", "error"),
    [
        (None, None),
        ("", "invalid_request"),
        ("Basic dXNlcjpwYXNz", "invalid_request"),
        ("Bearer", "invalid_request"),
        (f"Bearer {READER} {READER}", "invalid_request"),
        ("Bearer é", "invalid_request"),
        ("Bearer wrong", "invalid_token"),
        (f"Bearer {READER[:-1]}", "invalid_token"),
        (f"Bearer {digest(READER)}", "invalid_token"),
    ],
)
def test_nobody_gets_in_without_a_token(api: Api, target: str, header: str | None, error: str | None) -> None:
    """401 with a challenge, for what is there and for what is not."""
    response = api.answer("GET", target, {} if header is None else {"authorization": header})
    assert response.status == 401
    challenge = response.headers["WWW-Authenticate"]
    assert challenge == 'Bearer realm="icgw"' + (f', error="{error}"' if error else "")


def test_roles(api: Api) -> None:
    """Readers read, writers read and change; a filter that is posted changes nothing."""
    reader, writer = ({"authorization": f"bearer {secret} "} for secret in (READER, WRITER))
    for method, target, body in (
        ("PUT", "/v1/tenants/a", b"{}"),
        ("DELETE", "/v1/tenants/a", b""),
        ("POST", "/stats/flowentry/add", b'{"dpid": 1}'),
    ):
        refused = api.answer(method, target, reader, body)
        assert refused.status == 403
        assert 'error="insufficient_scope", scope="write"' in refused.headers["WWW-Authenticate"]
        assert api.answer(method, target, writer, body).status in (200, 201, 204)
    assert api.answer("POST", "/stats/flow/1", reader, b"{}").status == 200
    assert api.answer("GET", "/v1/tenants", reader).status == 200
    assert api.answer("GET", "/v1/tenants", writer).status == 200
    assert "securitySchemes" in json.loads(api.answer("GET", "/v1/openapi.json", reader).body)["components"]
    assert b"securitySchemes" not in Api(FakeBackend()).answer("GET", "/v1/openapi.json").body


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8080", None, 200),
        ("[::1]:8080", None, 200),
        ("localhost:8080", None, 200),
        ("controller", None, 200),
        ("192.0.2.7:80", None, 200),
        ("evil.example:8080", None, 403),
        ("127.0.0.1.evil.example", None, 403),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", 200),
        ("127.0.0.1:8080", "http://evil.example", 403),
        ("127.0.0.1:8080", "null", 403),
        ("127.0.0.1:8080", "http://127.0.0.1:9090", 403),
    ],
)
def test_web_pages_are_kept_out_of_an_open_interface(host: str, origin: str | None, status: int) -> None:
    """Neither across origins nor by a name that leads to the loopback address; with tokens there is no need."""
    headers = {"host": host} | ({"origin": origin} if origin else {})
    assert Api(FakeBackend()).answer("GET", "/v1/health", headers).status == status
    headers["authorization"] = f"Bearer {READER}"
    assert Api(FakeBackend(), TOKENS).answer("GET", "/v1/health", headers).status == 200


def write(path: Path, content: Any, mode: int = 0o600) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


GOOD = {"name": "a", "role": "read", "sha256": digest("a")}


def test_a_file_of_tokens(tmp_path: Path) -> None:
    """Names, roles and digests; the owner of a secret is found."""
    other = {"name": "b", "role": "write", "sha256": digest("b")}
    tokens = load_tokens(write(tmp_path / "tokens", [GOOD, other]))
    found = tokens.owner("b")
    assert found is not None
    assert (found.name, found.role) == ("b", Role.WRITE)
    assert tokens.owner("c") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "at least one"),
        ({}, "is not a list"),
        ([[]], r"\[0\]: is an object with name, role and sha256"),
        ([{**GOOD, "token": "x"}], r"\[0\]: is an object"),
        ([{**GOOD, "name": ""}], r"\[0\]\.name"),
        ([{**GOOD, "name": "a\nb"}], r"\[0\]\.name"),
        ([{**GOOD, "role": "admin"}], r"\[0\]\.role: is read or write"),
        ([{**GOOD, "role": ["read"]}], r"\[0\]\.role"),
        ([{**GOOD, "sha256": digest("a").upper()}], r"\[0\]\.sha256"),
        ([{**GOOD, "sha256": 5}], r"\[0\]\.sha256"),
        ([GOOD, {**GOOD, "name": "b"}], r"\[1\]: has the same digest twice"),
        ([GOOD, {**GOOD, "sha256": digest("b")}], r"\[1\]: has the name 'a' twice"),
        ("x" * (1 << 20) + "y", "more than"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: Any, words: str) -> None:
    """Each is one line with the file's name and the place in it."""
    path = write(tmp_path / "tokens", content)
    with pytest.raises(ScenarioError, match=words) as raised:
        load_tokens(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o601, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """With the command that repairs it."""
    path = write(tmp_path / "tokens", [GOOD], mode)
    with pytest.raises(ScenarioError, match=rf"others have access to it \(mode {mode:04o}\): chmod 600 "):
        load_tokens(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Absent ones, folders, pipes, names that are none."""
    with pytest.raises(ScenarioError, match="No such file"):
        load_tokens(tmp_path / "absent")
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_tokens(tmp_path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_tokens(tmp_path / "a\0b")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ScenarioError, match="not a regular file"):
        load_tokens(tmp_path / "pipe")


def test_where_to_listen() -> None:
    """Without tokens on loopback only."""
    for host in ("127.0.0.1", "127.9.9.9", "::1"):
        check_exposure(host, None)
    for host in ("0.0.0.0", "192.0.2.1", "::", "2001:db8::1"):
        check_exposure(host, TOKENS)
        with pytest.raises(ScenarioError, match=r"--rest: .* can be reached by others"):
            check_exposure(host, None)
