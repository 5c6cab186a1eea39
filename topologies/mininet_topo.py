"""Any fabric as a Mininet `Topo`: the same names, ports, addresses and datapath ids."""

from __future__ import annotations

from emulator.linux.foreign_logging import own_logger_class
from emulator.model.fabric import Fabric

with own_logger_class():
    from mininet.topo import Topo


class FabricTopo(Topo):  # type: ignore[misc]
    """A Mininet topology made from a fabric; each link carries its `LinkSpec` as the option ``spec``.

    Mininet's own link classes ignore the option.
    """

    def build(self, fabric: Fabric) -> None:
        """Add the fabric's nodes and links."""
        for node in fabric.nodes:
            if node.is_switch:
                self.addSwitch(node.name, dpid=f"{node.dpid:016x}")
            else:
                self.addHost(node.name, ip=str(node.ip), mac=node.mac)
        for link in fabric.links:
            self.addLink(link.a, link.b, port1=link.a_port, port2=link.b_port, spec=link.spec)
