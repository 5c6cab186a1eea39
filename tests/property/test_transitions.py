"""Tables change line by line, nodes within a step in any order: packets never circle, and end where they should."""

from __future__ import annotations

import random
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.model.detour import Detour
from emulator.model.fabric import Fabric
from emulator.model.routing import ALL_BITS, Routing
from emulator.model.transition import Step, transition
from topologies import cascade, dragonfly, dual_plane, fat_tree, routing_of, torus3d, tree

FABRICS = {
    "torus": torus3d(3, 3, 2),
    "ring": torus3d(6, 1, 1),
    "adaptive": torus3d(4, 3, 1, routing="adaptive"),
    "twisted": torus3d(2, 2, 4, twist=2),
    "flat twisted": torus3d(3, 6, 1, twist=3, routing="adaptive"),
    "tree": tree("2x2x2"),
    "fat": fat_tree(4),
    "planes": dual_plane(3, 2, spines=2),
    "dragonfly": dragonfly(a=2, p=1, h=1),
    "cascade": cascade(supernodes=2, shape="2x2x2", uplinks=2),
}
Tables = dict[str, dict[IPv4Network, tuple[int, ...]]]


class Kernel:
    """Tables as kernels have them: the longest prefix counts, and a next hop whose line is dead is not used."""

    def __init__(self, routing: Routing, broken: frozenset[int]) -> None:
        self.routing, self.broken = routing, broken
        self.tables: Tables = {
            node.name: {route.prefix: route.ports for route in routing.routes(node.name)}
            for node in routing.fabric.hosts
        }

    def onward(self, node: str, address: IPv4Address) -> list[str]:
        """Nodes to which a node may send packets for an address."""
        table, far_ends = self.tables[node], self.routing.far_ends(node)
        for length in range(ALL_BITS, -1, -1):
            ports = table.get(IPv4Network((int(address) >> (ALL_BITS - length) << (ALL_BITS - length), length)))
            if ports is not None:
                return [far_ends[port].node for port in ports if far_ends[port].passage.link not in self.broken]
        return []

    def delivers(self, address: IPv4Address, owner: str) -> set[str]:
        """Nodes all of whose packets for an address arrive.

        Raises:
            AssertionError: They may go in circles, which they did not at first.
        """
        arrives = {owner: True}

        def look(name: str, behind: tuple[str, ...]) -> bool:
            assert name not in behind, f"{' to '.join((*behind, name))} for {address}"
            if name not in arrives:
                onward = [look(one, (*behind, name)) for one in self.onward(name, address)]
                arrives[name] = bool(onward) and all(onward)
            return arrives[name]

        return {node.name for node in self.routing.fabric.ends if look(node.name, ())}


def lines(steps: list[Step], order: random.Random) -> Iterator[tuple[str, IPv4Network, tuple[int, ...] | None]]:
    """Single changes; within a step, nodes take turns at random, each in its own order."""
    for step in steps:
        queues = {node: list(changes) for node, changes in step.items()}
        while queues:
            node = order.choice(sorted(queues))
            change = queues[node].pop(0)
            if not queues[node]:
                del queues[node]
            yield node, change.prefix, change.ports


def apply(tables: Tables, node: str, prefix: IPv4Network, ports: tuple[int, ...] | None) -> None:
    """Carry one change out; a line that goes must be there."""
    if ports is None:
        del tables[node][prefix]
    else:
        assert ports
        tables[node][prefix] = ports


def some_broken(fabric: Fabric, data: st.DataObject) -> frozenset[int]:
    """Links, and maybe all of one card's."""
    broken = data.draw(st.sets(st.integers(0, len(fabric.links) - 1), max_size=4))
    if data.draw(st.booleans()):
        dead = data.draw(st.sampled_from([node.name for node in fabric.nodes]))
        broken |= {number for number, link in enumerate(fabric.links) if dead in (link.a, link.b)}
    return frozenset(broken)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(sorted(FABRICS)), st.data())
def test_no_circle_between_any_two_lines(name: str, data: st.DataObject) -> None:
    """One set of faults, repaired, then another: after every line, packets end somewhere; after all, where planned.

    Verify: a node that reached a card before and will afterwards reaches it all the time; the tables at the end are
    those that a repair from scratch makes, and after the last fault is gone the fabric's own.
    """
    fabric = FABRICS[name]
    routing = routing_of(fabric)
    assert routing is not None
    first, second = some_broken(fabric, data), some_broken(fabric, data)
    order = random.Random(data.draw(st.integers(0, 1000)))
    targets = order.sample([node.name for node in fabric.ends], 4)
    kernel = Kernel(routing, first)
    original = {node: dict(table) for node, table in kernel.tables.items()}
    detours: list[Detour | None] = [None, Detour(routing, first), Detour(routing, second), None]
    for before, after in pairwise(detours):
        # What breaks is not used any more from now on, what is whole again can be.
        kernel.broken = after.broken if after is not None else frozenset()
        arrives = {one: kernel.delivers(routing.addresses(one)[0], one) for one in targets}
        aims = {one: planned(fabric, after or routing, one) for one in targets}
        for change in lines(transition(routing, before, after), order):
            apply(kernel.tables, *change)
            for one in targets:
                found = kernel.delivers(routing.addresses(one)[0], one)
                assert found >= arrives[one] & aims[one]
        for one in targets:
            assert kernel.delivers(routing.addresses(one)[0], one) == aims[one]
        fresh = Kernel(routing, kernel.broken).tables
        for change in lines(transition(routing, None, after), order):
            apply(fresh, *change)
        assert kernel.tables == fresh
    assert kernel.tables == original


def planned(fabric: Fabric, routing: Routing, target: str) -> set[str]:
    """Cards from which a target is to be reached."""
    address = routing.addresses(target)[0]
    return {node.name for node in fabric.ends if node.name == target or routing.ports(node.name, address)}


@pytest.mark.parametrize(
    ("fabric", "most"),
    [(torus3d(8, 8, 8), 48), (torus3d(4, 4, 8, twist=4), 72), (tree("4x4x4"), 8), (torus3d(8, 8, 1), 24)],
    ids=lambda one: getattr(one, "name", one),
)
def test_few_routes(fabric: Fabric, most: int) -> None:
    """For one broken link a node gets some dozen more routes at most, most nodes none, and all in few steps."""
    routing = routing_of(fabric)
    assert routing is not None
    detour = Detour(routing, {len(fabric.links) // 2})
    steps = transition(routing, None, detour)
    counts: dict[str, int] = {}
    for step in steps:
        for node, changes in step.items():
            counts[node] = counts.get(node, 0) + len(changes)
    assert counts
    assert len(steps) <= 3
    assert max(counts.values()) <= most
    assert len(counts) <= len(fabric.nodes) // 4
