"""Opens the batch ports that the configuration asks for, and steers packets to them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from emulator.errors import GatewayError
from gateway.fast.config import FastConfig, PortKind
from gateway.fast.reader import Address
from gateway.interface import claim, mtu_bytes
from gateway.offload.offloading import Offload
from gateway.offload.steering import Steering, interface_index
from gateway.rings.copies import CopyLedger
from gateway.rings.mapped import MappedPort
from gateway.rings.plain import PlainPort
from gateway.rings.port import Port
from gateway.rings.umem import Umem, UmemPlan
from gateway.rings.xsk import RingSizes, XskPort


@dataclass
class Ports:
    """What was opened.

    Attributes:
        queues: For each port its queues, each of which is a batch port.
        copies: Where copies of frames in user space are counted, of all ports together.
        mtus: Longest IP packet of each port.
        indices: What the kernel numbers each port's interface.
        offload: The offload, if there is one.
        umem: The memory that AF_XDP ports share.
        unsteer: Each of these lets the stack have the packets of one queue instead of its AF_XDP socket.
        steers: Each of these is told which packets are the stack's in any case: those to the host's own addresses.
    """

    queues: list[list[Port]] = field(default_factory=list)
    copies: CopyLedger = field(default_factory=CopyLedger)
    mtus: dict[int, int] = field(default_factory=dict)
    indices: dict[str, int] = field(default_factory=dict)
    offload: Offload | None = None
    umem: Umem | None = None
    unsteer: list[Callable[[], None]] = field(default_factory=list)
    steers: list[Callable[[Collection[Address]], None]] = field(default_factory=list)
    _undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def macs(self) -> dict[int, bytes]:
        """Ethernet address of each port."""
        return {number: queues[0].mac for number, queues in enumerate(self.queues)}

    def all(self) -> list[tuple[int, Port]]:
        """All batch ports, with the number of the port that each belongs to."""
        return [(number, port) for number, queues in enumerate(self.queues) for port in queues]

    def read_mtus(self) -> bool:
        """See how long packets may be; whether anything is otherwise than before.

        Raises:
            GatewayError: An interface is gone.
        """
        before = dict(self.mtus)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for number, name in enumerate(self.indices):
                try:
                    self.mtus[number] = mtu_bytes(probe, name)
                except OSError:
                    raise GatewayError(f"the interface {name} is gone") from None
        return self.mtus != before

    def check(self) -> None:
        """Make sure that packets still come.

        Raises:
            GatewayError: An interface is gone, even if another one has its name by now, or its program is.
        """
        try:
            self._check()
        except GatewayError:
            # It may have gone while it was looked at, which shows in many ways.
            for name in self.indices:
                if not _is_there(name):
                    raise GatewayError(f"the interface {name} is gone") from None
            raise

    def _check(self) -> None:
        for _, port in self.all():
            port.check()
        for name, index in self.indices.items():
            if interface_index(name) != index:
                raise GatewayError(f"the interface {name} is gone, another one has its name")
        if self.offload is not None:
            self.offload.check()

    def close(self) -> None:
        """Close everything but the offload, which is its owner's to leave or to withdraw."""
        self._undo.close()


def _is_there(interface: str) -> bool:
    return any(name == interface for _, name in socket.if_nameindex())


def open_ports(config: FastConfig, own: Collection[Address]) -> Ports:
    """Open all ports.

    Args:
        config: The configuration.
        own: The host's own addresses; with AF_XDP, packets for them go to the host's stack.

    Raises:
        GatewayError: The kernel refuses one.
    """
    ports = Ports()
    try:
        ports.indices = {one.interface: interface_index(one.interface) for one in config.ports}
        ports.read_mtus()
        if config.kind is PortKind.AF_XDP:
            _open_xsk(ports, config, own)
        else:
            for settings in config.ports:
                ports._undo.callback(claim(settings.interface).close)
                port = _open_packet(config, settings.interface, ports.copies)
                ports._undo.callback(port.close)
                ports.queues.append([port])
    except BaseException:
        ports.close()
        raise
    return ports


def _open_packet(config: FastConfig, interface: str, copies: CopyLedger) -> Port:
    if config.kind is PortKind.PACKET_MMAP:
        return MappedPort(interface, config.frames, config.headroom_bytes, copies=copies)
    return PlainPort(interface, min(config.frames, config.batch_frames), copies=copies)


def _open_xsk(ports: Ports, config: FastConfig, own: Collection[Address]) -> None:
    longest = max(ports.mtus.values(), default=1500)
    plan = UmemPlan.for_mtu(longest, config.frames, config.headroom_bytes)
    ports.umem = umem = Umem(plan)
    ports._undo.callback(umem.close)
    sizes = RingSizes(*[config.ring_entries] * 4)
    for settings in config.ports:
        queues: list[Port] = []
        ports.queues.append(queues)
        for queue in range(settings.queues):
            port = XskPort(
                umem,
                settings.interface,
                queue,
                sizes,
                mode=config.mode,
                long_frames=longest + 14 > plan.room_bytes,
                busy_poll=config.busy_poll,
                copies=ports.copies,
            )
            ports._undo.callback(port.close)
            queues.append(port)
    # Packets come only when there is somebody to take them.
    names = [settings.interface for settings in config.ports]
    if config.offload is not None:
        ports.offload = Offload(names, config.offload.folder, config.offload.capacity, own, config.hook)
        ports.steers.append(ports.offload.set_own)
        for settings, queues in zip(config.ports, ports.queues, strict=True):
            for queue, one in enumerate(queues):
                ports.offload.add_socket(settings.interface, queue, one.fileno())
                ports.unsteer.append(partial(ports.offload.remove_socket, settings.interface, queue))
        return
    for name, queues in zip(names, ports.queues, strict=True):
        steering = Steering(name, own, config.hook)
        ports._undo.callback(steering.close)
        ports.steers.append(steering.set_own)
        for queue, one in enumerate(queues):
            steering.add_socket(queue, one.fileno())
            ports.unsteer.append(partial(steering.remove_socket, queue))
