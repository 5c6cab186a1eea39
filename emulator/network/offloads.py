"""Offload features of interfaces, set and read back by the ethtool ioctl: no helper process for each interface."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from emulator.errors import LinkError

_SIOCETHTOOL = 0x8946
_GET_STRINGS, _COUNT_STRINGS, _GET_FEATURES, _SET_FEATURES = 0x1B, 0x37, 0x3A, 0x3B
_FEATURE_NAMES = 4  # ETH_SS_FEATURES
_NAME_BYTES = 32
_WORD_BITS, _WORD = 32, 0xFFFFFFFF

_KERNELS_NAMES: Mapping[str, Callable[[str], bool]] = {
    "tx-checksumming": lambda one: one.startswith("tx-checksum-"),
    "scatter-gather": lambda one: one.startswith("tx-scatter-gather"),
    "tcp-segmentation-offload": lambda one: one.startswith("tx-tcp") and one.endswith("-segmentation"),
    "generic-segmentation-offload": lambda one: one == "tx-generic-segmentation",
    "generic-receive-offload": lambda one: one == "rx-gro",
}
"""Which of the kernel's features each of ethtool's stands for."""


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
        """Features by ethtool's names."""
        return {
            "tx-checksumming": self.checksums,
            # TSO needs checksum offload, so it cannot be on without.
            "tcp-segmentation-offload": self.segmentation and self.checksums,
            "generic-segmentation-offload": self.segmentation,
            "generic-receive-offload": self.segmentation,
        }


class _Descriptor(Protocol):
    """Has a socket of the namespace in question, of whatever family."""

    def fileno(self) -> int:
        """The socket's descriptor."""


class EthtoolSocket:
    """Sets features of interfaces in a namespace, all features of one in a single system call.

    Args:
        through: A socket of that namespace; None: one is made where the calling thread is.
    """

    _known: ClassVar[tuple[int, Mapping[str, int]] | None] = None
    """How many features this kernel has, and which of them each of ethtool's stands for."""

    def __init__(self, through: _Descriptor | None = None) -> None:
        self._own: socket.socket | None = None
        if through is None:
            through = self._own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._through = through

    def _call(self, interface: str, words: list[int]) -> array[int]:
        data = array("I", words)
        address, _ = data.buffer_info()
        fcntl.ioctl(self._through.fileno(), _SIOCETHTOOL, struct.pack("16sP", interface.encode(), address))
        return data

    def _features(self, interface: str) -> tuple[int, Mapping[str, int]]:
        """Words that a set of features takes, and the set that each of ethtool's features is; asked for once."""
        if EthtoolSocket._known is None:
            # ethtool_sset_info: command, reserved, 64 bits for the sets that are meant, the length of each.
            count = self._call(interface, [_COUNT_STRINGS, 0, 1 << _FEATURE_NAMES, 0, 0])[4]
            # ethtool_gstrings: command, which set, its length, the strings.
            words = [_GET_STRINGS, _FEATURE_NAMES, count, *[0] * (count * _NAME_BYTES // 4)]
            EthtoolSocket._known = -(-count // _WORD_BITS), masks(self._call(interface, words)[3:].tobytes())
        return EthtoolSocket._known

    def read(self, interface: str) -> dict[str, bool]:
        """Read all features that this module knows.

        Raises:
            LinkError: No such interface.
        """
        try:
            size, known = self._features(interface)
            # ethtool_gfeatures: command, size, and of each word: available, requested, active, never changed.
            found = self._call(interface, [_GET_FEATURES, size, *[0] * (4 * size)])
        except OSError as error:
            raise LinkError(f"{interface}: cannot read its offloads: {os.strerror(error.errno or 0)}") from None
        active = sum(word << _WORD_BITS * number for number, word in enumerate(found[4::4]))
        return {name: bool(active & mask) for name, mask in known.items()}

    def apply(self, interface: str, offloads: Offloads) -> None:
        """Set the features of an interface; whether the kernel did is for `read` to tell.

        Raises:
            LinkError: The kernel refused.
        """
        wanted = offloads.wanted()
        try:
            size, known = self._features(interface)
            valid = sum(known[name] for name in wanted)
            on = sum(known[name] for name, value in wanted.items() if value)
            # ethtool_sfeatures: command, size, and of each word: which are meant, which are to be on.
            words = [bits >> _WORD_BITS * number & _WORD for number in range(size) for bits in (valid, on)]
            self._call(interface, [_SET_FEATURES, size, *words])
        except OSError as error:
            raise LinkError(f"{interface}: cannot set its offloads: {os.strerror(error.errno or 0)}") from None

    def close(self) -> None:
        """Give the socket back, if it was made here."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> EthtoolSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def masks(names: bytes) -> dict[str, int]:
    """The set of the kernel's features that each of ethtool's stands for.

    Args:
        names: The kernel's, each in 32 bytes, in the order of their bits.
    """
    starts = range(0, len(names), _NAME_BYTES)
    kernels = [names[start : start + _NAME_BYTES].split(b"\0")[0].decode() for start in starts]
    return {
        name: sum(1 << number for number, one in enumerate(kernels) if matches(one))
        for name, matches in _KERNELS_NAMES.items()
    }
