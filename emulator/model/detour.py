"""Routes around what is broken, as plain data: as few changes to the tables as make everything arrive that can.

Nodes whose way to a destination is whole keep it. Of equal next hops, those that lead on to something broken are left
out. Where none is left, packets take a shortest way over whole links to a node that kept its own, by the first such
port or, in fabrics that spread flows, by all of them. Every hop gets nearer to the destination, so nothing can circle,
in straight and in twisted tori alike.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address

from emulator.model.fabric import Link, Role
from emulator.model.routing import Routing

Ports = tuple[int, ...]

_NEVER = 1 << 30


def ports_at(links: Iterable[Link]) -> dict[str, frozenset[int]]:
    """Ports at both ends of links, by node."""
    found: dict[str, set[int]] = {}
    for link in links:
        found.setdefault(link.a, set()).add(link.a_port)
        found.setdefault(link.b, set()).add(link.b_port)
    return {node: frozenset(ports) for node, ports in found.items()}


class Detour(Routing):
    """The routing of a fabric, some links of which are broken.

    Args:
        routing: Of the whole fabric.
        broken: Indices of broken links.

    Attributes:
        whole: The routing of the whole fabric.
        broken: Indices of broken links.
        changes: What differs from the whole fabric's: by node, the ports for single addresses; none: no way there.
        cut_off: Nodes all of whose links are broken.
    """

    def __init__(self, routing: Routing, broken: Collection[int]) -> None:
        super().__init__(routing.fabric, routing.policy, lambda node: routing.routes(node.name))
        self.whole = routing
        self.broken = frozenset(broken)
        self._spreads = lru_cache(maxsize=None)(self._has_equal_ports)
        self.cut_off = frozenset(
            node.name
            for node in routing.fabric.hosts
            if all(far.passage.link in self.broken for far in routing.far_ends(node.name).values())
        )
        self._hops: dict[str, int] = {}
        self.changes: dict[str, dict[IPv4Address, Ports]] = {}
        for owner, address, beside in self._affected():
            for node, ports in self._around(owner, address, beside):
                self.changes.setdefault(node, {})[address] = ports

    def addresses(self, node: str) -> tuple[IPv4Address, ...]:
        """All addresses of a node, which are as they were."""
        return self.whole.addresses(node)

    def ports(self, node: str, destination: IPv4Address) -> Ports:
        """Ports by which a node sends packets for an address on; empty: it has no route there."""
        changed = self.changes.get(node, {})
        return changed[destination] if destination in changed else self.whole.ports(node, destination)

    def _affected(self) -> Iterator[tuple[str, IPv4Address, list[str]]]:
        """Cards and their addresses to which nodes beside a broken link send by it, and these nodes."""
        dead = ports_at(self.fabric.links[number] for number in sorted(self.broken))
        for card in self.fabric.ends:
            for address in self.whole.addresses(card.name):
                beside = [
                    node
                    for node, ports in dead.items()
                    if node != card.name and not ports.isdisjoint(self.whole.ports(node, address))
                ]
                if beside:
                    self._hops = {card.name: 0}
                    yield card.name, address, [node for node in beside if self._most(node, address) < _NEVER]

    def _around(self, owner: str, address: IPv4Address, beside: list[str]) -> Iterator[tuple[str, Ports]]:
        """Nodes that send packets for an address another way than before, and how."""
        usable = self._usable(owner, address, beside)
        lost = {name for name, ports in usable.items() if not ports}
        distances = self._distances(owner, address, lost)
        for name, ports in usable.items():
            chosen = ports or self._nearer(name, owner, distances)
            if chosen != self.whole.ports(name, address):
                yield name, chosen

    def _usable(self, owner: str, address: IPv4Address, beside: list[str]) -> dict[str, Ports]:
        """What is left of the next hops of each node that loses some."""
        usable: dict[str, Ports] = {}
        waiting = deque(beside)
        while waiting:
            name = waiting.popleft()
            far_ends = self.whole.far_ends(name)
            ports = self.whole.ports(name, address)
            left = tuple(
                port
                for port in ports
                if far_ends[port].passage.link not in self.broken and usable.get(far_ends[port].node, True)
            )
            if left == usable.get(name, ports):
                continue
            usable[name] = left
            if not left:
                near = (far.node for far in far_ends.values() if far.node != owner)
                waiting.extend(one for one in near if self._most(one, address) < _NEVER)
        return usable

    def _distances(self, owner: str, address: IPv4Address, lost: Collection[str]) -> dict[str, int]:
        """Links to the destination from nodes that have lost their way, as far as there is one, and from those beside.

        Args:
            owner: The destination.
            address: Which of its addresses.
            lost: Nodes without next hops.
        """
        distances: dict[str, int] = {}
        for name in lost:
            for _, near in self._neighbours(name):
                if near not in lost and near not in distances and self._most(near, address) < _NEVER:
                    distances[near] = self._most(near, address)
        queue = [(distance, name) for name, distance in distances.items()]
        heapq.heapify(queue)
        while queue:
            distance, name = heapq.heappop(queue)
            if distance > distances[name] or not (name == owner or self._forwards(name)):
                continue
            for _, near in self._neighbours(name):
                if near in lost and distance + 1 < distances.get(near, distance + 2):
                    distances[near] = distance + 1
                    heapq.heappush(queue, (distance + 1, near))
        return distances

    def _most(self, name: str, address: IPv4Address) -> int:
        """Links at most from a node to the current destination while all is well; `_NEVER` if packets do not arrive."""
        if name not in self._hops:
            # Until more is known: who comes by here again, for an address that its table does not lead to, circles.
            self._hops[name] = _NEVER
            far_ends = self.whole.far_ends(name)
            onward = [self._most(far_ends[port].node, address) for port in self.whole.ports(name, address)]
            self._hops[name] = min(_NEVER, 1 + max(onward, default=_NEVER))
        return self._hops[name]

    def _nearer(self, name: str, owner: str, distances: Mapping[str, int]) -> Ports:
        """Ports of a node that lead one link nearer; none if there is no way."""
        if name not in distances:
            return ()
        ports = tuple(
            number
            for number, near in self._neighbours(name)
            if distances.get(near) == distances[name] - 1 and (near == owner or self._forwards(near))
        )
        return ports if self._spreads(name) else ports[:1]

    def _has_equal_ports(self, name: str) -> bool:
        return any(len(route.ports) > 1 for route in self.whole.routes(name))

    def _forwards(self, name: str) -> bool:
        """Whether packets may go through a node: a switch, or a card that is wired to other cards."""
        if self.fabric.by_name[name].role is Role.FORWARDER:
            return True
        near = (far.node for far in self.whole.far_ends(name).values())
        return any(self.fabric.by_name[one].role is not Role.FORWARDER for one in near)

    def _neighbours(self, name: str) -> Iterator[tuple[int, str]]:
        """Nodes beside one over whole links, and the ports towards them, in the order of ports."""
        for number, far in sorted(self.whole.far_ends(name).items()):
            if far.passage.link not in self.broken:
                yield number, far.node
