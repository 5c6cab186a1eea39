"""Addresses between text and bytes for Ryu, in the usual form without its detour over address objects.

That detour is half of what it takes to write a rule. Whatever is not in the usual form goes Ryu's way as before.
"""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

import re
import socket
from collections.abc import Callable
from typing import Any

from ryu.lib.type_desc import IPv4Addr, MacAddr

_MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}", re.ASCII)
_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", re.ASCII)


def install() -> None:
    """Put the short ways before Ryu's; again does nothing."""
    for kind, to_text, to_bytes in ((MacAddr, _mac_text, _mac_bytes), (IPv4Addr, _ipv4_text, _ipv4_bytes)):
        if not hasattr(kind, "short"):
            kind.to_user, kind.from_user = staticmethod(to_text(kind.to_user)), staticmethod(to_bytes(kind.from_user))
            kind.short = True


_Way = Callable[[Any], Any]


def _mac_text(long: _Way) -> _Way:
    return lambda data: data.hex(":") if type(data) is bytes and len(data) == MacAddr.size else long(data)


def _mac_bytes(long: _Way) -> _Way:
    def short(text: Any) -> Any:
        return bytes.fromhex(text.replace(":", "")) if type(text) is str and _MAC.fullmatch(text) else long(text)

    return short


def _ipv4_text(long: _Way) -> _Way:
    return lambda data: socket.inet_ntoa(data) if type(data) is bytes and len(data) == IPv4Addr.size else long(data)


def _ipv4_bytes(long: _Way) -> _Way:
    def short(text: Any) -> Any:
        if type(text) is str and _IPV4.fullmatch(text):
            try:
                return socket.inet_pton(socket.AF_INET, text)
            except OSError:
                pass
        return long(text)

    return short
