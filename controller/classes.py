"""Which queue of a shaped link a packet takes, where links keep storage and compute traffic apart. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from controller.flows import (
    ETH_TYPE_IPV4,
    IP_PROTO_TCP,
    FlowRule,
    Match,
    Purpose,
    SetQueue,
    Table,
    cookie_of,
)
from emulator.model.fabric import Fabric

STORAGE_QUEUE = 0
COMPUTE_QUEUE = 1
"""Also of everything that no rule looked at."""

PRIORITY_STORAGE = 100
PRIORITY_COMPUTE = 50


class Server(Protocol):
    """Where a storage service is on the fabric.

    Attributes:
        name: Its name, for people.
        ip: The fabric's address of the node that offers it.
        port: TCP port there.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def ip(self) -> str: ...  # noqa: D102

    @property
    def port(self) -> int: ...  # noqa: D102


def classed_switches(fabric: Fabric) -> frozenset[int]:
    """Datapath ids of the switches with a link that has two queues: packets pass `Table.CLASS` there."""
    names = {name for link in fabric.links if link.spec.storage_share is not None for name in (link.a, link.b)}
    return frozenset(node.dpid for node in fabric.switches if node.name in names and node.dpid is not None)


def class_rules(fabric: Fabric, services: Sequence[Server]) -> tuple[FlowRule, ...]:
    """Rules of `Table.CLASS`: TCP to and from storage services is storage traffic, everything else is compute traffic.

    A segment's tag does not matter, so the rules serve packets from other switches as well.

    Args:
        fabric: Its switches that have a link with two queues get the rules.
        services: Several may share an address and port.
    """
    dpids = sorted(classed_switches(fabric))
    # The first of several services at one place gives the note.
    servers = {(service.ip, service.port): service.name for service in reversed(services)}
    return tuple(rule for dpid in dpids for rule in _rules(dpid, servers))


def _rules(dpid: int, servers: Mapping[tuple[str, int], str]) -> Iterator[FlowRule]:
    for (ip, port), name in sorted(servers.items()):
        for way, match in (
            ("to", Match(eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_TCP, ipv4_dst=ip, tcp_dst=port)),
            ("from", Match(eth_type=ETH_TYPE_IPV4, ip_proto=IP_PROTO_TCP, ipv4_src=ip, tcp_src=port)),
        ):
            yield _rule(dpid, PRIORITY_STORAGE, match, STORAGE_QUEUE, f"storage: {way} {name}")
    yield _rule(dpid, PRIORITY_COMPUTE, Match(), COMPUTE_QUEUE, "compute: everything else")


def _rule(dpid: int, priority: int, match: Match, queue: int, note: str) -> FlowRule:
    return FlowRule(
        dpid,
        Table.CLASS,
        priority,
        match,
        (SetQueue(queue),),
        goto=Table.SPREAD,
        cookie=cookie_of(Purpose.CLASS, queue),
        note=note,
    )
