"""From one state of a fabric's tables to the next, in steps between which no packet can circle.

A node changes its way to an address only after every node that is then ahead on that way has changed: a packet follows
old tables until it meets a node with a new one, and from there on meets new ones only. Both states have no circles, so
no mixture of them has. (RFC 6976 orders updates of forwarding tables the same way.)

What a node does differently for single addresses becomes the fewest prefixes that say nothing about other addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from emulator.model.detour import Detour, Ports
from emulator.model.routing import ALL_BITS, Routing


@dataclass(frozen=True)
class RouteChange:
    """A line of a node's table that changes.

    Attributes:
        prefix: Which line.
        ports: Its ports from now on; None: there is no such line any more.
    """

    prefix: IPv4Network
    ports: Ports | None


Step = Mapping[str, Sequence[RouteChange]]
"""What nodes change, each in the order given; the nodes themselves in any order."""


def transition(routing: Routing, before: Detour | None, after: Detour | None) -> list[Step]:
    """The steps from one set of detours to another.

    Nodes that have no way to an address keep what they had while all was well: the node beside the broken link has no
    next hop that works, so that packets end there.

    Args:
        routing: Of the whole fabric.
        before: Detours that are taken now; None: none.
        after: Detours that are to be taken.
    """
    old, new = _ways(before), _ways(after)
    order = _Order(routing, after, old, new)
    by_level: dict[int, dict[str, dict[IPv4Address, Ports | None]]] = {}
    for node in {**old, **new}:
        was, becomes = old.get(node, {}), new.get(node, {})
        for address in {**was, **becomes}:
            if was.get(address) != becomes.get(address):
                level = by_level.setdefault(order.level(node, address), {})
                level.setdefault(node, {})[address] = becomes.get(address)
    tables = _Overlays(routing, old)
    return [
        {node: tables.change(node, changes) for node, changes in by_level[level].items()} for level in sorted(by_level)
    ]


def _ways(detour: Detour | None) -> dict[str, dict[IPv4Address, Ports]]:
    """Detours without addresses to which there is no way."""
    found = {
        node: {address: ports for address, ports in changes.items() if ports}
        for node, changes in (detour.changes if detour is not None else {}).items()
    }
    return {node: changes for node, changes in found.items() if changes}


class _Order:
    """How many nodes ahead, at most, change their way to an address before a node may."""

    def __init__(
        self,
        routing: Routing,
        after: Detour | None,
        old: Mapping[str, Mapping[IPv4Address, Ports]],
        new: Mapping[str, Mapping[IPv4Address, Ports]],
    ) -> None:
        self._routing, self._old, self._new = routing, old, new
        self._broken = after.broken if after is not None else frozenset()
        self._levels: dict[tuple[str, IPv4Address], int] = {
            (node.name, address): 0 for node in routing.fabric.nodes for address in routing.addresses(node.name)
        }

    def level(self, node: str, address: IPv4Address) -> int:
        """1 for a node that need not wait; counts nodes on the way that change, itself included."""
        key = node, address
        if key not in self._levels:
            becomes = self._new.get(node, {}).get(address)
            changes = self._old.get(node, {}).get(address) != becomes
            far_ends = self._routing.far_ends(node)
            onward = [far_ends[port] for port in becomes or self._routing.ports(node, address)]
            ahead = [self.level(far.node, address) for far in onward if far.passage.link not in self._broken]
            self._levels[key] = max(ahead, default=0) + changes
        return self._levels[key]


class _Overlays:
    """Tables of nodes while they change."""

    def __init__(self, routing: Routing, ways: Mapping[str, Mapping[IPv4Address, Ports]]) -> None:
        self._routing = routing
        self._ways = {node: dict(changes) for node, changes in ways.items()}
        self._known = sorted(int(one) for node in routing.fabric.nodes for one in routing.addresses(node.name))

    def change(self, node: str, changes: Mapping[IPv4Address, Ports | None]) -> list[RouteChange]:
        """Change a node's ways; returns lines in an order in which each address changes its way at once, and once.

        New lines come first, the longest before the others; then the old ones go, the shortest before the others.
        """
        ways = self._ways.setdefault(node, {})
        before = self.overlay(node, ways)
        for address, ports in changes.items():
            if ports is None:
                del ways[address]
            else:
                ways[address] = ports
        after = self.overlay(node, ways)
        whole = {route.prefix: route.ports for route in self._routing.routes(node)}
        enter = {prefix: ports for prefix, ports in after.items() if before.get(prefix, whole.get(prefix)) != ports}
        leave = [prefix for prefix in before if prefix not in after]
        enter |= {prefix: whole[prefix] for prefix in leave if prefix in whole}
        lines = [RouteChange(prefix, enter[prefix]) for prefix in sorted(enter, key=_length, reverse=True)]
        gone = sorted((prefix for prefix in leave if prefix not in whole), key=_length)
        return lines + [RouteChange(prefix, None) for prefix in gone]

    def overlay(self, node: str, ways: Mapping[IPv4Address, Ports]) -> dict[IPv4Network, Ports]:
        """The fewest prefixes that hold changed addresses only and that no longer line of the table stands below."""
        if not ways:
            return {}
        wanted = {int(address): ports for address, ports in ways.items()}
        table = [(int(route.prefix.network_address), route.prefix.prefixlen) for route in self._routing.routes(node)]
        found: dict[IPv4Network, Ports] = {}

        def cover(first: int, length: int, known: Sequence[int], lines: Sequence[tuple[int, int]]) -> None:
            actions = {wanted.get(one) for one in known}
            if actions == {None} or not actions:
                return
            below = [line for line in lines if line[1] > length]
            [action, *others] = actions
            if action is not None and not others and not below:
                found[IPv4Network((first, length))] = action
                return
            middle = first | 1 << (ALL_BITS - length - 1)
            cover(
                first, length + 1, [one for one in known if one < middle], [line for line in below if line[0] < middle]
            )
            cover(
                middle,
                length + 1,
                [one for one in known if one >= middle],
                [line for line in below if line[0] >= middle],
            )

        cover(0, 0, self._known, table)
        return found


def _length(prefix: IPv4Network) -> int:
    return prefix.prefixlen
