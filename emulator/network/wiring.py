"""Makes links in the kernel, sets their ends up, and reads back what the kernel really did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from emulator.errors import LinkError
from emulator.network import interfaces, qdisc_tree
from emulator.network.interfaces import End, Interface
from emulator.network.netlink import CREATE, RTM_GETLINK, RTM_GETQDISC, RTM_NEWQDISC, NetlinkSocket, Request
from emulator.network.offloads import EthtoolSocket
from emulator.network.ports import Port

LOOPBACK_INDEX = 1
"""In every network namespace."""


class Kernel(Protocol):
    """The part of `NetlinkSocket` that is used here, so that tests can stand in for the kernel."""

    def execute(self, requests: Sequence[Request]) -> None:
        """Carry out requests."""

    def dump(self, kind: int, body: bytes, what: str) -> list[bytes]:
        """Ask for everything of a kind."""

    def get(self, request: Request) -> bytes:
        """Ask for a single thing."""


class Features(Protocol):
    """The part of `EthtoolSocket` that is used here."""

    def read(self, interface: str) -> dict[str, bool]:
        """Read features."""


def create_links(links: Sequence[tuple[Port, Port]], namespace_fd: Callable[[str], int]) -> None:
    """Make every link as a veth pair, both ends in their places, and down.

    Args:
        links: Both ends of each.
        namespace_fd: Descriptor of the namespace of a node.

    Raises:
        LinkError: The kernel refused; names the link.
    """
    with NetlinkSocket() as kernel:
        kernel.execute([interfaces.create_pair(a.link, _end(a, namespace_fd), _end(b, namespace_fd)) for a, b in links])


def is_between_hosts(link: tuple[Port, Port]) -> bool:
    """Whether both ends are in namespaces of hosts, or of switches that route."""
    return link[0].at_host and link[1].at_host


def by_second_host(links: Sequence[tuple[Port, Port]], hosts: Sequence[str]) -> dict[str, list[tuple[Port, Port]]]:
    """Links between two hosts by the one that is made later, whose end comes second.

    Args:
        links: Both ends of each, in any order.
        hosts: Names in the order in which they are made.
    """
    order = {name: number for number, name in enumerate(hosts)}
    found: dict[str, list[tuple[Port, Port]]] = {}
    for a, b in filter(is_between_hosts, links):
        first, second = (a, b) if order[a.node] <= order[b.node] else (b, a)
        found.setdefault(second.node, []).append((first, second))
    return found


def create_running_links(
    kernel: Kernel, links: Sequence[tuple[Port, Port]], namespace_fd: Callable[[str], int]
) -> None:
    """Make links as veth pairs with both ends up.

    Linux looks later at ends without carrier: at all of them again whenever one gets it. So none are left to wait.

    Args:
        kernel: A socket in the namespace of the second end of each.
        links: Both ends of each.
        namespace_fd: Descriptor of the namespace of a node.

    Raises:
        LinkError: The kernel refused; names the link.
    """
    requests = []
    for a, b in links:
        requests.append(interfaces.create_pair(a.link, _end(a, namespace_fd), _end(b, namespace_fd), a_up=True))
        requests.append(interfaces.set_up_named(b.interface, b.node))
    kernel.execute(requests)


def _end(port: Port, namespace_fd: Callable[[str], int]) -> End:
    return End(port.interface, namespace_fd(port.node), port.mac, port.spec.mtu_bytes, not port.spec.true_packets)


def indices(kernel: Kernel) -> dict[str, int]:
    """Interface numbers by name in the kernel socket's namespace."""
    return {one.name: one.index for one in list_interfaces(kernel).values()}


def list_interfaces(kernel: Kernel) -> dict[str, Interface]:
    """Interfaces by name in the kernel socket's namespace."""
    found = map(interfaces.decode, kernel.dump(RTM_GETLINK, interfaces.DUMP_ALL, "list of interfaces"))
    return {one.name: one for one in found}


def bring_up(kernel: Kernel, ports: Sequence[Port]) -> None:
    """Bring the ends that are in one namespace up.

    Raises:
        LinkError: The kernel refused.
    """
    found = indices(kernel)
    kernel.execute([interfaces.set_up(found[port.interface], port.node) for port in ports])


def settled_interfaces(kernel: Kernel, ports: Sequence[Port]) -> dict[str, Interface]:
    """Interfaces by name, after the kernel has looked at those of *ports* whose links it does not use yet.

    By itself it looks at a hundred each second. Asked for a single interface, it looks at that one first (Linux 6.8).
    """
    there = list_interfaces(kernel)
    late = not_running(there, ports)
    for name in late:
        kernel.get(Request(RTM_GETLINK, interfaces.one(there[name].index), f"interface {name}"))
    return list_interfaces(kernel) if late else there


