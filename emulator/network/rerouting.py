"""Detours in a running network: what nodes see of their links, and routes to single addresses around broken ones."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from emulator.model.detour import Detour, Ports
from emulator.model.routing import ALL_BITS, Routing
from emulator.network.construction import Construction
from emulator.network.netlink import NetlinkSocket, Request
from emulator.network.reach import add_route, delete_route
from emulator.network.wiring import list_interfaces

_REPLACE = 0x400 | 0x100
"""NLM_F_CREATE and NLM_F_REPLACE."""

Changes = Mapping[str, Mapping[IPv4Address, Ports]]


class Rerouting:
    """Detours of one network whose nodes forward for each other.

    Args:
        made: The network.
        routing: Its routes as they were installed.
    """

    def __init__(self, made: Construction, routing: Routing) -> None:
        self._made = made
        self._routing = routing
        self._links = made.plan.links
        self._installed: Changes = {}

    def broken_links(self) -> frozenset[int]:
        """Links without carrier at either end, as the nodes themselves see it."""
        running: dict[str, bool] = {}
        for name, ports in self._made.ports.items():
            with self._made.namespace(name).entered(), NetlinkSocket() as kernel:
                there = list_interfaces(kernel)
            for port in ports:
                running[port.interface] = port.interface in there and there[port.interface].running
        return frozenset(
            number for number, ends in enumerate(self._links) if not all(running[port.interface] for port in ends)
        )

    def take(self, detour: Detour | None) -> int:
        """Install a detour instead of the one before; None: none any more. Returns how many routes changed."""
        wanted: Changes = detour.changes if detour is not None else {}
        changed = 0
        for node in sorted({*wanted, *self._installed}):
            new, old = wanted.get(node, {}), self._installed.get(node, {})
            requests = [self._route(node, one, ports) for one, ports in new.items() if ports and old.get(one) != ports]
            requests += [
                delete_route(_single(one), f"{node}: detour to {one}")
                for one, ports in old.items()
                if ports and not new.get(one)
            ]
            if requests:
                with self._made.namespace(node).entered(), NetlinkSocket() as kernel:
                    kernel.execute(requests)
            changed += len(requests)
        self._installed = {node: dict(routes) for node, routes in wanted.items()}
        return changed

    def _route(self, node: str, address: IPv4Address, ports: Ports) -> Request:
        hops = []
        for number in ports:
            far = self._routing.far_ends(node)[number]
            a, b = self._links[far.passage.link]
            near = a if far.passage.forward else b
            hops.append((self._made.indices[near.interface], self._routing.addresses(far.node)[0].packed))
        own = self._routing.addresses(node)
        what = f"{node}: detour to {address}"
        return add_route(_single(address), hops, own[0].packed if own else b"", what, _REPLACE)


def _single(address: IPv4Address) -> IPv4Network:
    return IPv4Network((address, ALL_BITS))
