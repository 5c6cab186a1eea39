"""What compiling needs to know of a fabric and a design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from controller.designs import Hop
from controller.flows import Table
from controller.paths import Attachment
from controller.tenancy.ground import Ground
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric

INFRASTRUCTURE_SEGMENT = 1


@dataclass(frozen=True)
class Place:
    """A host as the fabric knows it.

    Attributes:
        host: Its name.
        dpid, port: Where it is attached.
        mac, ip: Its addresses in the fabric.
    """

    host: str
    dpid: int
    port: int
    mac: str
    ip: str


@dataclass(frozen=True)
class Site:
    """A fabric and how its storage traffic travels.

    Attributes:
        fabric: The network.
        attachments: Where its hosts are attached.
        hops: What the software of visited nodes does.
        via: For each client, the nodes that its traffic visits on the way to storage, in order.
        classed: Datapath ids of the switches with rules in `Table.CLASS`; the others skip it.
    """

    fabric: Fabric
    attachments: Mapping[str, Attachment]
    hops: Mapping[str, Hop]
    via: Mapping[str, tuple[str, ...]]
    classed: frozenset[int] = frozenset()

    @cached_property
    def places(self) -> dict[str, Place]:
        """The hosts that are attached to a switch and have addresses."""
        found: dict[str, Place] = {}
        for node in self.fabric.hosts:
            attachment = self.attachments.get(node.name)
            dpid = self.fabric.by_name[attachment.switch].dpid if attachment else None
            if attachment is not None and dpid is not None and node.mac and node.ip:
                found[node.name] = Place(node.name, dpid, attachment.port, node.mac, str(node.ip.ip))
        return found

    @cached_property
    def ground(self) -> Ground:
        """What declarations are checked against."""
        return Ground.of(self.fabric, self.places, self.hops)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Datapath ids of the switches with hosts, in order."""
        return tuple(sorted({place.dpid for place in self.places.values()}))

    def forwarders(self, client: str) -> tuple[str, ...]:
        """The nodes that pass a client's TCP on as it is, in order.

        Raises:
            ControllerError: A node that passes TCP on comes after one that ends it.
        """
        path = self.via.get(client, ())
        ends = [Hop.TERMINATE in self.hops[name] for name in path]
        if ends != sorted(ends):
            raise ControllerError(f"storage traffic of {client}: nodes behind a proxy have to be proxies themselves")
        return path[: ends.count(False)]

    def proxies(self, client: str) -> tuple[str, ...]:
        """The nodes that end a client's TCP and open a connection of their own, in order."""
        return self.via.get(client, ())[len(self.forwarders(client)) :]

    def classes(self, dpid: int) -> Table:
        """The table that chooses the queue, or the one after it where there are no queues."""
        return Table.CLASS if dpid in self.classed else Table.SPREAD
