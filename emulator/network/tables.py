"""Routing tables of a network whose nodes forward for each other, while links fail and routes change.

A next hop whose line has no carrier is not used, at either end, from the moment on that the line fails: of equal next
hops the others take over, and a line of the table without any is unreachable. Linux could be left to skip such next
hops (``ignore_routes_with_linkdown``, or what it does by itself where an interface goes down). But then it looks on for
the next shorter prefix, which is about other addresses: in fat trees and twisted tori packets then go back and forth
until their time to live ends. So no line ever goes; what it leads to does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network

from emulator.model.detour import Ports, ports_at
from emulator.model.fabric import Link
from emulator.model.routing import Routing
from emulator.model.transition import Step
from emulator.network.construction import Construction
from emulator.network.netlink import REPLACE, NetlinkSocket, Request
from emulator.network.reach import Prefixes, delete_route, route_name


class Tables:
    """The tables of one network.

    Args:
        made: The network.
        routing: Its routes as they were installed.
    """

    def __init__(self, made: Construction, routing: Routing) -> None:
        self._made = made
        self._routing = routing
        self._prefixes = Prefixes(routing, made.plan.links)
        self._lock = threading.RLock()
        self._changed: dict[str, dict[IPv4Network, Ports]] = {}
        self._dead: dict[str, frozenset[int]] = {}

    def lose(self, links: Iterable[Link]) -> None:
        """From now on, do not use some links that were used."""
        with self._lock:
            more = ports_at(links)
            self._set_dead({**self._dead, **{node: self._dead.get(node, frozenset()) | more[node] for node in more}})

    def use_all_but(self, links: Iterable[Link]) -> None:
        """Use all links but some."""
        with self._lock:
            self._set_dead(ports_at(links))

    def take(self, step: Step) -> int:
        """Change lines of the tables; returns how many.

        Raises:
            LinkError: The kernel refused a line.
        """
        count = 0
        with self._lock:
            for node, changes in step.items():
                whole = self._whole(node)
                ours = self._changed.setdefault(node, {})
                requests = []
                for change in changes:
                    if change.ports is None:
                        del ours[change.prefix]
                        requests.append(delete_route(change.prefix, route_name(node, change.prefix)))
                        continue
                    ours[change.prefix] = change.ports
                    if whole.get(change.prefix) == change.ports:
                        del ours[change.prefix]
                    requests.append(self._line(node, change.prefix, change.ports))
                self._tell(node, requests)
                count += len(requests)
        return count

    def _set_dead(self, dead: Mapping[str, frozenset[int]]) -> None:
        for node in sorted({**self._dead, **dead}):
            now = dead.get(node, frozenset())
            differ = now ^ self._dead.get(node, frozenset())
            if not differ:
                continue
            self._dead[node] = now
            lines = {**self._whole(node), **self._changed.get(node, {})}
            self._tell(
                node, [self._line(node, one, ports) for one, ports in lines.items() if not differ.isdisjoint(ports)]
            )

    def _whole(self, node: str) -> dict[IPv4Network, Ports]:
        return {route.prefix: route.ports for route in self._routing.routes(node)}

    def _line(self, node: str, prefix: IPv4Network, ports: Ports) -> Request:
        """What makes a line of a table lead to the ports that are left of some."""
        dead = self._dead.get(node, frozenset())
        left = [port for port in ports if port not in dead]
        return self._prefixes.line(node, prefix, left, self._made.indices, REPLACE)

    def _tell(self, node: str, requests: list[Request]) -> None:
        if requests:
            with self._made.namespace(node).entered(), NetlinkSocket() as kernel:
                kernel.execute(requests)
