"""The kernel's numbers and structures for AF_XDP (linux/if_xdp.h), as far as they are used here."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from dataclasses import dataclass

import numpy as np

AF_XDP = 44
SOL_XDP = 283

XDP_MMAP_OFFSETS = 1
XDP_RX_RING = 2
XDP_TX_RING = 3
XDP_UMEM_REG = 4
XDP_UMEM_FILL_RING = 5
XDP_UMEM_COMPLETION_RING = 6
XDP_STATISTICS = 7
XDP_OPTIONS = 8
XDP_MAX_TX_SKB_BUDGET = 9

XDP_SHARED_UMEM = 1 << 0
XDP_COPY = 1 << 1
XDP_ZEROCOPY = 1 << 2
XDP_USE_NEED_WAKEUP = 1 << 3
XDP_USE_SG = 1 << 4
XDP_OPTIONS_ZEROCOPY = 1 << 0

XDP_PKT_CONTD = 1 << 0
"""In a descriptor's options: the frame goes on in the next descriptor."""

PGOFF_RX = 0
PGOFF_TX = 0x80000000
PGOFF_FILL = 0x100000000
PGOFF_COMPLETION = 0x180000000

PACKET_HEADROOM_BYTES = 256
"""What the kernel leaves free before a received frame, besides the headroom that was asked for."""

DESCRIPTOR = np.dtype([("address", "=i8"), ("length", "=u4"), ("options", "=u4")])
"""`struct xdp_desc`. Addresses are signed here, as numpy's indices are; they are below 2^63."""
ADDRESS = np.dtype("=i8")

_OFFSETS = struct.Struct("=16Q")
_STATISTICS = struct.Struct("=6Q")
_UMEM_REG = struct.Struct("=QQIIII")
_ADDRESS = struct.Struct("=HHIII")
_UINT = struct.Struct("=I")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class RingOffsets:
    """Where the parts of a ring are in its mapping."""

    producer: int
    consumer: int
    entries: int
    flags: int


@dataclass(frozen=True)
class Statistics:
    """What the kernel counts for a socket.

    Attributes:
        rx_dropped: Frames lost because the fill ring was empty, or they were too long.
        rx_invalid: Descriptors in the fill ring that the kernel refused.
        tx_invalid: Descriptors in the transmit ring that the kernel refused.
        rx_ring_full: Frames lost because the receive ring was full.
        fill_empty: How often the fill ring was found empty.
        tx_empty: How often the transmit ring was found empty.
    """

    rx_dropped: int
    rx_invalid: int
    tx_invalid: int
    rx_ring_full: int
    fill_empty: int
    tx_empty: int


def mmap_offsets(sock: socket.socket) -> tuple[RingOffsets, RingOffsets, RingOffsets, RingOffsets]:
    """Layout of the receive, transmit, fill and completion ring."""
    raw = _OFFSETS.unpack(sock.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, _OFFSETS.size))
    rx, tx, fill, completion = (RingOffsets(*raw[at : at + 4]) for at in range(0, 16, 4))
    return rx, tx, fill, completion


def register_umem(sock: socket.socket, address: int, size_bytes: int, frame_bytes: int, headroom_bytes: int) -> None:
    """Enter the memory that the socket receives into and sends from."""
    sock.setsockopt(SOL_XDP, XDP_UMEM_REG, _UMEM_REG.pack(address, size_bytes, frame_bytes, headroom_bytes, 0, 0))


def set_ring_size(sock: socket.socket, ring: int, entries: int) -> None:
    """Make one of the four rings."""
    sock.setsockopt(SOL_XDP, ring, _UINT.pack(entries))


def set_send_budget(sock: socket.socket, frames: int) -> None:
    """Let one system call send so many frames (Linux 6.17; older ones send 32)."""
    sock.setsockopt(SOL_XDP, XDP_MAX_TX_SKB_BUDGET, _UINT.pack(frames))


def statistics(sock: socket.socket) -> Statistics:
    """What the kernel counted."""
    return Statistics(*_STATISTICS.unpack(sock.getsockopt(SOL_XDP, XDP_STATISTICS, _STATISTICS.size)))


def is_zero_copy(sock: socket.socket) -> bool:
    """Whether the device reads and writes the memory itself."""
    return bool(_UINT.unpack(sock.getsockopt(SOL_XDP, XDP_OPTIONS, _UINT.size))[0] & XDP_OPTIONS_ZEROCOPY)


def bind(sock: socket.socket, flags: int, interface_index: int, queue: int, shared_fd: int = 0) -> None:
    """Attach a socket to a queue of an interface.

    Raises:
        OSError: The kernel refuses.
    """
    address = _ADDRESS.pack(AF_XDP, flags, interface_index, queue, shared_fd)
    if _libc.bind(sock.fileno(), address, len(address)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
