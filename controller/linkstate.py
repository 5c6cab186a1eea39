"""Which links between switches are to be used, from what switches say of their ports and whether they are there."""

from __future__ import annotations

from dataclasses import dataclass

from controller.damping import Damper
from controller.paths.graph import fabric_links
from emulator.model.fabric import Fabric

GRACE_NS = 10**9
"""A switch without a control connection for longer is avoided where there is another way: it may have died, or not."""


@dataclass
class _Link:
    ends: tuple[tuple[int, int], tuple[int, int]]
    ports_up: bool = True
    waiting: bool = False
    """It was down, and its switches are not ready yet."""


@dataclass
class _Switch:
    ready: bool = False
    gone_ns: int | None = None
    avoided: bool = False


@dataclass(frozen=True)
class Usable:
    """What is not to be used.

    Attributes:
        down: Links that carry nothing.
        shunned: Links that are to be avoided where there is another way: of switches that are gone, or flapping.
        avoided: Names of the switches that are gone.
    """

    down: frozenset[str]
    shunned: frozenset[str]
    avoided: frozenset[str]


class LinkStates:
    """The states of all links between switches of a fabric; every method may be called at any time, in any order."""

    def __init__(self, fabric: Fabric) -> None:
        self._names = {node.dpid: node.name for node in fabric.switches if node.dpid is not None}
        dpids = {name: dpid for dpid, name in self._names.items()}
        self._links = {
            link.name: _Link(((dpids[link.a], link.a_port), (dpids[link.b], link.b_port)))
            for link in fabric_links(fabric)
        }
        self._ports: dict[tuple[int, int], bool] = {}
        self._of: dict[int, list[str]] = {dpid: [] for dpid in self._names}
        for name, link in self._links.items():
            for dpid, _ in link.ends:
                self._of[dpid].append(name)
        self._switches = {dpid: _Switch() for dpid in self._names}
        self.damper = Damper()

    def ports(self, dpid: int, up: dict[int, bool], now_ns: int) -> None:
        """All ports of a switch as it describes them; those that are missing are down."""
        for name in self._of[dpid]:
            for end, port in self._links[name].ends:
                if end == dpid:
                    self._ports[dpid, port] = up.get(port, False)
            self._look(name, now_ns)

    def connected(self, dpid: int) -> None:
        """A switch is there again, but not programmed yet."""
        self._switches[dpid].gone_ns = None

    def ready(self, dpid: int) -> None:
        """A switch holds what it should."""
        switch = self._switches[dpid]
        switch.ready, switch.avoided = True, False
        for name in self._of[dpid]:
            link = self._links[name]
            if link.ports_up and all(self._switches[end].ready for end, _ in link.ends):
                link.waiting = False

    def gone(self, dpid: int, now_ns: int) -> None:
        """A switch's control connection ended."""
        switch = self._switches[dpid]
        if switch.ready:
            switch.gone_ns = now_ns
        switch.ready = False

    def _look(self, name: str, now_ns: int) -> None:
        link = self._links[name]
        up = all(self._ports.get(end, True) for end in link.ends)
        if link.ports_up and not up:
            self.damper.failed(name, now_ns)
        if up and not link.ports_up:
            link.waiting = not all(self._switches[end].ready for end, _ in link.ends)
        link.ports_up = up

    def usable(self, now_ns: int) -> Usable:
        """What is not to be used now."""
        for switch in self._switches.values():
            if switch.gone_ns is not None and not 0 <= now_ns - switch.gone_ns < GRACE_NS:
                switch.avoided, switch.gone_ns = True, None
        avoided = {dpid for dpid, switch in self._switches.items() if switch.avoided}
        down = frozenset(name for name, link in self._links.items() if not link.ports_up or link.waiting)
        shunned = {name for dpid in avoided for name in self._of[dpid]} | self.damper.suppressed(now_ns)
        return Usable(down, frozenset(shunned) - down, frozenset(self._names[dpid] for dpid in avoided))

    def next_ns(self) -> int | None:
        """When `usable` may change by itself; None: only after another event."""
        times = [switch.gone_ns + GRACE_NS for switch in self._switches.values() if switch.gone_ns is not None]
        damped = self.damper.next_ns()
        return min([*times, *([damped] if damped is not None else [])], default=None)
