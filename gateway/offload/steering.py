"""Programs on interfaces: attached, taken off, and which sockets their packets go to."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from types import TracebackType

import numpy as np

from emulator.errors import GatewayError
from gateway.offload import libbpf
from gateway.offload.build import object_path
from gateway.offload.libbpf import BpfObject
from gateway.offload.maps import BpfMap

QUEUES = 64
"""Queues of all interfaces together that can have a socket."""


class Hook(str, Enum):
    """Where in the kernel a program sees packets."""

    DRIVER = "driver"
    """In the interface's driver, before the kernel makes anything of them."""
    GENERIC = "generic"
    """After the kernel has made its own packet of them: every interface can, slower."""


_FLAGS = {Hook.DRIVER: libbpf.XDP_FLAGS_DRV_MODE, Hook.GENERIC: libbpf.XDP_FLAGS_SKB_MODE}


def address_key(address: IPv4Address | IPv6Address) -> bytes:
    """An address as the programs have it: 16 bytes, IPv4 mapped into IPv6."""
    if isinstance(address, IPv4Address):
        return bytes(10) + b"\xff\xff" + address.packed
    return address.packed


def interface_index(interface: str) -> int:
    """Index of an interface of this network namespace.

    Raises:
        GatewayError: There is none of that name.
    """
    try:
        return socket.if_nametoindex(interface)
    except (OSError, ValueError):
        raise GatewayError(f"there is no interface {interface}") from None


def _attached(result: int, interface: str) -> int:
    """What attaching returned, if it is no error.

    Raises:
        GatewayError: It is one.
    """
    if result in (-errno.EBUSY, -errno.EEXIST):
        raise GatewayError(f"{interface} has an XDP program of somebody else ('ip link set {interface} xdp off')")
    if result < 0:
        raise GatewayError(f"cannot attach an XDP program to {interface}: {os.strerror(-result)}")
    return result


class OwnAddresses:
    """The map in which a program looks whose packets are the host's own.

    Args:
        fd: Its descriptor, which stays its owner's.
    """

    def __init__(self, fd: int) -> None:
        self._map = BpfMap(fd, "V16", "u1")

    def set(self, own: Iterable[IPv4Address | IPv6Address]) -> None:
        """Let it hold these addresses and no others.

        Raises:
            GatewayError: There is no room for them.
        """
        wanted = {address_key(address) for address in own}
        present = {key.tobytes() for key in self._map.all()[0]}
        for key in present - wanted:
            self._map.delete(np.void(key))
        for key in wanted - present:
            if not self._map.put(np.void(key), 1):
                raise GatewayError(f"this host has {len(wanted)} addresses, and XDP programs have room for fewer")


class Held:
    """A program on an interface for as long as this process lives and holds it: nothing stays when that is killed.

    Args:
        interface: Its name, in this network namespace.
        program_fd: The program.
        hook: Where.

    Raises:
        GatewayError: The kernel refuses, or another program is there.
    """

    def __init__(self, interface: str, program_fd: int, hook: Hook) -> None:
        self._fd = _attached(libbpf.link_xdp(interface_index(interface), program_fd, _FLAGS[hook]), interface)

    def detach(self) -> None:
        """Take it off."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Attachment:
    """A program on an interface that outlives this process.

    Args:
        interface: Its name, in this network namespace.
        program_fd: The program.
        hook: Where.
        replaces: Descriptor of the program that is known to be there; None: none may be.

    Raises:
        GatewayError: The kernel refuses, or another program is there.
    """

    def __init__(self, interface: str, program_fd: int, hook: Hook = Hook.DRIVER, replaces: int | None = None) -> None:
        self.interface = interface
        self.hook = hook
        self.index = interface_index(interface)
        self._fd = os.dup(program_fd)
        try:
            _attached(libbpf.attach_xdp(self.index, self._fd, _FLAGS[hook], replaces), interface)
        except BaseException:
            os.close(self._fd)
            raise

    def detach(self) -> None:
        """Take it off, if it is still there."""
        if self._fd >= 0:
            libbpf.attach_xdp(self.index, -1, _FLAGS[self.hook], self._fd)
            self.leave()

    def leave(self) -> None:
        """Let it go on without us."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Steering:
    """Gives the packets of one interface to AF_XDP sockets, except those for the host itself.

    Args:
        interface: Its name, in this network namespace.
        own: The host's own addresses.
        hook: Where the program sees packets.
        stamped: Put each packet's time of arrival before it.

    Raises:
        GatewayError: The program cannot be loaded or attached.
    """

    def __init__(
        self,
        interface: str,
        own: Iterable[IPv4Address | IPv6Address] = (),
        hook: Hook = Hook.DRIVER,
        *,
        stamped: bool = False,
    ) -> None:
        self._object = BpfObject(object_path("steer"), ("steer",), settings=bytes([stamped]))
        self._sockets = BpfMap(self._object.map_fd("sockets"), "=u4", "=u4")
        self._own = OwnAddresses(self._object.map_fd("own"))
        try:
            self._own.set(own)
            self._attachment = Held(interface, self._object.program_fd("steer"), hook)
        except BaseException:
            self._object.close()
            raise

    def set_own(self, own: Iterable[IPv4Address | IPv6Address]) -> None:
        """The host's own addresses are others now."""
        self._own.set(own)

    def add_socket(self, queue: int, fd: int) -> None:
        """Give the packets of a queue to a socket, until it is closed."""
        if not self._sockets.put(queue, fd):
            raise GatewayError(f"queue {queue} cannot have a socket: there is room for {QUEUES} queues")

    def remove_socket(self, queue: int) -> None:
        """Let the stack have the packets of a queue."""
        self._sockets.delete(queue)

    def close(self) -> None:
        """Take the program off; the stack gets all packets again."""
        self._attachment.detach()
        self._object.close()

    def __enter__(self) -> Steering:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
