"""Mininet interfaces and links over netlink: nodes need no shell to be wired up, and links take a fabric's properties.

Method names follow Mininet, whose classes these stand in for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Interface
from typing import Any

from emulator.errors import LinkError
from emulator.model.fabric import LinkSpec
from emulator.network import interfaces
from emulator.network.interfaces import Interface
from emulator.network.lazy_node import LazyForwarder, LazyHost
from emulator.network.mininet_import import Intf, Link
from emulator.network.namespace import Namespace
from emulator.network.netlink import NetlinkSocket
from emulator.network.offloads import EthtoolSocket, Offloads
from emulator.network.ports import Port
from emulator.network.shaping import plan
from emulator.network.wiring import bring_up, check_ports, create_links, list_interfaces, set_up_ports


@contextmanager
def namespace_of(node: Any) -> Iterator[Namespace]:
    """The network namespace of any Mininet node: a lazy one's own, a shell's, or the one we are in.

    Raises:
        NodeError: The node's shell has ended.
    """
    if isinstance(node, (LazyHost, LazyForwarder)):
        yield node.emulated.network_namespace
        return
    opened = Namespace.of_process(node.name, node.pid) if node.inNamespace else Namespace.current(node.name)
    try:
        yield opened
    finally:
        opened.close()


class NetlinkIntf(Intf):  # type: ignore[misc]
    """An interface that is there already and is configured over netlink.

    Attributes:
        planned: How it is shaped, if it is an end of a `FabricLink`.
    """

    planned: Port | None = None

    @contextmanager
    def kernel(self) -> Iterator[NetlinkSocket]:
        """A netlink socket in the interface's namespace."""
        with namespace_of(self.node) as namespace, namespace.entered(), NetlinkSocket() as kernel:
            yield kernel

    def found(self, kernel: NetlinkSocket) -> Interface:
        """The interface as the kernel has it.

        Raises:
            LinkError: It is gone.
        """
        there = list_interfaces(kernel).get(self.name)
        if there is None:
            raise LinkError(f"interface {self.name} is gone")
        return there

    def config(self, **_: Any) -> dict[str, Any]:
        """Nothing: the link sets both ends up."""
        return {}

    def setIP(self, ipstr: str, prefixLen: int | None = None) -> str:  # noqa: N802, N803
        """Set the address, such as ``10.0.0.1/8``."""
        address = IPv4Interface(ipstr if "/" in ipstr else f"{ipstr}/{prefixLen}")
        self.ip, self.prefixLen = str(address.ip), str(address.network.prefixlen)
        with self.kernel() as kernel:
            kernel.execute([interfaces.add_address(self.found(kernel).index, address, self.node.name)])
        return ""

    def setMAC(self, macstr: str) -> str:  # noqa: N802
        """Set the Ethernet address."""
        self.mac = macstr
        with self.kernel() as kernel:
            kernel.execute([interfaces.set_mac(self.found(kernel).index, macstr, self.node.name)])
        return ""

    def isUp(self, setUp: bool = False) -> bool:  # noqa: N802
        """Whether it is up; bring it up first if asked to."""
        with self.kernel() as kernel:
            there = self.found(kernel)
            if setUp and not there.up:
                kernel.execute([interfaces.set_up(there.index, self.node.name)])
            return setUp or there.up

    def ifconfig(self, *args: str) -> str:
        """Take the interface ``down`` or bring it ``up``, as Mininet's link commands do; other words go to the tool."""
        if args not in (("up",), ("down",)):
            return str(super().ifconfig(*args))
        with self.kernel() as kernel:
            change = interfaces.set_up if args == ("up",) else interfaces.set_down
            kernel.execute([change(self.found(kernel).index, self.node.name)])
        return ""

    def updateMAC(self) -> str:  # noqa: N802
        """Read the Ethernet address."""
        with self.kernel() as kernel:
            self.mac = self.found(kernel).mac
        return str(self.mac)

    def shape_again(self) -> None:
        """Install the qdiscs, after something else removed them, and read back what the kernel set.

        Raises:
            LinkError: The kernel refused or set something else.
        """
        if self.planned is None:
            return
        with self.kernel() as kernel, EthtoolSocket() as features:
            set_up_ports(kernel, features, [self.planned])
            check_ports(kernel, features, [self.planned])

    def delete(self) -> None:
        """Remove the interface, if its other end has not taken it along."""
        with self.kernel() as kernel:
            there = list_interfaces(kernel).get(self.name)
            if there is not None:
                kernel.execute([interfaces.delete(there.index, self.name)])
        self.node.delIntf(self)
        self.link = None


