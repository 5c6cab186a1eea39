"""The switches of a fabric and the links between them as arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulator.errors import ControllerError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Fabric, Link

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Graph:
    """Directed links between switches: each link of the fabric twice, in order of the sending switch and its port.

    Attributes:
        switches: Names, in the fabric's order; all other switch numbers are positions in it.
        index: The position of each switch.
        links: The links between switches, in the fabric's order.
        source, target: Switches at the two ends of each directed link.
        port: Port of the sending switch.
        latency_ns: Unloaded latency of a full-size frame, in ns: propagation and serialization at the true rate.
        rate_bps: Line rate in bit/s.
        link: Position in ``links``.
        reverse: The same link in the other direction.
        first: Where each switch's directed links begin; one more entry at the end.
    """

    switches: tuple[str, ...]
    index: Mapping[str, int]
    links: tuple[Link, ...]
    source: IntArray
    target: IntArray
    port: IntArray
    latency_ns: IntArray
    rate_bps: IntArray
    link: IntArray
    reverse: IntArray
    first: IntArray

    def alive(self, down: Collection[str]) -> BoolArray:
        """Which directed links remain without the named ones."""
        lost = np.array([link.name in down for link in self.links], dtype=np.bool_)
        return ~lost[self.link]

    def edges_of(self, switch: int) -> range:
        """The directed links that leave a switch, in order of their ports."""
        return range(int(self.first[switch]), int(self.first[switch + 1]))


def fabric_links(fabric: Fabric) -> tuple[Link, ...]:
    """Links between two switches, in order."""
    return tuple(link for link in fabric.links if fabric.by_name[link.a].is_switch and fabric.by_name[link.b].is_switch)


def latency_ns(link: Link) -> int:
    """Unloaded latency of a full-size frame on a link, in ns."""
    return link.spec.delay_ns + link.spec.serialization_ns(link.spec.mtu_bytes + ETHERNET_HEADER_BYTES)


def graph_of(fabric: Fabric) -> Graph:
    """The graph of a fabric's switches. Links to hosts are no part of it: hosts do not forward for others."""
    switches = tuple(node.name for node in fabric.switches)
    index = {name: position for position, name in enumerate(switches)}
    links = fabric_links(fabric)
    count = len(links)
    near = np.array([index[link.a] for link in links] + [index[link.b] for link in links], dtype=np.int64)
    far = np.concatenate([near[count:], near[:count]])
    port = np.array([link.a_port for link in links] + [link.b_port for link in links], dtype=np.int64)
    order = np.lexsort((port, near))
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    number = order % count if count else order
    return Graph(
        switches,
        index,
        links,
        source=near[order],
        target=far[order],
        port=port[order],
        latency_ns=np.array([latency_ns(link) for link in links], dtype=np.int64)[number],
        rate_bps=np.array([link.spec.rate_bps for link in links], dtype=np.int64)[number],
        link=number,
        reverse=place[(order + count) % (2 * count)] if count else order,
        first=np.searchsorted(near[order], np.arange(len(switches) + 1)),
    )


def check_links(fabric: Fabric, names: Collection[str]) -> None:
    """Refuse names that are no links of the fabric.

    Raises:
        ControllerError: One of them is not.
    """
    known = {link.name for link in fabric.links}
    for name in sorted(names):
        if name not in known:
            raise ControllerError(f"there is no link {name!r} in the fabric {fabric.name!r}")
