"""Where the qdiscs of an interface sit in its tree, and the messages that make them and read them back."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields

from emulator.network.netlink import NESTED, attribute, attributes, text
from emulator.network.qdisc import KINDS, Qdisc, Shares

ROOT = 0xFFFFFFFF
"""TC_H_ROOT: the parent of an interface's first qdisc."""

_TCMSG = struct.Struct("=BxxxiIII")
_TCA_KIND, _TCA_OPTIONS = 1, 2

LIST_BODY = _TCMSG.pack(0, 0, 0, 0, 0)
"""Body of RTM_GETQDISC for all qdiscs of all interfaces."""


def handle(number: int) -> int:
    """The handle ``number:``."""
    return number << 16


@dataclass(frozen=True)
class Placed:
    """A qdisc and where in its interface's tree it sits.

    Attributes:
        qdisc: Its settings.
        handle: Its own handle.
        parent: The class that it sits in, or `ROOT`.
    """

    qdisc: Qdisc
    handle: int
    parent: int


def nested(qdiscs: Sequence[Qdisc], *, numbers: Sequence[int] = (), parent: int = ROOT) -> tuple[Placed, ...]:
    """Qdiscs one inside the other, each in the only class of the one before it.

    Args:
        qdiscs: Outermost first.
        numbers: The handle's number of each; none: from 1.
        parent: Of the outermost.
    """
    placed = []
    for one, number in zip(qdiscs, numbers or range(1, len(qdiscs) + 1), strict=True):
        placed.append(Placed(one, handle(number), parent))
        parent = handle(number) | 1
    return tuple(placed)


def request_body(interface_index: int, one: Placed) -> bytes:
    """Body of RTM_NEWQDISC."""
    header = _TCMSG.pack(0, interface_index, one.handle, one.parent, 0)
    options = _TCA_OPTIONS | (NESTED if isinstance(one.qdisc, Shares) else 0)
    return header + text(_TCA_KIND, one.qdisc.kind) + attribute(options, one.qdisc.options())


@dataclass(frozen=True)
class Installed:
    """A qdisc as the kernel has it.

    Attributes:
        interface_index: Where.
        handle: Its handle.
        kind: Its name.
        qdisc: Its settings, if it is of a kind known here.
        attributes: All of the message's attributes.
    """

    interface_index: int
    handle: int
    kind: str
    qdisc: Qdisc | None
    attributes: dict[int, bytes]


def interface_index(body: bytes) -> int:
    """Interface number of an answer to RTM_GETQDISC, without decoding the rest."""
    return int(_TCMSG.unpack_from(body)[1])


def decode(body: bytes) -> Installed:
    """Read an answer to RTM_GETQDISC."""
    _family, index, own_handle, _parent, _info = _TCMSG.unpack_from(body)
    found = attributes(body, _TCMSG.size)
    kind = found.get(_TCA_KIND, b"").rstrip(b"\0").decode()
    known = KINDS.get(kind)
    qdisc = known.decode(found[_TCA_OPTIONS]) if known and _TCA_OPTIONS in found else None
    return Installed(index, own_handle, kind, qdisc, found)


def differences(asked: Qdisc, found: Qdisc | None) -> list[str]:
    """What the kernel set otherwise than asked, one text each; a field read back as None is not known."""
    if type(asked) is not type(found):
        return [f"a {asked.kind} qdisc was asked for, there is {found.kind if found else 'none'}"]
    result = []
    for one in fields(asked):
        wanted, there = getattr(asked, one.name), getattr(found, one.name)
        if there is not None and wanted != there:
            result.append(f"{asked.kind} {one.name} is {there} instead of {wanted}")
    return result
