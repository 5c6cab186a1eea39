"""A built network as a Mininet object: the habits ``net.get('h0').cmd('…')``, ``pingAll()`` and the CLI work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.model.fabric import Role
from emulator.network.lazy_node import LazyForwarder, LazyHost, LazySwitch
from emulator.network.mininet_import import CLI, Mininet, error
from emulator.network.netlink_intf import ShownLink

if TYPE_CHECKING:
    from emulator.network.network import Network


class FabricMininet(Mininet):  # type: ignore[misc]
    """Mininet's view of a `Network` that is running.

    Args:
        network: The network; it does the building and the stopping.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._cut: set[str] = set()
        # Mininet would else rewrite sysctls of the whole machine, buffers of TCP among them, and say nothing.
        Mininet.inited = True
        super().__init__(topo=None, build=False, controller=None)
        for node in network.fabric.ends:
            host = LazyHost(node.name, network.host(node.name), ip=str(node.ip) if node.ip else None, mac=node.mac)
            self.hosts.append(host)
            self.nameToNode[node.name] = host
        for number, node in enumerate(network.fabric.with_role(Role.FORWARDER), start=1):
            self._show_switch(LazyForwarder(node.name, network.host(node.name), number))
        for node in network.fabric.switches:
            switch = LazySwitch(node.name, node.dpid or 0, network.switches.environment, power=network)
            self._show_switch(switch)
        for link, ports in zip(network.fabric.links, network.links, strict=True):
            self.links.append(ShownLink(self.nameToNode[link.a], self.nameToNode[link.b], ports))
        for node in network.fabric.ends:
            first = self.nameToNode[node.name].defaultIntf() if node.ip else None
            if first is not None and node.ip is not None:
                first.ip, first.prefixLen = str(node.ip.ip), str(node.ip.network.prefixlen)
        self.built = True

    def _show_switch(self, switch: LazySwitch | LazyForwarder) -> None:
        self.switches.append(switch)
        self.nameToNode[switch.name] = switch

    def start(self) -> None:
        """Nothing: it is running."""

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802
        """Cut all links between two nodes (``down``) or restore them (``up``), as often as one likes."""
        if status not in ("up", "down"):
            error(f"a link is set up or down, not {status}\n")
            return
        links = [link for link in self._network.fabric.links if {link.a, link.b} == {src, dst}]
        if not links:
            error(f"src and dst not connected: {src} {dst}\n")
        for link in links:
            if status == "down" and link.name not in self._cut:
                self._network.cut(link.name)
                self._cut.add(link.name)
            elif status == "up" and link.name in self._cut:
                self._network.restore(link.name)
                self._cut.remove(link.name)

    def stop(self) -> None:
        """End the shells; the network itself is stopped by its owner."""
        for node in (*self.hosts, *self.switches):
            node.terminate()

    def command_line(self, **options: Any) -> None:
        """Mininet's command line, until the user leaves it."""
        CLI(self, **options)
