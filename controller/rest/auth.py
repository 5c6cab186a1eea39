"""Who may do what: bearer tokens with the roles read and write (RFC 6750), and what browsers are kept from.

Without tokens the interface is open, and listens on loopback only. Then no web page may use a browser on the same
machine to reach it: neither by asking across origins, nor by a name of its own that leads to the loopback address.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address

from controller.rest.http import Problem

REALM = "icgw"
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*) *")


class Role(str, Enum):
    """What the owner of a token may do."""

    READ = "read"
    WRITE = "write"
    """Read and change."""


@dataclass(frozen=True)
class Token:
    """A token, known by its digest only.

    Attributes:
        name: Whose it is.
        role: What its owner may do.
        sha256: Digest of the token.
    """

    name: str
    role: Role
    sha256: bytes


@dataclass(frozen=True)
class Tokens:
    """All tokens."""

    tokens: tuple[Token, ...]

    def owner(self, secret: str) -> Token | None:
        """The token with this text. Takes the same time whichever it is, and if it is none."""
        digest = hashlib.sha256(secret.encode()).digest()
        found = None
        for token in self.tokens:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found


def authenticate(tokens: Tokens, headers: Mapping[str, str]) -> Token:
    """Who sends a request.

    Raises:
        Problem: Nobody known.
    """
    text = headers.get("authorization")
    if text is None:
        raise _challenge("a bearer token is needed: Authorization: Bearer …")
    found = _BEARER.fullmatch(text)
    if found is None:
        raise _challenge("the Authorization header has no bearer token", "invalid_request")
    token = tokens.owner(found[1])
    if token is None:
        raise _challenge("the bearer token is not known", "invalid_token")
    return token


def authorize(token: Token, *, writes: bool) -> None:
    """Check that the owner of a token may do what is asked.

    Raises:
        Problem: Not so.
    """
    if writes and token.role is not Role.WRITE:
        challenge = f'Bearer realm="{REALM}", error="insufficient_scope", scope="{Role.WRITE.value}"'
        raise Problem(403, f"the token of {token.name} may only read", {"WWW-Authenticate": challenge})


def check_browser(headers: Mapping[str, str]) -> None:
    """Check that a request to an open interface does not come from somebody's web page.

    Raises:
        Problem: It does.
    """
    host = headers.get("host", "")
    name = _host_name(host)
    if "." in name and not _is_address(name):
        raise Problem(403, f"{name[:80]!r} is not an address: without tokens, give an IP address or localhost")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        raise Problem(403, "requests of other web pages are not answered without tokens")


def _challenge(detail: str, error: str | None = None) -> Problem:
    more = f', error="{error}"' if error else ""
    return Problem(401, detail, {"WWW-Authenticate": f'Bearer realm="{REALM}"{more}'})


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
