"""Watches a cell while its workloads run: series of every port, and captures where the scenario asks for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emulator.measure import PacketCapture, Sampler, Vantage
from emulator.model.fabric import Fabric
from emulator.network import Network
from emulator.scenario import Cell

_log = logging.getLogger(__name__)


@contextmanager
def observing(cell: Cell, fabric: Fabric, network: Network, folder: Path) -> Iterator[None]:
    """Sample and capture until the block ends; files go into *folder*."""
    with ExitStack() as stack:
        if cell.capture:
            stack.enter_context(PacketCapture(vantages(fabric, network, set(cell.capture)), folder))
        if cell.sampling_ns is None:
            yield
            return
        with Sampler(vantages(fabric, network), cell.sampling_ns) as sampler:
            yield
        sampler.save(folder)
        if sampler.interval_ns != cell.sampling_ns:
            _log.info("series are sampled every %d ns, to keep them short", sampler.interval_ns)


def vantages(fabric: Fabric, network: Network, wanted: set[str] | None = None) -> list[Vantage]:
    """Where to look at the fabric's interfaces: each host's from inside it, the switches' from here.

    Args:
        fabric: Has the interfaces.
        network: Has the hosts.
        wanted: Only these interfaces; None: all.
    """
    by_node: dict[str, list[str]] = {node.name: [] for node in fabric.nodes}
    for link in fabric.links:
        for node, interface in ((link.a, link.a_interface), (link.b, link.b_interface)):
            if wanted is None or interface in wanted:
                by_node[node].append(interface)
    places = [Vantage(tuple(by_node[one.name]), network.host(one.name).namespace) for one in fabric.hosts]
    at_switches = tuple(name for switch in fabric.switches for name in by_node[switch.name])
    queues = {
        f"{name} {kind}": (name, handle)
        for name, handles in network.class_handles().items()
        if name in at_switches
        for kind, handle in handles.items()
    }
    places.append(Vantage(at_switches, queues=queues))
    return [place for place in places if place.interfaces]