class FabricLink(Link):  # type: ignore[misc]
    """A link with the properties of a `LinkSpec`, made and checked over netlink.

    Args:
        node1: First node.
        node2: Second node.
        port1: Its port number; None: the next free one.
        port2: Its port number; None: the next free one.
        addr1: Ethernet address of the first end.
        addr2: Ethernet address of the second end.
        spec: The link's properties.
        shaped: Whether it has the rate, delay and queue; otherwise only the MTU and the offloads.
        checksum_offload: Whether checksums may stay unfinished (see `Offloads`).

    Raises:
        LinkError: The kernel refused or set something else.
    """

    def __init__(
        self,
        node1: Any,
        node2: Any,
        port1: int | None = None,
        port2: int | None = None,
        addr1: str = "",
        addr2: str = "",
        spec: LinkSpec | None = None,
        *,
        shaped: bool = True,
        checksum_offload: bool = True,
        **_: Any,
    ) -> None:
        if spec is None:
            raise LinkError(f"link {node1}--{node2}: no properties are given for it")
        ends = []
        names = []
        for node, number, mac in ((node1, port1, addr1), (node2, port2, addr2)):
            number = node.newPort() if number is None else number
            ends.append((node, number, mac))
            names.append(self.intfName(node, number))
        link = "--".join(names)
        offloads = Offloads(segmentation=not spec.true_packets, checksums=checksum_offload)
        pair = []
        for (node, number, mac), name in zip(ends, names, strict=True):
            qdiscs = plan(spec, at_host=node.inNamespace) if shaped else ()
            pair.append(Port(node.name, name, number, mac, link, spec, node.inNamespace, offloads, qdiscs))
        with namespace_of(node1) as first, namespace_of(node2) as second:
            places = {node1.name: first, node2.name: second}
            create_links([(pair[0], pair[1])], lambda name: places[name].fd)
            for step in (bring_up, _set_up):
                for port in pair:
                    with places[port.node].entered(), NetlinkSocket() as kernel:
                        step(kernel, [port])
        made = [
            NetlinkIntf(port.interface, node=node, port=port.number, link=self, mac=port.mac, moveIntfFn=self._ignore)
            for port, (node, _number, _mac) in zip(pair, ends, strict=True)
        ]
        for end, port in zip(made, pair, strict=True):
            end.planned = port
        self.intf1: NetlinkIntf | None = made[0]
        self.intf2: NetlinkIntf | None = made[1]

    def delete(self) -> None:
        """Remove the link."""
        for end in (self.intf1, self.intf2):
            if end is not None:
                end.delete()
        self.intf1 = self.intf2 = None


def _set_up(kernel: NetlinkSocket, ports: list[Port]) -> None:
    with EthtoolSocket() as features:
        set_up_ports(kernel, features, ports)
        check_ports(kernel, features, ports)


class ShownLink(Link):  # type: ignore[misc]
    """A link of a built network as a Mininet link; making and removing it is the network's business."""

    def __init__(self, node1: Any, node2: Any, ports: tuple[Port, Port]) -> None:
        self.intf1, self.intf2 = (
            NetlinkIntf(port.interface, node=node, port=port.number, link=self, mac=port.mac, moveIntfFn=self._ignore)
            for node, port in zip((node1, node2), ports, strict=True)
        )

    def stop(self) -> None:
        """Nothing: it stops with its network."""
