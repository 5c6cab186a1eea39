"""Counters of interfaces and queues, read over netlink: cheap enough to sample every 100 us of virtual time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emulator.errors import LinkError
from emulator.network import interfaces, qdisc_tree
from emulator.network.interfaces import InterfaceCounters
from emulator.network.namespace import Namespace
from emulator.network.netlink import RTM_GETLINK, RTM_GETQDISC, NetlinkSocket, attributes
from emulator.network.ports import Port
from emulator.network.qdisc import Mark
from emulator.network.shaping import class_queues, line_of

_STATS2 = 7
_BASIC, _QUEUE, _APP, _PACKETS64 = 1, 3, 4, 8


@dataclass(frozen=True)
class ClassSample:
    """The state of the queue of one class of traffic, where storage and compute are kept apart.

    Attributes:
        name: ``storage`` or ``compute``.
        tx_packets: Packets that have left or are on the line.
        tx_bytes: Their bytes, Ethernet header included, overhead on the line not.
        dropped: Packets that the full queue dropped.
        queued_packets: Packets that wait for the line.
        queued_bytes: Their bytes.
    """

    name: str
    tx_packets: int
    tx_bytes: int
    dropped: int
    queued_packets: int
    queued_bytes: int


@dataclass(frozen=True)
class QueueSample:
    """The state of one outgoing direction at one moment.

    Attributes:
        interface: Which.
        tx_packets: Packets that have left since it was made.
        tx_bytes: Their bytes, Ethernet header included, overhead on the line not.
        dropped: Packets dropped, by a full queue or by random loss.
        marked: Packets marked as having met congestion (links with an ECN threshold only).
        queued_packets: Packets that wait for the line. At a switch's port the one on the line is included (not with an
            ECN threshold); at a host's port those in propagation are too (see `Port.qdiscs`).
        queued_bytes: Their bytes.
        classes: The queues of storage and compute, where they are kept apart.
    """

    interface: str
    tx_packets: int
    tx_bytes: int
    dropped: int
    marked: int
    queued_packets: int
    queued_bytes: int
    classes: tuple[ClassSample, ...] = ()


@dataclass(frozen=True)
class _Statistics:
    packets: int
    octets: int
    drops: int
    queued_packets: int
    queued_bytes: int
    application: bytes


def _statistics(one: qdisc_tree.Installed) -> _Statistics:
    nested = attributes(one.attributes[_STATS2])
    octets, packets = struct.unpack_from("=QI", nested[_BASIC])
    if _PACKETS64 in nested:
        (packets,) = struct.unpack_from("=Q", nested[_PACKETS64])
    queued, backlog, drops = struct.unpack_from("=III", nested[_QUEUE])
    return _Statistics(packets, octets, drops, queued, backlog, nested.get(_APP, b""))


def sample(port: Port, installed: dict[int, qdisc_tree.Installed]) -> QueueSample:
    """Combine the statistics of a port's qdiscs.

    Args:
        port: Which.
        installed: The interface's qdiscs by handle.

    Raises:
        LinkError: A qdisc is gone.
    """
    try:
        there = {one.handle: _statistics(installed[one.handle]) for one in port.qdiscs}
    except KeyError:
        raise LinkError(f"link {port.link}: a qdisc of {port.interface} is gone") from None
    outer, queue = there[port.qdiscs[0].handle], there[line_of(port.qdiscs).handle]
    markers = [there[one.handle] for one in port.qdiscs if isinstance(one.qdisc, Mark)]
    return QueueSample(
        port.interface,
        outer.packets,
        outer.octets,
        outer.drops,
        # tc_red_xstats: early, pdrop, other, marked
        sum(struct.unpack_from("=4I", one.application)[3] for one in markers),
        queue.queued_packets,
        queue.queued_bytes,
        tuple(_class_sample(name, there[one.handle]) for name, one in class_queues(port.qdiscs).items()),
    )


def _class_sample(name: str, one: _Statistics) -> ClassSample:
    return ClassSample(name, one.packets, one.octets, one.drops, one.queued_packets, one.queued_bytes)


class QueueReader:
    """Reads the queues of some ports again and again; its sockets stay open between reads.

    Args:
        places: Namespaces, and in each the ports to read with their interface numbers.
    """

    def __init__(self, places: Iterable[tuple[Namespace, Sequence[tuple[Port, int]]]]) -> None:
        self._places: list[tuple[NetlinkSocket, dict[int, Port]]] = []
        try:
            for namespace, ports in places:
                with namespace.entered():
                    self._places.append((NetlinkSocket(), {index: port for port, index in ports}))
        except BaseException:
            self.close()
            raise

    def read(self) -> list[QueueSample]:
        """Read all of them now: in virtual time at one and the same moment.

        Raises:
            LinkError: A port or a qdisc is gone.
        """
        samples = []
        for kernel, ports in self._places:
            installed: dict[int, dict[int, qdisc_tree.Installed]] = {index: {} for index in ports}
            for body in kernel.dump(RTM_GETQDISC, qdisc_tree.LIST_BODY, "list of qdiscs"):
                if qdisc_tree.interface_index(body) in installed:
                    one = qdisc_tree.decode(body)
                    installed[one.interface_index][one.handle] = one
            samples += [sample(port, installed[index]) for index, port in ports.items()]
        return samples

    def close(self) -> None:
        """Give the sockets back."""
        while self._places:
            self._places.pop()[0].close()

    def __enter__(self) -> QueueReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_interface_counters(namespaces: Iterable[Namespace]) -> dict[str, InterfaceCounters]:
    """Read the counters of all interfaces of some namespaces, by interface name; loopbacks are left out."""
    found: dict[str, InterfaceCounters] = {}
    for namespace in namespaces:
        with namespace.entered(), NetlinkSocket() as kernel:
            for body in kernel.dump(RTM_GETLINK, interfaces.DUMP_COUNTERS, "list of interfaces"):
                name, counters = interfaces.decode_counters(body)
                if name != "lo":
                    found[name] = counters
    return found
