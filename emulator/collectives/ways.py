"""Ways through a fabric for many pairs of nodes at once, as arrays: what a message from one to the other crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address
from itertools import combinations
from typing import Protocol

import numpy as np
import numpy.typing as npt

from emulator.collectives.schedule import Integers
from emulator.errors import TopologyError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Fabric
from emulator.model.routing import Passage
from emulator.model.theory import IPV4_HEADER_BYTES, TCP_HEADER_BYTES, TCP_TIMESTAMP_BYTES

Numbers = npt.NDArray[np.float64]

_SEGMENT_HEADERS_BYTES = IPV4_HEADER_BYTES + TCP_HEADER_BYTES + TCP_TIMESTAMP_BYTES
_MOST_KNOWN = 2048
"""Patterns of pairs whose ways are kept."""


class Ways(Protocol):
    """Where packets of a fabric go; `emulator.model.routing.Routing` is one."""

    @property
    def fabric(self) -> Fabric:
        """The fabric."""

    def addresses(self, node: str) -> Sequence[IPv4Address]:
        """All addresses of a node: by any way, then, if there are several planes, by each of them."""

    def path(self, source: str, target: str, address: IPv4Address | None = None) -> Sequence[Passage]:
        """Links that packets cross from one node to an address of another, or one of several ways that are equal."""

    def shares(self, source: str, target: str, address: IPv4Address | None = None) -> Mapping[Passage, float]:
        """The share of traffic from one node to an address of another that crosses each link."""


def stripe_addresses(
    ways: Ways, source: str, target: str, stripe: int, stripes: int
) -> tuple[IPv4Address, IPv4Address]:
    """From which address of a node to which of another's a stripe of a buffer is sent.

    Those in a plane of its own, if there are so many planes and this one joins the two; else those by any plane.
    """
    ours, theirs = ways.addresses(source), ways.addresses(target)
    if stripes > 1 and min(len(ours), len(theirs)) > stripes:
        near, far = ours[1 + stripe], theirs[1 + stripe]
        if _reaches(ways, source, target, far) and _reaches(ways, target, source, near):
            return near, far
    return ours[0], theirs[0]


def _reaches(ways: Ways, source: str, target: str, address: IPv4Address | None = None) -> bool:
    try:
        ways.path(source, target, address)
    except TopologyError:
        return False
    return True


def together(ways: Ways, nodes: Sequence[str]) -> list[str]:
    """Those of some nodes that all reach each other, in their order: who misses most of the others goes first."""
    apart: dict[str, set[str]] = {node: set() for node in nodes}
    for one, other in combinations(nodes, 2):
        if not (_reaches(ways, one, other) and _reaches(ways, other, one)):
            apart[one].add(other)
            apart[other].add(one)
    while apart:
        worst = max(apart, key=lambda node: len(apart[node]))
        if not apart[worst]:
            break
        for other in apart.pop(worst):
            apart[other].discard(worst)
    return list(apart)


def planes_of(ways: Ways, nodes: Sequence[str]) -> int:
    """Planes in which all of some nodes have an address of their own; 1 if there are none."""
    return max(1, min(len(ways.addresses(node)) for node in nodes) - 1)


@dataclass(frozen=True)
class _Way:
    """From one node to another: links with their direction, and the share of traffic on each."""

    passages: Integers
    shares: Numbers
    delay_ns: float
    forward_ns: float
    payload_bytes: int
    around_bytes: int


@dataclass(frozen=True)
class WayTable:
    """The ways of many pairs.

    Attributes:
        passages: Links and directions, twice the number of the link, and one more for the direction back.
        shares: Share of a pair's traffic on each.
        pairs: Which pair each passage belongs to.
        begins: Where the passages of each pair begin.
        used: Passages that anybody crosses, each once.
        which: Place in these of each passage.
        delays_ns: Propagation on all links, by pair.
        forward_ns: Time that a byte takes on all links but the last.
        payload_bytes: Most payload of a frame.
        around_bytes: What a frame has around it on the line.
    """

    passages: Integers
    shares: Numbers
    pairs: Integers
    begins: Integers
    used: Integers
    which: Integers
    delays_ns: Numbers
    forward_ns: Numbers
    payload_bytes: Integers
    around_bytes: Integers


class WayFinder:
    """Finds the ways between nodes that have numbers.

    Args:
        ways: Of the fabric.
        nodes: By number.
    """

    def __init__(self, ways: Ways, nodes: Sequence[str]) -> None:
        self._ways = ways
        self._nodes = list(nodes)
        self._way = lru_cache(maxsize=None)(self._way_between)
        self._known: dict[tuple[bytes, int, int], WayTable] = {}

    def table(self, pairs: Integers, stripe: int = 0, stripes: int = 1) -> WayTable:
        """The ways of pairs, each ``source * nodes + target``; most steps of a schedule have the same ones."""
        key = (pairs.tobytes(), stripe, stripes)
        if key not in self._known:
            found = [self._way(*divmod(pair, len(self._nodes)), stripe, stripes) for pair in pairs.tolist()]
            lengths = np.array([len(way.passages) for way in found])
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            passages = np.concatenate([way.passages for way in found])
            used, which = np.unique(passages, return_inverse=True)
            self._known[key] = WayTable(
                passages=passages,
                used=used,
                which=which.reshape(-1),
                shares=np.concatenate([way.shares for way in found]),
                pairs=np.repeat(np.arange(len(found)), lengths),
                begins=np.cumsum(lengths) - lengths,
                delays_ns=np.array([way.delay_ns for way in found]),
                forward_ns=np.array([way.forward_ns for way in found]),
                payload_bytes=np.array([way.payload_bytes for way in found]),
                around_bytes=np.array([way.around_bytes for way in found]),
            )
        return self._known[key]

    def _way_between(self, source: int, target: int, stripe: int, stripes: int) -> _Way:
        _, address = stripe_addresses(self._ways, self._nodes[source], self._nodes[target], stripe, stripes)
        shares = self._ways.shares(self._nodes[source], self._nodes[target], address)
        specs = [
            self._ways.fabric.links[passage.link].spec
            for passage in self._ways.path(self._nodes[source], self._nodes[target], address)
        ]
        numbers = np.array([2 * passage.link + (not passage.forward) for passage in shares], dtype=np.int64)
        return _Way(
            passages=numbers,
            shares=np.array(list(shares.values())),
            delay_ns=sum(spec.delay_ns for spec in specs),
            forward_ns=sum(8e9 / spec.rate_bps for spec in specs[:-1]),
            payload_bytes=min(spec.mtu_bytes for spec in specs) - _SEGMENT_HEADERS_BYTES,
            around_bytes=_SEGMENT_HEADERS_BYTES + ETHERNET_HEADER_BYTES + max(spec.overhead_bytes for spec in specs),
        )
