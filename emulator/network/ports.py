"""The ends of a fabric's links: where each goes, what it is called, and how it is shaped. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.errors import LinkError
from emulator.model.fabric import Fabric, Link, LinkSpec, Role
from emulator.network.offloads import Offloads
from emulator.network.qdisc_tree import Placed
from emulator.network.shaping import plan
from emulator.rng import derive


@dataclass(frozen=True)
class Port:
    """One end of a link, and the direction that leaves from it.

    Attributes:
        node: Name of the node that it belongs to.
        interface: Interface name.
        number: Port number on the node; with Open vSwitch the OpenFlow port.
        mac: Ethernet address.
        link: Name of the link.
        spec: The link's properties.
        at_host: Whether the node is a host, or a switch that routes: it has a namespace of its own.
        offloads: Features of the interface.
        qdiscs: What shapes the outgoing direction, parents first; empty if the links are not shaped.
    """

    node: str
    interface: str
    number: int
    mac: str
    link: str
    spec: LinkSpec
    at_host: bool
    offloads: Offloads
    qdiscs: tuple[Placed, ...]


def link_ports(
    fabric: Fabric, *, shaped: bool = True, checksum_offload: bool = True, seed: int = 1
) -> list[tuple[Port, Port]]:
    """Both ends of every link, in order.

    Args:
        fabric: The network.
        shaped: Whether links have their rate, delay and queue.
        checksum_offload: Whether hosts leave checksums unfinished (see `Offloads`).
        seed: Of random losses.

    Raises:
        LinkError: A link's properties are beyond what the kernel can do; names the link.
    """
    result = []
    for number, link in enumerate(fabric.links):
        try:
            ends = [
                _port(fabric, link, number, end, shaped=shaped, checksum_offload=checksum_offload, seed=seed)
                for end in (0, 1)
            ]
        except LinkError as error:
            raise LinkError(f"link {link.name}: {error}") from None
        result.append((ends[0], ends[1]))
    return result


def _port(
    fabric: Fabric, link: Link, link_number: int, end: int, *, shaped: bool, checksum_offload: bool, seed: int
) -> Port:
    name, number, interface = (
        (link.a, link.a_port, link.a_interface) if end == 0 else (link.b, link.b_port, link.b_interface)
    )
    node = fabric.by_name[name]
    at_host = not node.is_switch
    mac = node.mac if at_host and node.mac and number == 0 else port_mac(2 * link_number + end)
    # A switch that routes is a host by its namespace, and a switch by what it does.
    sends = at_host and node.role is not Role.FORWARDER
    qdiscs = plan(link.spec, at_host=sends, seed=derive(seed, "loss", interface)) if shaped else ()
    offloads = Offloads(segmentation=not link.spec.true_packets, checksums=checksum_offload)
    return Port(name, interface, number, mac, link.name, link.spec, at_host, offloads, qdiscs)


def port_mac(number: int) -> str:
    """Ethernet address of the *number*-th port that no node gives one: locally administered, apart from hosts'."""
    return "06:" + ":".join(f"{byte:02x}" for byte in number.to_bytes(5, "big"))
