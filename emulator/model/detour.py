"""Routes around what is broken, as plain data: as few changes to the tables as make everything arrive that can.

Nodes whose way to a destination is whole keep it. Of equal next hops, those that lead on to something broken are left
out. Where none is left, packets take the way over whole links to the nearest node that kept its own: the way gets
shorter with every hop until there, so nothing can circle, in straight and in twisted tori alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Address

from emulator.model.fabric import Role
from emulator.model.routing import Routing

Ports = tuple[int, ...]


class Detour(Routing):
    """The routing of a fabric, some links of which are broken.

    Args:
        routing: Of the whole fabric.
        broken: Indices of broken links.

    Attributes:
        changes: What differs from the whole fabric's: by node, the ports for single addresses; none: no way there.
        cut_off: Nodes all of whose links are broken.
    """

    def __init__(self, routing: Routing, broken: Collection[int]) -> None:
        super().__init__(routing.fabric, routing.policy, lambda node: routing.routes(node.name))
        self._whole = routing
        self._broken = frozenset(broken)
        self.cut_off = frozenset(
            node.name
            for node in routing.fabric.hosts
            if all(far.passage.link in self._broken for far in routing.far_ends(node.name).values())
        )
        self.changes: dict[str, dict[IPv4Address, Ports]] = {}
        for owner, address in self._affected():
            for node, ports in self._around(owner, address):
                self.changes.setdefault(node, {})[address] = ports

    def addresses(self, node: str) -> tuple[IPv4Address, ...]:
        """All addresses of a node, which are as they were."""
        return self._whole.addresses(node)

    def ports(self, node: str, destination: IPv4Address) -> Ports:
        """Ports by which a node sends packets for an address on; empty: it has no route there."""
        changed = self.changes.get(node, {})
        return changed[destination] if destination in changed else self._whole.ports(node, destination)

    def _affected(self) -> Iterator[tuple[str, IPv4Address]]:
        """Cards and their addresses to which a node beside a broken link sends by it."""
        beside = [
            (node, number)
            for node in {end for link in self._broken for end in self._ends(link)}
            for number, far in self._whole.far_ends(node).items()
            if far.passage.link in self._broken
        ]
        for card in self.fabric.ends:
            for address in self._whole.addresses(card.name):
                if any(number in self._whole.ports(node, address) for node, number in beside if node != card.name):
                    yield card.name, address

    def _ends(self, link: int) -> tuple[str, str]:
        return self.fabric.links[link].a, self.fabric.links[link].b

    def _around(self, owner: str, address: IPv4Address) -> Iterator[tuple[str, Ports]]:
        """Nodes that send packets for an address another way than before, and how."""
        hops, usable = self._kept(owner, address)
        queue: list[tuple[int, str, Ports]] = [(distance, name, ()) for name, distance in hops.items()]
        heapq.heapify(queue)
        found: dict[str, Ports] = {}
        while queue:
            distance, name, ports = heapq.heappop(queue)
            if name in found:
                continue
            found[name] = ports
            if name == owner or self._forwards(name):
                for number, near in self._neighbours(name):
                    if near not in hops and near not in found:
                        heapq.heappush(queue, (distance + 1, near, (number,)))
        for node in self.fabric.hosts:
            ports = usable.get(node.name) or found.get(node.name, ())
            if node.name != owner and ports != self._whole.ports(node.name, address):
                yield node.name, ports

    def _forwards(self, name: str) -> bool:
        """Whether packets may go through a node: a switch, or a card that is wired to other cards."""
        if self.fabric.by_name[name].role is Role.FORWARDER:
            return True
        near = (far.node for far in self._whole.far_ends(name).values())
        return any(self.fabric.by_name[one].role is not Role.FORWARDER for one in near)

    def _neighbours(self, name: str) -> Iterator[tuple[int, str]]:
        """Nodes beside one over whole links, and their ports towards it."""
        for far in self._whole.far_ends(name).values():
            if far.passage.link not in self._broken:
                yield (far.link.a_port if far.link.a == far.node else far.link.b_port), far.node

    def _kept(self, owner: str, address: IPv4Address) -> tuple[Mapping[str, int], Mapping[str, Ports]]:
        """Nodes that still arrive by their own tables: how many links that takes at most, and the ports they use."""
        hops: dict[str, int] = {owner: 0}
        usable: dict[str, Ports] = {owner: ()}

        lost: set[str] = set()

        def look(name: str) -> int | None:
            if name in hops or name in lost:
                return hops.get(name)
            # Until more is known: who comes by here again, for an address that its table does not lead to, is lost.
            lost.add(name)
            good = []
            far_ends = self._whole.far_ends(name)
            longest = 0
            for number in self._whole.ports(name, address):
                far = far_ends[number]
                beyond = None if far.passage.link in self._broken else look(far.node)
                if beyond is not None:
                    good.append(number)
                    longest = max(longest, beyond + 1)
            if not good:
                return None
            lost.discard(name)
            hops[name], usable[name] = longest, tuple(good)
            return longest

        for node in self.fabric.hosts:
            look(node.name)
        return hops, usable
