"""Where frames go next: by the longest prefix of their destination, within their tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

import numpy as np

from gateway.dataplane.classify import Classes
from gateway.dataplane.edits import Edits
from gateway.dataplane.headers import Headers
from gateway.dataplane.lookup import MISSING, Network, Prefix, PrefixTable
from gateway.dataplane.memory import Ints, integer
from gateway.dataplane.reasons import Reason

LOCAL = 0
"""The next hop of what is meant for the gateway itself."""

_ONE = integer(1)
_MULTICAST_V4, _MULTICAST_V6 = 0xE, 0xFF


@dataclass(frozen=True)
class Tunnel:
    """A VXLAN tunnel.

    Attributes:
        vni: Network identifier.
        local, remote: Addresses of its ends.
        target_mac, source_mac: Ethernet addresses of the outer frame, 6 bytes each.
        port: UDP port of the other end.
    """

    vni: int
    local: IPv4Address
    remote: IPv4Address
    target_mac: bytes
    source_mac: bytes
    port: int = 4789


@dataclass(frozen=True)
class NextHop:
    """A neighbour.

    Attributes:
        port: Number of the port behind which it is.
        target_mac, source_mac: Ethernet addresses that frames to it have, 6 bytes each.
        vlan: Identifier of the tag that they have, 0: none.
        tunnel: What they are wrapped in; None: nothing.
        max_bytes: Longest frame that it takes.
    """

    port: int
    target_mac: bytes
    source_mac: bytes
    vlan: int = 0
    tunnel: Tunnel | None = None
    max_bytes: int = 9018


@dataclass(frozen=True)
class Route:
    """A prefix, the tenant within which it is meant, and the number of its next hop (1 is the first; 0 is `LOCAL`)."""

    tenant: int
    network: Network
    next_hop: int


class Routes:
    """Routes and next hops that were made ready.

    Attributes:
        next_hops: As given; number 1 is the first.
        macs: The 12 bytes that begin a frame, by number of the next hop.
        ports, vlans, max_bytes: By number of the next hop.

    Raises:
        ValueError: A route leads to a next hop that there is not, or an address does not have 6 bytes.
    """

    def __init__(self, routes: Sequence[Route], next_hops: Sequence[NextHop]) -> None:
        self.routes = tuple(routes)
        self.next_hops = tuple(next_hops)
        for hop in next_hops:
            for mac in (hop.target_mac, hop.source_mac):
                if len(mac) != 6:
                    raise ValueError(f"{mac.hex()} is not an Ethernet address of 6 bytes")
        for route in routes:
            if not 0 <= route.next_hop <= len(next_hops):
                raise ValueError(f"{route.network} leads to next hop {route.next_hop} of {len(next_hops)}")
        self._table = PrefixTable(Prefix(route.tenant, route.network, route.next_hop) for route in routes)
        raw = bytes(12) + b"".join(hop.target_mac + hop.source_mac for hop in next_hops)
        self.macs = np.frombuffer(raw, "V12")
        self.ports = np.array([MISSING, *(hop.port for hop in next_hops)], np.int64)
        self.vlans = np.array([0, *(hop.vlan for hop in next_hops)], np.int64)
        self.max_bytes = np.array([0, *(hop.max_bytes for hop in next_hops)], np.int64)

    def find(self, tenant: Ints, family: Ints, edits: Edits) -> Ints:
        """The next hop of each frame by where it goes after translation, or `MISSING`."""
        return self._table.find(tenant, family, edits.target_high, edits.target)


def route(headers: Headers, classes: Classes, edits: Edits, routes: Routes) -> None:
    """Enter each frame's next hop, and mark frames that have none or are for nobody else."""
    next_hop = routes.find(np.maximum(classes.tenant, 0), headers.family, edits)
    edits.next_hop = next_hop
    reason = headers.reason
    open_ = reason == 0
    four = headers.family == 4
    group = np.where(
        four, edits.target >> np.uint64(28) == _MULTICAST_V4, edits.target_high >> np.uint64(56) == _MULTICAST_V6
    )
    reason[open_ & (next_hop == MISSING)] = Reason.NO_ROUTE
    reason[open_ & (next_hop == LOCAL)] = Reason.OWN_ADDRESS
    reason[open_ & group] = Reason.GROUP


def expire(headers: Headers) -> None:
    """Mark frames that would not survive this hop."""
    expired = headers.ttl <= _ONE
    if np.count_nonzero(expired):
        headers.reason[expired & (headers.reason == 0)] = Reason.TTL_EXPIRED
