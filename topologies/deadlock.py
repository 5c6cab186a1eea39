"""Whether routes could deadlock if links were lossless, and with which virtual channels they cannot.

Where a full queue makes the neighbour wait, packets can wait for each other in a circle. They cannot if and only if the
channel dependency graph has no circle, for routes that leave no choice (Dally and Seitz: Deadlock-Free Message Routing
in Multiprocessor Interconnection Networks, 1987): its nodes are channels, and one depends on another if some packet
that holds it asks for the other next. Links here drop instead and never make anyone wait; this is about real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from emulator.model.routing import Passage, Routing
from topologies import cards
from topologies.torus import DIMENSION_ORDER

Channel = tuple[Passage, int]
"""A link in one direction, and the number of a virtual channel of it."""

Numbering = Callable[[Sequence[Passage]], Sequence[int]]
"""Says which virtual channel a packet takes on each link of its path."""


def single(path: Sequence[Passage]) -> Sequence[int]:
    """No virtual channels."""
    return [0] * len(path)


def by_hop(path: Sequence[Passage]) -> Sequence[int]:
    """A channel for each hop: right for all routes, detours too, but as many channels as the longest way has hops."""
    return range(len(path))


def dateline(fabric: Fabric) -> Numbering:
    """Two channels: in each dimension, packets change to the second one where they cross the link that closes the ring.

    Raises:
        TopologyError: The fabric is no straight torus with dimension-order routing.
    """
    if fabric.name != "torus3d" or cards.number(fabric, "twist") or cards.word(fabric, "routing") != DIMENSION_ORDER:
        raise TopologyError("datelines are for straight tori with dimension-order routing")
    places = {node.name: cards.place_of(node.name) for node in fabric.ends}

    def numbers(path: Sequence[Passage]) -> list[int]:
        found: list[int] = []
        current, channel = -1, 0
        for passage in path:
            link = fabric.links[passage.link]
            a, b = places[link.a], places[link.b]
            dimension = next(number for number, (one, other) in enumerate(zip(a, b, strict=True)) if one != other)
            if dimension != current:
                current, channel = dimension, 0
            if abs(a[dimension] - b[dimension]) > 1:
                channel = 1
            found.append(channel)
        return found

    return numbers


def circle(routing: Routing, numbering: Numbering = single) -> list[Channel]:
    """Channels that packets may hold while each waits for the next and the last for the first; empty if there are none.

    Args:
        routing: Routes of a fabric; of equal next hops the first is looked at.
        numbering: Virtual channels.
    """
    import networkx  # takes long to load

    graph = networkx.DiGraph()
    for path in _paths(routing):
        graph.add_edges_from(pairwise(zip(path, numbering(path), strict=True)))
    try:
        return [channel for channel, _following in networkx.find_cycle(graph)]
    except networkx.NetworkXNoCycle:
        return []


def _paths(routing: Routing) -> Iterable[Sequence[Passage]]:
    """Of all pairs of cards that reach each other."""
    ends = [node.name for node in routing.fabric.ends]
    for source in ends:
        for target in ends:
            if source != target and routing.ports(source, routing.addresses(target)[0]):
                yield routing.path(source, target)
