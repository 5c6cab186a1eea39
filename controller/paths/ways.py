"""The ways that packets of a pair of hosts take, as directed links, and those that they could take instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from controller.paths.groups import weighted
from controller.paths.paths import Paths, Spread

Pair = tuple[str, str]
"""Sending and receiving host."""
MOST_WAYS = 64
"""So many of a pair's equal paths are looked at."""


@dataclass(frozen=True)
class Pin:
    """All traffic of one host to another, held on one path.

    Attributes:
        source: Sending host.
        target: Receiving host.
        switches: From the source's switch to the target's.
        ports: The port by which each of them but the last sends on.
    """

    source: str
    target: str
    switches: tuple[str, ...]
    ports: tuple[int, ...]

    @property
    def pair(self) -> Pair:
        """Whose traffic it is."""
        return self.source, self.target


class Ways:
    """Ways over one set of paths. Links are positions in ``paths.layout.graph``."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._graph = paths.layout.graph
        self._edges = {
            (self._graph.switches[source], port): edge
            for edge, (source, port) in enumerate(
                zip(self._graph.source.tolist(), self._graph.port.tolist(), strict=True)
            )
        }
        self._shares: dict[Pair, Mapping[int, float]] = {}

    def edge(self, switch: str, port: int) -> int | None:
        """The link behind a port, or None if no other switch is there."""
        return self._edges.get((switch, port))

    def shares(self, source: str, target: str) -> Mapping[int, float]:
        """Which share of a pair's traffic crosses which links, unless it is pinned.

        All or nothing where hosts are spread; where flows are, what to expect of many.
        """
        pair = source, target
        if pair not in self._shares:
            spread = self._planned if self._paths.spread is Spread.HOSTS else self._expected
            self._shares[pair] = spread(pair) if self._paths.reaches(source, target) else {}
        return self._shares[pair]

    def _planned(self, pair: Pair) -> Mapping[int, float]:
        switches = self._paths.path(*pair)
        plane = self._paths.plane(*pair)
        found: dict[int, float] = {}
        for switch in switches[:-1]:
            ports = self._paths.plane_ports(switch, switches[-1])
            if ports:
                found[self._edges[switch, ports[plane]]] = 1.0
        return found

    def _expected(self, pair: Pair) -> Mapping[int, float]:
        start, end = (self._paths.attachments[host].switch for host in pair)
        found: dict[int, float] = {}
        ring: dict[str, float] = {start: 1.0}
        while ring and end not in ring:
            after: dict[str, float] = defaultdict(float)
            for switch, share in ring.items():
                edges = [self._edges[switch, port] for port in self._paths.next_ports(switch, end)]
                buckets = weighted({edge: int(self._graph.rate_bps[edge]) for edge in edges})
                total = sum(bucket.weight for bucket in buckets)
                for bucket in buckets:
                    found[bucket.port] = share * bucket.weight / total
                    after[self._graph.switches[self._graph.target[bucket.port]]] += found[bucket.port]
            ring = after
        return found

    def pinned(self, pin: Pin) -> tuple[int, ...]:
        """The links of a pin."""
        return tuple(self._edges[switch, port] for switch, port in zip(pin.switches, pin.ports, strict=False))

    def holds(self, pin: Pin) -> bool:
        """Whether a pin's path is still one of the best, all its links up."""
        row = self._paths.layout.rows[pin.switches[-1]]
        return bool(self._paths.next_hops.onward[row, list(self.pinned(pin))].all())

    def pin(self, pair: Pair, edges: tuple[int, ...]) -> Pin:
        """The pin of a pair to a way."""
        graph = self._graph
        switches = [graph.switches[graph.source[edge]] for edge in edges]
        switches.append(graph.switches[graph.target[edges[-1]]])
        return Pin(*pair, tuple(switches), tuple(int(graph.port[edge]) for edge in edges))

    def candidates(self, source: str, target: str) -> list[tuple[int, ...]]:
        """All best ways of a pair, at most `MOST_WAYS`, by ports."""
        start, end = (self._graph.index[self._paths.attachments[host].switch] for host in (source, target))
        row = self._paths.layout.rows[self._graph.switches[end]]
        onward = self._paths.next_hops.onward[row]
        found: list[tuple[int, ...]] = []
        # Depth first; ways are taken off in order of their ports.
        waiting: list[tuple[int, tuple[int, ...]]] = [(start, ())]
        while waiting and len(found) < MOST_WAYS:
            switch, way = waiting.pop()
            if switch == end:
                found.append(way)
                continue
            edges = [edge for edge in self._graph.edges_of(switch) if onward[edge]]
            waiting += [(int(self._graph.target[edge]), (*way, edge)) for edge in reversed(edges)]
        return [way for way in found if way]
