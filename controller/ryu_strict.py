"""Keeps Ryu's parsers from being led into loops without end, or into far more work than a message has bytes.

They trust the lengths inside messages: a part of zero length is read for ever, and parts that claim to be longer than
what they are in are read again and again. Here every part that is read costs one unit, and a message has as many as
bytes, which is more than any honest one needs. Versions that are not spoken are refused beyond the greeting.
"""

from __future__ import annotations

import controller.green  # noqa: F401 - first, it makes Ryu importable

# isort: split

import struct
from collections.abc import Callable
from typing import Any

from ryu.ofproto import ofproto_parser
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from emulator.errors import ControllerError

_FREE = 64
_ELEMENT = struct.Struct("!HH")
_READERS = ("parser", "parse")
_RYU = "ryu.ofproto."


class Malformed(ControllerError):
    """A message whose parts do not fit into it."""


class _Budget:
    """How many parts may still be read of the message at hand; parsers never wait, so there is one at a time."""

    def __init__(self) -> None:
        self.left: int | None = None
        """None: no message is being read."""

    def spend(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            raise Malformed("its parts are more than its bytes")


_BUDGET = _Budget()


def install() -> None:
    """Put the checks in front of Ryu's parsers; again does nothing."""
    parsers = ofproto_parser._MSG_PARSERS
    for version, parse in parsers.items():
        if not hasattr(parse, "checked"):
            parsers[version] = _message(parse, version)
    for kind in vars(parser).values():
        if isinstance(kind, type) and not issubclass(kind, parser.MsgBase):
            for base in kind.__mro__:
                _wrap(base)


def _message(parse: Callable[..., Any], spoken: int) -> Callable[..., Any]:
    def checked(datapath: Any, version: int, kind: int, size: int, xid: int, data: bytes) -> Any:
        if kind == ofp.OFPT_HELLO:
            _check_elements(memoryview(data)[ofp.OFP_HEADER_SIZE : size])
        elif spoken != ofp.OFP_VERSION:
            raise Malformed(f"OpenFlow {version:#04x} is not spoken here")
        _BUDGET.left = size + _FREE
        try:
            return parse(datapath, version, kind, size, xid, data)
        finally:
            _BUDGET.left = None

    checked.checked = True  # type: ignore[attr-defined]
    return checked


def _check_elements(data: memoryview) -> None:
    """Refuse a greeting with an element that has no end, which Ryu reads without asking any of the wrapped readers."""
    while len(data) >= _ELEMENT.size:
        _, length = _ELEMENT.unpack_from(data)
        if length < _ELEMENT.size:
            raise Malformed(f"an element of the greeting has {length} bytes")
        data = data[length:]


def _wrap(kind: type) -> None:
    for name in _READERS:
        found = vars(kind).get(name)
        if (
            kind.__module__.startswith(_RYU)
            and isinstance(found, classmethod)
            and not hasattr(found.__func__, "counted")
        ):
            setattr(kind, name, classmethod(_counted(found.__func__)))


def _counted(read: Callable[..., Any]) -> Callable[..., Any]:
    def counted(kind: type, *arguments: Any) -> Any:
        _BUDGET.spend()
        return read(kind, *arguments)

    counted.counted = True  # type: ignore[attr-defined]
    return counted
