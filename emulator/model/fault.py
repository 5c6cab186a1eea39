"""What may go wrong while a network runs: faults as plain data, and the links that they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from emulator.errors import LinkError, NodeError
from emulator.model.fabric import Fabric, Link, Node

_FEW_NAMES = 16


class Action(str, Enum):
    """What is done to a link or switch."""

    CUT = "cut"
    """The link is pulled: both ends lose carrier, what is on the line and waits for it is lost."""
    SILENCE = "silence"
    """The link loses everything, and neither end notices."""
    RESTORE = "restore"
    """The link is as it was."""
    STOP = "stop"
    """The switch, or the card, loses its power: its links lose carrier, its connection to the controller ends."""
    START = "start"
    """The switch comes back, empty; a card with all its routes."""

    @property
    def of_switch(self) -> bool:
        """Whether it is done to a switch, not a link."""
        return self in (Action.STOP, Action.START)

    @property
    def repairs(self) -> bool:
        """Whether it makes something whole again."""
        return self in (Action.RESTORE, Action.START)


@dataclass(frozen=True)
class Fault:
    """One thing that is done at one moment; repairs are faults too, for they may cost packets as well.

    Attributes:
        at_ns: When, counted from the start of the workload that it belongs to.
        action: What.
        target: Link or switch, as the user named it.
        during: Name of that workload.
        entry: Number of the scenario's entry that it comes from.
    """

    at_ns: int
    action: Action
    target: str
    during: str = ""
    entry: int = 0

    @property
    def title(self) -> str:
        """In words: ``cut la1-spa1``."""
        return f"{self.action.value} {self.target}"


@dataclass(frozen=True)
class Happened:
    """A fault that was carried out.

    Attributes:
        fault: Which.
        at_ns: When the network was told, CLOCK_MONOTONIC.
        done_ns: When it had done it.
    """

    fault: Fault
    at_ns: int
    done_ns: int


def short_name(link: Link) -> str:
    """What people call a link: ``la1-spa1``."""
    return f"{link.a}-{link.b}"


def link_named(fabric: Fabric, text: str) -> Link:
    """The link of a name: ``la1-spa1`` or ``spa1-la1``, or with interfaces, as `Link.name` has it.

    Raises:
        LinkError: There is none (the nearest names are given), or there are several between these nodes.
    """
    found = [link for link in fabric.links if text in (short_name(link), f"{link.b}-{link.a}", link.name)]
    if not found:
        names = [short_name(link) for link in fabric.links]
        turned = [f"{link.b}-{link.a}" for link in fabric.links]
        raise LinkError(f"there is no link {text!r}{_hint(text, names, turned)}")
    if len(found) > 1:
        raise LinkError(f"there are {len(found)} links {text!r}: name one of {', '.join(link.name for link in found)}")
    return found[0]


def switch_named(fabric: Fabric, text: str) -> Node:
    """The switch of a name; where there are no switches but nodes that forward for each other, any of these.

    Raises:
        NodeError: There is none; the nearest names are given.
    """
    node = fabric.by_name.get(text)
    if node is None:
        raise NodeError(f"there is no switch {text!r}{_hint(text, [switch.name for switch in fabric.switches])}")
    if not node.is_switch and fabric.switches:
        raise NodeError(f"{text!r} is a host, only switches are stopped and started")
    return node


def broken_links(fabric: Fabric, faults: Iterable[Fault]) -> frozenset[int]:
    """Links that carry nothing after some faults, by index in the fabric.

    Args:
        fabric: Has the links.
        faults: In the order in which they struck.
    """
    index = {link: number for number, link in enumerate(fabric.links)}
    links: set[int] = set()
    stopped: set[str] = set()
    for fault in faults:
        if fault.action.of_switch:
            (stopped.discard if fault.action.repairs else stopped.add)(fault.target)
        else:
            number = index[link_named(fabric, fault.target)]
            (links.discard if fault.action.repairs else links.add)(number)
    return frozenset(links).union(index[link] for name in stopped for link in fabric.links_of(name))


def _hint(word: str, names: list[str], also: list[str] | None = None) -> str:
    close = difflib.get_close_matches(word, [*names, *(also or [])], n=3)
    if close:
        return f": did you mean {' or '.join(map(repr, close))}?"
    return f": there are {', '.join(names)}" if 0 < len(names) <= _FEW_NAMES else ""
