"""The file of tokens, and where the interface may listen without one."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path

from controller.files import read_json
from controller.rest.auth import Role, Token, Tokens
from emulator.errors import ScenarioError

_MOST_BYTES = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_KEYS = {"name", "role", "sha256"}


def load_tokens(path: Path) -> Tokens:
    """Read a file like ``[{"name": "grafana", "role": "read", "sha256": "…"}]``.

    Raises:
        ScenarioError: It cannot be read, others can read it too, or it is not such a list.
    """
    file = str(path)
    entries = read_json(path, private=True, most_bytes=_MOST_BYTES)
    if not isinstance(entries, list) or not entries:
        raise ScenarioError("is not a list of tokens with at least one of them", file=file)
    tokens = tuple(_token(entry, f"[{index}]", file) for index, entry in enumerate(entries))
    for index, token in enumerate(tokens):
        for other in tokens[:index]:
            if other.name == token.name or other.sha256 == token.sha256:
                what = f"the name {token.name!r}" if other.name == token.name else "the same digest"
                raise ScenarioError(f"has {what} twice", file=file, key=f"[{index}]")
    return Tokens(tokens)


def _token(entry: object, key: str, file: str) -> Token:
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        raise ScenarioError("is an object with name, role and sha256", file=file, key=key)
    name, role, digest = entry["name"], entry["role"], entry["sha256"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ScenarioError("is 1 to 64 letters, digits, '.', '_', '@' and '-'", file=file, key=f"{key}.name")
    if role not in [one.value for one in Role]:
        raise ScenarioError("is read or write", file=file, key=f"{key}.role")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ScenarioError(
            "is the SHA-256 digest of the token, 64 hexadecimal digits in lower case", file=file, key=f"{key}.sha256"
        )
    return Token(name, Role(role), bytes.fromhex(digest))


def check_exposure(host: str, tokens: Tokens | None, key: str = "--rest") -> None:
    """Refuse to be open to others.

    Args:
        host: Address that is to be listened on.
        tokens: The tokens, or None.
        key: The option that gave the address.

    Raises:
        ScenarioError: There are no tokens, and the address is not a loopback one.
    """
    if tokens is None and not ip_address(host).is_loopback:
        raise ScenarioError(f"{host} can be reached by others: give tokens (--tokens FILE), or 127.0.0.1", key=key)
