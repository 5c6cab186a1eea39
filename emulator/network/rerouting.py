"""Detours in a running network: what nodes see of their links, and routes around broken ones."""

from __future__ import annotations

from emulator.model.detour import Detour
from emulator.model.routing import Routing
from emulator.model.transition import transition
from emulator.network.construction import Construction
from emulator.network.line_check import silent_links
from emulator.network.netlink import NetlinkSocket
from emulator.network.tables import Tables
from emulator.network.wiring import settled_interfaces


class Rerouting:
    """Detours of one network whose nodes forward for each other.

    Args:
        made: The network.
        routing: Its routes as they were installed.
        tables: Its routes as they are now.
    """

    def __init__(self, made: Construction, routing: Routing, tables: Tables) -> None:
        self._made = made
        self._routing = routing
        self._tables = tables
        self._taken: Detour | None = None

    def broken_links(self) -> frozenset[int]:
        """Links without carrier at either end, as the nodes themselves see it."""
        running: dict[str, bool] = {}
        for name, ports in self._made.ports.items():
            with self._made.namespace(name).entered(), NetlinkSocket() as kernel:
                there = settled_interfaces(kernel, ports)
            for port in ports:
                running[port.interface] = port.interface in there and there[port.interface].running
        links = self._made.plan.links
        return frozenset(
            number for number, ends in enumerate(links) if not all(running[port.interface] for port in ends)
        )

    def silent_links(self) -> frozenset[int]:
        """Links with carrier over which nothing passes, as frames show that are sent over all of them."""
        broken = self.broken_links()
        return silent_links(self._made, [one for one in range(len(self._made.plan.links)) if one not in broken])

    def take(self, detour: Detour | None) -> int:
        """Take a detour instead of the one before; None: none any more. Returns how many routes changed.

        A step begins when every kernel has confirmed the one before, so that packets never circle.
        """
        steps = transition(self._routing, self._taken, detour)
        changed = sum(self._tables.take(step) for step in steps)
        self._taken = detour
        return changed
