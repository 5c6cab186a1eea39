"""Which links between switches are to be used, from all that is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.damping import Damper
from emulator.model.fabric import Fabric


@dataclass(frozen=True)
class Usable:
    """What is not to be used.

    Attributes:
        down: Links that carry nothing, or lead elsewhere.
        shunned: Further links that are to be avoided where there is another way.
        reasons: Why, for both.
    """

    down: frozenset[str]
    shunned: frozenset[str]
    reasons: Mapping[str, str]


NEVER_THERE = "neither of its switches has been there yet"
"""A reason that says nothing that one does not know from the switches."""
NOTHING_KNOWN = Usable(frozenset(), frozenset(), {})


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
    met: bool = False
    """It has been there since the start."""


class LinkStates:
    """The states of all links between switches of a fabric; every method may be called at any time, in any order.

    A link is *down* if a port at one of its ends is, or if discovery finds that it leads elsewhere. It is *shunned* if
    it flaps, if nothing is heard over it, or if one of its switches has no control connection: that one may have died,
    or forward all the same. What nothing is known about is used.

    Args:
        fabric: The network.
        grace_ns: A switch that lost its connection is shunned after this time, and used again when it is ready.
        startup_ns: A switch that has never been there, after this time.
    """

    def __init__(self, fabric: Fabric, grace_ns: int, startup_ns: int) -> None:
        self._names = {node.dpid: node.name for node in fabric.switches if node.dpid is not None}
        dpids = {name: dpid for dpid, name in self._names.items()}
        self._links = {
            link.name: _Link(((dpids[link.a], link.a_port), (dpids[link.b], link.b_port)))
            for link in fabric.links
            if link.a in dpids and link.b in dpids
        }
        self._ports: dict[tuple[int, int], bool] = {}
        self._of: dict[int, list[str]] = {dpid: [] for dpid in self._names}
        for name, link in self._links.items():
            for dpid, _ in link.ends:
                self._of[dpid].append(name)
        self._grace_ns = grace_ns
        self._startup_ns = startup_ns
        self._started = False
        self._switches = {dpid: _Switch() for dpid in self._names}
        self._silent: frozenset[str] = frozenset()
        self._wrong: frozenset[str] = frozenset()
        self.damper = Damper()
        self._flapping: frozenset[str] = frozenset()
        self._places = {name: place for place, name in enumerate(self._links)}
        self._down: dict[str, str] = {}
        self._shunned: dict[str, str] = {}
        self._unsure: set[str] = set()
        """Links that something happened to since `_usable` was found; in a large fabric these are few of many."""
        self._usable = NOTHING_KNOWN

    def start(self, now_ns: int) -> None:
        """Time begins; only the first call counts."""
        if not self._started:
            self._started = True
            for switch in self._switches.values():
                # A switch that is missing at the start was not lost just now.
                switch.gone_ns = now_ns + self._startup_ns - self._grace_ns

    def set_ports(self, dpid: int, up: Mapping[int, bool], now_ns: int) -> None:
        """All ports of a switch as it describes them; those that are missing are down."""
        for name in self._of[dpid]:
            for end, port in self._links[name].ends:
                if end == dpid:
                    self._ports[dpid, port] = up.get(port, False)
            self._look(name, now_ns)
        self._unsure.update(self._of[dpid])

    def connected(self, dpid: int) -> None:
        """A switch is there again, but not programmed yet."""
        self._unsure.update(self._of[dpid])
        self._switches[dpid].gone_ns = None
        self._switches[dpid].ready, self._switches[dpid].met = False, True

    def ready(self, dpid: int) -> None:
        """A switch holds what it should."""
        switch = self._switches[dpid]
        if switch.ready:
            return
        self._unsure.update(self._of[dpid])
        switch.ready, switch.avoided, switch.gone_ns = True, False, None
        for name in self._of[dpid]:
            link = self._links[name]
            if link.ports_up and all(self._switches[end].ready for end, _ in link.ends):
                link.waiting = False

    def failed(self, dpid: int) -> None:
        """A switch does not hold what it should."""
        switch = self._switches[dpid]
        switch.ready, switch.avoided = False, True
        self._unsure.update(self._of[dpid])

    def gone(self, dpid: int, now_ns: int) -> None:
        """A switch's control connection ended."""
        switch = self._switches[dpid]
        if not switch.avoided and switch.gone_ns is None:
            switch.gone_ns = now_ns
        switch.ready = False
        self._unsure.update(self._of[dpid])
        # Nobody says any more what its ports do; those at the other ends tell.
        for end in [end for end in self._ports if end[0] == dpid]:
            del self._ports[end]
        for name in self._of[dpid]:
            self._look(name, now_ns)

    def discovered(self, silent: frozenset[str], wrong: frozenset[str]) -> None:
        """Over which links discovery hears nothing, and which lead elsewhere."""
        if (silent, wrong) != (self._silent, self._wrong):
            self._unsure |= ((silent ^ self._silent) | (wrong ^ self._wrong)) & self._links.keys()
            self._silent, self._wrong = silent, wrong

    def usable(self, now_ns: int) -> Usable:
        """What is not to be used now."""
        due_ns = self.next_ns()
        if self._unsure or (due_ns is not None and now_ns >= due_ns):
            self._find(now_ns)
        return self._usable

    def _find(self, now_ns: int) -> None:
        for dpid, switch in self._switches.items():
            if switch.gone_ns is not None and now_ns - switch.gone_ns >= self._grace_ns:
                switch.avoided, switch.gone_ns = True, None
                self._unsure.update(self._of[dpid])
        flapping = self.damper.suppressed(now_ns)
        self._unsure |= flapping ^ self._flapping
        self._flapping = flapping
        changed = [name for name in sorted(self._unsure, key=self._places.__getitem__) if self._changes(name)]
        self._unsure.clear()
        if changed:
            down, shunned = (
                {name: reasons[name] for name in sorted(reasons, key=self._places.__getitem__)}
                for reasons in (self._down, self._shunned)
            )
            self._usable = Usable(frozenset(down), frozenset(shunned), {**down, **shunned})

    def _changes(self, name: str) -> bool:
        """Find out about a link, and whether it is not as it was."""
        before = self._down.pop(name, None), self._shunned.pop(name, None)
        down, shunned = self._state(name)
        if down is not None:
            self._down[name] = down
        elif shunned is not None:
            self._shunned[name] = shunned
        return before != (down, shunned)

    def _state(self, name: str) -> tuple[str | None, str | None]:
        """Why a link is down, or else why it is shunned."""
        link = self._links[name]
        if not link.ports_up:
            ends = [end for end in link.ends if not self._ports.get(end, True)]
            return " and ".join(f"port {port} of {self._names[dpid]}" for dpid, port in ends) + " is down", None
        if name in self._wrong:
            return "it leads elsewhere", None
        if name in self._flapping:
            return None, "it flaps"
        if name in self._silent:
            return None, "nothing is heard over it"
        if away := [dpid for dpid, _ in link.ends if self._switches[dpid].avoided]:
            met = any(self._switches[dpid].met for dpid, _ in link.ends)
            return None, f"{self._names[away[0]]} is not under control" if met else NEVER_THERE
        return None, "its switches are not ready yet" if link.waiting else None

    def next_ns(self) -> int | None:
        """When `usable` may change by itself; None: only after another event."""
        times = [switch.gone_ns + self._grace_ns for switch in self._switches.values() if switch.gone_ns is not None]
        damped = self.damper.next_ns()
        return min([*times, *([damped] if damped is not None else [])], default=None)

    def _look(self, name: str, now_ns: int) -> None:
        link = self._links[name]
        up = all(self._ports.get(end, True) for end in link.ends)
        if link.ports_up and not up:
            self.damper.failed(name, now_ns)
        if up and not link.ports_up:
            link.waiting = not all(self._switches[end].ready for end, _ in link.ends)
        link.ports_up = up
