"""Offload features of interfaces, set and read back by the ethtool ioctl: no helper process for each interface."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from dataclasses import dataclass

from emulator.errors import LinkError

_SIOCETHTOOL = 0x8946
#: name in messages: (command to get, command to set), from linux/ethtool.h
_COMMANDS = {
    "tx-checksumming": (0x16, 0x17),
    "scatter-gather": (0x18, 0x19),
    "tcp-segmentation-offload": (0x1E, 0x1F),
    "generic-segmentation-offload": (0x23, 0x24),
    "generic-receive-offload": (0x2B, 0x2C),
}


@dataclass(frozen=True)
class Offloads:
    """Which features of an interface are on.

    Attributes:
        segmentation: Super-packets may leave and arrive (TSO, GSO, GRO).
        checksums: The sender leaves TCP and UDP checksums to the interface. A veth never computes them: receivers in
            the same kernel trust the packet. Whoever reads packets off the interface sees unfinished checksums.
    """

    segmentation: bool
    checksums: bool

    def wanted(self) -> dict[str, bool]:
        """Features by ethtool's names, in the order in which they are set."""
        return {
            "tx-checksumming": self.checksums,
            # TSO needs checksum offload, so it cannot be on without.
            "tcp-segmentation-offload": self.segmentation and self.checksums,
            "generic-segmentation-offload": self.segmentation,
            "generic-receive-offload": self.segmentation,
        }


class EthtoolSocket:
    """Sets features of interfaces in the namespace that the calling thread is in when it is made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def _value(self, interface: str, command: int, value: int) -> int:
        data = ctypes.create_string_buffer(struct.pack("=II", command, value), 8)
        fcntl.ioctl(self._socket, _SIOCETHTOOL, struct.pack("16sP", interface.encode(), ctypes.addressof(data)))
        return int(struct.unpack("=II", data.raw)[1])

    def read(self, interface: str) -> dict[str, bool]:
        """Read all features that this module knows.

        Raises:
            LinkError: No such interface.
        """
        try:
            return {name: bool(self._value(interface, get, 0)) for name, (get, _set) in _COMMANDS.items()}
        except OSError as error:
            raise LinkError(f"{interface}: cannot read its offloads: {os.strerror(error.errno or 0)}") from None

    def apply(self, interface: str, offloads: Offloads) -> None:
        """Set the features of an interface; whether the kernel did is for `read` to tell.

        Raises:
            LinkError: The kernel refused.
        """
        for name, on in offloads.wanted().items():
            try:
                self._value(interface, _COMMANDS[name][1], int(on))
            except OSError as error:
                said = os.strerror(error.errno or 0)
                raise LinkError(f"{interface}: cannot turn {name} {'on' if on else 'off'}: {said}") from None

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def __enter__(self) -> EthtoolSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
