"""A memory-mapped receive ring on a network interface: packets with nanosecond timestamps, in numpy batches.

One block of the ring is one batch, so a million packets cost a few hundred turns of a Python loop. This is
`TPACKET_V3` of `packet(7)`; timestamps are the kernel's, on CLOCK_REALTIME.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from emulator.linux.packet_filter import Instruction, attach
from emulator.units import NS_PER_S

_LIBC = ctypes.CDLL(None, use_errno=True)
_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _PACKET_IGNORE_OUTGOING = 5, 6, 10, 23
_TPACKET_V3 = 2
_ETH_P_ALL = 3
_STATUS_OFFSET, _COUNT_OFFSET, _FIRST_OFFSET = 8, 12, 16
_KERNEL, _USER = 0, 1
_TAG_VALID = 0x10

_HEADER = np.dtype(
    [
        ("next_offset", "=u4"),
        ("seconds", "=u4"),
        ("nanoseconds", "=u4"),
        ("kept", "=u4"),
        ("length", "=u4"),
        ("status", "=u4"),
        ("frame", "=u2"),
        ("network", "=u2"),
        ("hash", "=u4"),
        ("tag", "=u4"),
        ("tag_type", "=u2"),
    ]
)
"""The part of `struct tpacket3_hdr` that is of use here."""


@dataclass(frozen=True)
class PacketBatch:
    """Some packets in order of arrival.

    Attributes:
        times_ns: When the kernel saw them, CLOCK_REALTIME.
        lengths_bytes: Their full lengths, with Ethernet header.
        kept_bytes: How much of each was kept.
        tags: The outermost VLAN tag of each, type and control information as on the wire, which Linux keeps beside the
            frame: neither the frame nor its lengths have it. 0: none.
        starts: Where each frame starts in *data*.
        data: The bytes of the block.
    """

    times_ns: npt.NDArray[np.int64]
    lengths_bytes: npt.NDArray[np.int64]
    kept_bytes: npt.NDArray[np.int64]
    tags: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.times_ns)

    def field(self, offset_bytes: int, size_bytes: int) -> npt.NDArray[np.uint8]:
        """The bytes at one place in every frame, one row a packet."""
        columns = self.starts[:, None] + np.arange(offset_bytes, offset_bytes + size_bytes)
        picked: npt.NDArray[np.uint8] = self.data[columns]
        return picked

    def frames(self) -> Iterator[bytes]:
        """What was kept of each frame."""
        for start, kept in zip(self.starts.tolist(), self.kept_bytes.tolist(), strict=True):
            yield self.data[start : start + kept].tobytes()


def _parse(block: npt.NDArray[np.uint8]) -> PacketBatch:
    """Copy one block's packets out of the ring.

    The headers form a chain. Where all packets are of one size the links are equal and no loop is needed.
    """
    count = int(block[_COUNT_OFFSET : _COUNT_OFFSET + 4].view(np.uint32)[0])
    first = int(block[_FIRST_OFFSET : _FIRST_OFFSET + 4].view(np.uint32)[0])

    def header(at: int) -> int:
        return int(block[at : at + 4].view(np.uint32)[0])

    stride = header(first) if count > 1 else 0
    offsets = first + stride * np.arange(count, dtype=np.int64)
    regular = int(offsets[-1]) + _HEADER.itemsize <= len(block)
    if regular and count > 1:
        links = block[offsets[:-1, None] + np.arange(4)].view(np.uint32)[:, 0]
        regular = bool((links == stride).all())
    if not regular:
        chain = [first]
        for _ in range(count - 1):
            chain.append(chain[-1] + header(chain[-1]))
        offsets = np.array(chain, dtype=np.int64)
    headers = block[offsets[:, None] + np.arange(_HEADER.itemsize)].view(_HEADER)[:, 0]
    return PacketBatch(
        headers["seconds"].astype(np.int64) * NS_PER_S + headers["nanoseconds"],
        headers["length"].astype(np.int64),
        headers["kept"].astype(np.int64),
        np.where(headers["status"] & _TAG_VALID, headers["tag_type"].astype(np.uint32) << 16 | headers["tag"], 0),
        offsets + headers["frame"],
        block.copy(),
    )


def _bind(packet_socket: socket.socket, interface: str) -> None:
    """Let a packet socket receive from an interface, or from all of its namespace if none is named.

    Raises:
        OSError: No such interface.
    """
    if interface:
        packet_socket.bind((interface, _ETH_P_ALL))
        return
    # Python looks every name up, also that of no interface.
    address = struct.pack("=H2sihBB8s", socket.AF_PACKET, struct.pack("!H", _ETH_P_ALL), 0, 0, 0, 0, b"")
    if _LIBC.bind(packet_socket.fileno(), address, len(address)) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class PacketRing:
    """Receives what arrives at (or passes) an interface of the calling thread's network namespace.

    Args:
        interface: Its name; empty: what arrives at any interface of the namespace.
        program: Which packets are kept, and how much of each (see `emulator.linux.packet_filter`).
        outgoing: Also see packets that leave through the interface.
        block_bytes, blocks: Size of the ring: a power of two of pages each, and how many.
        retire_ms: A block that is not full is handed over after this time.

    Raises:
        OSError: No such interface, or no permission.
    """

    def __init__(
        self,
        interface: str,
        program: Sequence[Instruction],
        *,
        outgoing: bool = False,
        block_bytes: int = 1 << 20,
        blocks: int = 16,
        retire_ms: int = 10,
    ) -> None:
        self._block_bytes, self._blocks, self._next = block_bytes, blocks, 0
        # Protocol 0 receives nothing: the filter and the ring are in place before the first packet is seen.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            attach(self._socket, program)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 0 if outgoing else 1)
            frame_bytes = 2048
            request = (block_bytes, blocks, frame_bytes, block_bytes // frame_bytes * blocks, retire_ms, 0, 0)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack("=7I", *request))
            self._map = mmap.mmap(self._socket.fileno(), block_bytes * blocks, mmap.MAP_SHARED | mmap.MAP_POPULATE)
            self._bytes = np.frombuffer(self._map, dtype=np.uint8)
            _bind(self._socket, interface)
        except BaseException:
            self._socket.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLERR)

    def _block(self) -> npt.NDArray[np.uint8]:
        start = self._next * self._block_bytes
        return self._bytes[start : start + self._block_bytes]

    def ready(self) -> Iterator[PacketBatch]:
        """Batches that are complete now, without waiting."""
        while True:
            block = self._block()
            status = block[_STATUS_OFFSET : _STATUS_OFFSET + 4].view(np.uint32)
            if not int(status[0]) & _USER:
                return
            batch = _parse(block)
            status[0] = _KERNEL
            self._next = (self._next + 1) % self._blocks
            yield batch

    def wait(self, timeout_ms: int) -> bool:
        """Block until a batch may be ready or the time is over; whether one may be."""
        events = self._poll.poll(timeout_ms)
        if any(event & select.POLLERR for _descriptor, event in events):
            self.acknowledge()
        return bool(events)

    def fileno(self) -> int:
        """The descriptor, for `select.poll`; what is readable may be a batch, what has an error is `acknowledge`d."""
        return self._socket.fileno()

    def acknowledge(self) -> None:
        """Take note that the interface went down: it is received from again when it comes up."""
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def dropped(self) -> int:
        """Packets that found the ring full since the last call."""
        return int(struct.unpack("=3I", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 12))[1])

    def close(self) -> None:
        """Stop receiving and give the memory back."""
        self._socket.close()
        # The map can be closed only when no array refers to it any more.
        self._bytes = np.empty(0, dtype=np.uint8)
        self._map.close()

    def __enter__(self) -> PacketRing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
