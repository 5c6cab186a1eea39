"""Memory that AF_XDP sockets share (UMEM): what one receives another sends without a byte being moved."""

from __future__ import annotations

import mmap
import os
import socket
from dataclasses import dataclass

import numpy as np

from emulator.errors import GatewayError
from gateway.rings import xsk_abi as abi
from gateway.rings.batch import Memory
from gateway.rings.frames import FramePool
from gateway.rings.index import require_ordered_memory

_PAGE_BYTES = 4096


@dataclass(frozen=True)
class UmemPlan:
    """How a memory is laid out.

    Attributes:
        frames: Frames in all; a power of two is not needed.
        frame_bytes: Length of a frame: 2048 or 4096. Longer packets take several frames.
        headroom_bytes: Room before a received frame for headers that are put before it, besides the kernel's 256.
    """

    frames: int
    frame_bytes: int = 2048
    headroom_bytes: int = 0

    @property
    def room_bytes(self) -> int:
        """Longest packet that fits one frame."""
        return self.frame_bytes - self.headroom_bytes - abi.PACKET_HEADROOM_BYTES

    @classmethod
    def for_mtu(cls, mtu_bytes: int, frames: int, headroom_bytes: int = 0) -> UmemPlan:
        """The smallest frames that hold packets of an MTU with their Ethernet header, if any do; else the largest."""
        for frame_bytes in (2048, _PAGE_BYTES):
            plan = cls(frames, frame_bytes, headroom_bytes)
            if plan.room_bytes >= mtu_bytes + 14:
                return plan
        return plan


class Umem:
    """The memory, on a memory file of its own, so that its descriptor can be handed to another process.

    Args:
        plan: Its layout.

    Raises:
        MissingCapability: This machine's memory ordering is too weak.
        GatewayError: The memory cannot be had.
    """

    def __init__(self, plan: UmemPlan) -> None:
        require_ordered_memory()
        self.plan = plan
        size_bytes = plan.frames * plan.frame_bytes
        self.fd = os.memfd_create("umem", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.fd, size_bytes)
            self._map = mmap.mmap(self.fd, size_bytes, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError as error:
            os.close(self.fd)
            raise GatewayError(f"cannot map {size_bytes} bytes for frames: {error.strerror}") from None
        self.memory: Memory = np.frombuffer(self._map, dtype=np.uint8)
        self.pool = FramePool(self.memory, plan.frame_bytes)
        self._bound: list[socket.socket] = []

    def bind(self, sock: socket.socket, flags: int, interface_index: int, queue: int) -> None:
        """Attach a socket, whose rings have been made, to a queue; the first one brings the memory to the kernel.

        Raises:
            OSError: The kernel refuses.
        """
        if self._bound:
            # The modes (copy or not, wake-ups, long frames) are those of the socket that was first.
            abi.bind(sock, abi.XDP_SHARED_UMEM, interface_index, queue, self._bound[0].fileno())
        else:
            abi.bind(sock, flags, interface_index, queue)
        self._bound.append(sock)

    def register(self, sock: socket.socket) -> None:
        """Tell the kernel of the memory, if no socket has done so; before the socket's rings are made."""
        if not self._bound:
            address = self.memory.ctypes.data
            abi.register_umem(sock, address, len(self.memory), self.plan.frame_bytes, self.plan.headroom_bytes)

    def unbind(self, sock: socket.socket) -> None:
        """Forget a socket that is about to be closed."""
        if sock in self._bound:
            self._bound.remove(sock)

    def close(self) -> None:
        """Close the descriptor. The mapping goes when the last array on it goes."""
        os.close(self.fd)
