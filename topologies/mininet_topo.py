"""Any fabric as a Mininet `Topo`: the same names, ports, addresses and datapath ids."""

from __future__ import annotations

from emulator.linux.foreign_logging import own_logger_class
from emulator.model.fabric import Fabric, Role
from topologies import routing_of
from topologies.commands import ip_lines
from topologies.mn_forwarding import Forwarder

with own_logger_class():
    from mininet.topo import Topo


class FabricTopo(Topo):  # type: ignore[misc]
    """A Mininet topology made from a fabric; each link carries its `LinkSpec` as the option ``spec``.

    Mininet's own link classes ignore the option. Hosts that have to forward carry their tables as ``ip_lines``, which
    `topologies.mn_forwarding.Forwarding` hosts apply; switches that route are nodes of the class `Forwarder`.
    """

    def build(self, fabric: Fabric, forwarder: type[Forwarder] = Forwarder) -> None:
        """Add the fabric's nodes and links; switches that route are of the class *forwarder*."""
        routing = routing_of(fabric)
        for number, node in enumerate(fabric.nodes, start=1):
            tables = {"ip_lines": ip_lines(routing, node.name)} if routing else {}
            if node.is_switch:
                self.addSwitch(node.name, dpid=f"{node.dpid:016x}")
            elif node.role is Role.FORWARDER:
                self.addSwitch(node.name, cls=forwarder, dpid=f"{number:016x}", address=str(node.ip), **tables)
            else:
                self.addHost(node.name, ip=str(node.ip), mac=node.mac, **tables)
        for link in fabric.links:
            self.addLink(link.a, link.b, port1=link.a_port, port2=link.b_port, spec=link.spec)