def not_running(there: Mapping[str, Interface], ports: Sequence[Port]) -> list[str]:
    """The interfaces of one namespace whose links the kernel does not use yet; one that is gone is not waited for."""
    return [port.interface for port in ports if port.interface in there and not there[port.interface].running]


def set_up_ports(kernel: Kernel, features: EthtoolSocket, ports: Sequence[Port]) -> dict[str, int]:
    """Set up the ends that are in one namespace: offloads and qdiscs.

    Args:
        kernel: A socket in that namespace.
        features: Another.
        ports: The ends there.

    Returns:
        Interface number by interface name.

    Raises:
        LinkError: The kernel refused; names the link and repeats the kernel's words.
    """
    found = indices(kernel)
    kernel.execute(port_requests(features, ports, found))
    return found


def port_requests(features: EthtoolSocket, ports: Sequence[Port], found: Mapping[str, int]) -> list[Request]:
    """Set the offloads of the ends in one namespace; return what their kernel is to be asked for besides.

    Args:
        features: A socket in that namespace.
        ports: The ends there.
        found: Interface numbers by name.

    Raises:
        LinkError: The kernel refused; names the interface and repeats the kernel's words.
    """
    requests: list[Request] = []
    for port in ports:
        features.apply(port.interface, port.offloads)
        requests.append(interfaces.set_up(found[port.interface], port.node))
        requests += shaping_requests(port, found[port.interface])
    return requests


def shaping_requests(port: Port, index: int) -> list[Request]:
    """Install a port's qdiscs on the interface number *index*."""
    return [
        Request(
            RTM_NEWQDISC,
            qdisc_tree.request_body(index, one),
            f"link {port.link}: {one.qdisc.kind} qdisc at {port.interface}",
            CREATE,
        )
        for one in port.qdiscs
    ]


def check_ports(
    kernel: Kernel, features: Features, ports: Sequence[Port], there: Mapping[str, Interface] | None = None
) -> None:
    """Read back what the kernel set on the ends in one namespace and compare.

    Args:
        kernel: A socket in that namespace.
        features: Another.
        ports: The ends there.
        there: Its interfaces, if they were just listed.

    Raises:
        LinkError: Something differs from what was asked; names the link, the interface and every difference.
    """
    there = list_interfaces(kernel) if there is None else there
    installed: dict[int, dict[int, qdisc_tree.Installed]] = {}
    for body in kernel.dump(RTM_GETQDISC, qdisc_tree.LIST_BODY, "list of qdiscs"):
        one = qdisc_tree.decode(body)
        installed.setdefault(one.interface_index, {})[one.handle] = one
    for port in ports:
        interface = there.get(port.interface)
        if interface is None:
            raise LinkError(f"link {port.link}: interface {port.interface} is gone")
        wrong = _interface_differences(port, interface) + _feature_differences(port, features.read(port.interface))
        wrong += _qdisc_differences(port, installed.get(interface.index, {}))
        if wrong:
            raise LinkError(f"link {port.link}: the kernel set something else at {port.interface}: {'; '.join(wrong)}")


def _interface_differences(port: Port, interface: Interface) -> list[str]:
    wrong = []
    if interface.mtu_bytes != port.spec.mtu_bytes:
        wrong.append(f"MTU is {interface.mtu_bytes} instead of {port.spec.mtu_bytes}")
    if interface.mac != port.mac:
        wrong.append(f"Ethernet address is {interface.mac} instead of {port.mac}")
    if not interface.up:
        wrong.append("it is down")
    if port.spec.true_packets and interface.gso_max_segments != 1:
        wrong.append(f"{interface.gso_max_segments} segments may leave as one packet instead of 1")
    return wrong


def _feature_differences(port: Port, features: Mapping[str, bool]) -> list[str]:
    return [
        f"{name} is {'on' if features.get(name) else 'off'} instead of {'on' if on else 'off'}"
        for name, on in port.offloads.wanted().items()
        if features.get(name) != on
    ]


def _qdisc_differences(port: Port, installed: Mapping[int, qdisc_tree.Installed]) -> list[str]:
    wrong = []
    for asked in port.qdiscs:
        one = installed.get(asked.handle)
        wrong += qdisc_tree.differences(asked.qdisc, one.qdisc if one else None)
    return wrong
