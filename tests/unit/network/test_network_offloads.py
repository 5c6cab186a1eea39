"""Offload features: read together, they are what the kernel says of each."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

import pytest

from emulator.errors import LinkError
from emulator.network.netlink import NetlinkSocket
from emulator.network.offloads import EthtoolSocket, Offloads, masks

ONE_BY_ONE = {
    "tx-checksumming": 0x16,
    "scatter-gather": 0x18,
    "tcp-segmentation-offload": 0x1E,
    "generic-segmentation-offload": 0x23,
    "generic-receive-offload": 0x2B,
}
"""Commands of linux/ethtool.h that read a single feature."""


def read_one(interface: str, command: int) -> bool:
    data = ctypes.create_string_buffer(struct.pack("=II", command, 0), 8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, 0x8946, struct.pack("16sP", interface.encode(), ctypes.addressof(data)))
    return bool(struct.unpack("=II", data.raw)[1])


def test_all_features_at_once_are_those_one_by_one() -> None:
    """The set agrees with the commands for single features, by a socket of its own and by one for netlink."""
    expected = {name: read_one("lo", command) for name, command in ONE_BY_ONE.items()}
    with EthtoolSocket() as features:
        assert features.read("lo") == expected
    with NetlinkSocket() as kernel, EthtoolSocket(kernel) as features:
        assert features.read("lo") == expected
        features.close()  # the socket is not its own: it stays open
        assert features.read("lo") == expected


def test_features_are_found_by_the_kernels_names() -> None:
    """At whatever bits they are, among others, and several for one of ethtool's."""
    names = [b"tx-tcp-segmentation", b"rx-gro-hw", b"rx-gro", b"tx-tcp6-segmentation", b"tx-checksum-ipv4", b"x" * 31]
    names += [b"tx-scatter-gather", b"tx-generic-segmentation", b"tx-udp-segmentation", b"rx-checksum"]
    assert masks(b"".join(one.ljust(32, b"\0") for one in names)) == {
        "tx-checksumming": 1 << 4,
        "scatter-gather": 1 << 6,
        "tcp-segmentation-offload": 1 << 0 | 1 << 3,
        "generic-segmentation-offload": 1 << 7,
        "generic-receive-offload": 1 << 2,
    }
    assert set(Offloads(True, True).wanted()) < set(masks(b""))


def test_an_interface_that_is_not_there_is_told() -> None:
    """By its name and in the kernel's words, whether it is read or set."""
    with EthtoolSocket() as features:
        with pytest.raises(LinkError, match=r"^nowhere: cannot read its offloads: No such device$"):
            features.read("nowhere")
        with pytest.raises(LinkError, match=r"^nowhere: cannot set its offloads: No such device$"):
            features.apply("nowhere", Offloads(True, True))
