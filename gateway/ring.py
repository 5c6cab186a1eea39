"""A port on a memory-mapped receive ring (PACKET_MMAP, TPACKET_V2) of one Linux interface.

The kernel writes each frame into a slot of a ring that this process maps, preceded by a ``virtio_net_hdr`` that tells
of pending checksums and segmentation. A frame stays in its slot until it is due, its headers are rewritten there, and
it is sent by one system call that reads straight from the slot; user space copies nothing. (The kernel copies twice:
into the slot, and from the slot into a new packet.) TPACKET_V2 rather than V3: V3 hands over blocks of frames, and
later than a frame's arrival by up to a timer of milliseconds.

The slot's status word is the only synchronization with the kernel. It is written with one aligned 32-bit store, which
x86 keeps in order with the accesses before it; the system call in between orders it on other machines.

Who needs this: root's rights over the network namespace (CAP_NET_RAW, CAP_NET_ADMIN for large send buffers).
"""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from emulator.errors import GatewayError
from gateway.filter import Instruction
from gateway.interface import check_interface, mac_address
from gateway.packet_socket import (
    RING_SEND_BUFFER_BYTES,
    SLOT_KERNEL,
    SLOT_USER,
    SLOT_VLAN_VALID,
    VLAN_TAG_BYTES,
    begin,
    longest_frame_bytes,
    lost_since,
    make_ring,
    opening,
    prepare,
)
from gateway.port import Frame, Sent
from gateway.sendmmsg import SendBatch

_STATUS = struct.Struct("=I")
# tpacket2_hdr: status, length, captured length, offset of the MAC header, offset of the network header, s, ns.
_SLOT_HEADER = struct.Struct("=IIIHHII")
# virtio_net_hdr: flags, GSO type, header length, GSO size, checksum start, checksum offset.
_VNET = struct.Struct("<BBHHHH")
VNET_BYTES = _VNET.size
_GSO_TYPE_BEFORE = VNET_BYTES - 1
_FRAME_OFFSET_BYTES = 96
"""Room before a frame in its slot: tpacket2_hdr and sockaddr_ll (52), alignment, virtio_net_hdr (10), with margin."""

_SLOT_ALIGNMENT = 16
_BLOCK_BYTES = 1 << 17
_BIG_BLOCK_BYTES = 1 << 20
"""For super-packets, of which the smaller block would hold one and waste its other half."""

_SPARE_SLOTS = 256
"""Slots beyond the station's queue, for frames that have arrived but have not been looked at."""


@dataclass(frozen=True)
class RingSize:
    """How a ring is laid out.

    Attributes:
        slot_bytes: Length of a slot.
        slots_per_block: Slots in one piece of kernel memory.
        blocks: Pieces.
        block_bytes: Length of a piece.
    """

    slot_bytes: int
    slots_per_block: int
    blocks: int
    block_bytes: int

    @property
    def slots(self) -> int:
        """Slots in all."""
        return self.slots_per_block * self.blocks

    @property
    def map_bytes(self) -> int:
        """Length of the mapping."""
        return self.blocks * self.block_bytes


def plan_ring(frame_bytes: int, frames: int, limit_bytes: int) -> RingSize:
    """Lay out a ring.

    Args:
        frame_bytes: Longest frame, with Ethernet header.
        frames: Frames that it should hold.
        limit_bytes: Memory that it may take; if it cannot hold *frames* it holds fewer, but at least one block.
    """
    slot_bytes = -(-(frame_bytes + _FRAME_OFFSET_BYTES + VLAN_TAG_BYTES) // _SLOT_ALIGNMENT) * _SLOT_ALIGNMENT
    block_bytes = _BLOCK_BYTES if slot_bytes <= _BLOCK_BYTES // 8 else _BIG_BLOCK_BYTES
    slots_per_block = block_bytes // slot_bytes
    blocks = max(1, min(-(-frames // slots_per_block), limit_bytes // block_bytes))
    return RingSize(slot_bytes, slots_per_block, blocks, block_bytes)


class RingPort:
    """See the module.

    Args:
        interface: Name of an Ethernet interface in this network namespace.
        frames: Frames that are to be held at a time.
        limit_bytes: Memory that the ring may take.
        accept: Classic BPF program that says which frames come into the ring; empty: all.

    Raises:
        GatewayError: There is no such interface, or the kernel refuses the ring.
    """

    def __init__(
        self, interface: str, frames: int, limit_bytes: int = 64 << 20, accept: tuple[Instruction, ...] = ()
    ) -> None:
        self._interface = interface
        self._lost = 0
        self._next = 0
        with opening(interface, "set up a ring") as self._socket:
            self._mac = mac_address(self._socket, interface)
            frame_bytes = longest_frame_bytes(self._socket, interface)
            self._size = size = plan_ring(frame_bytes, frames + _SPARE_SLOTS, limit_bytes)
            prepare(self._socket, RING_SEND_BUFFER_BYTES, accept)
            self._use(make_ring(self._socket, size.block_bytes, size.blocks, size.slot_bytes, size.slots))
            begin(self._socket, interface)

    def _use(self, mapping: mmap.mmap) -> None:
        size = self._size
        self._map = mapping
        self._view = memoryview(mapping)
        self._offsets = [
            block * size.block_bytes + slot * size.slot_bytes
            for block in range(size.blocks)
            for slot in range(size.slots_per_block)
        ]
        self._lent = bytearray(size.slots)
        self._batch = SendBatch(self._socket.fileno(), mapping)

    @classmethod
    def take_over(cls, descriptor: int, state: Mapping[str, Any]) -> RingPort:
        """The port of a predecessor, with all that lies in its ring.

        Args:
            descriptor: Its socket; it belongs to the port from now on.
            state: What it exported.

        Raises:
            GatewayError: It cannot be mapped here.
        """
        port = cls.__new__(cls)
        port._interface, port._mac = state["interface"], bytes.fromhex(state["mac"])
        port._lost, port._next = state["lost"], state["next"]
        port._size = RingSize(**state["size"])
        port._socket = socket.socket(fileno=descriptor)
        port._socket.setblocking(False)
        try:
            port._use(mmap.mmap(descriptor, port._size.map_bytes))
        except OSError as error:
            port._socket.close()
            raise GatewayError(f"cannot map the ring on {port._interface}: {error.strerror or error}") from None
        return port

    def export(self) -> dict[str, Any]:
        """What a successor must know of the ring."""
        self.lost_frames()
        return {
            "interface": self._interface,
            "mac": self._mac.hex(),
            "lost": self._lost,
            "next": self._next,
            "size": asdict(self._size),
        }

    def held(self, slot: int, start: int, end: int, packets: int) -> Frame:
        """A frame that the predecessor held; it is lent from now on."""
        self._lent[slot] = 1
        return Frame(self._view, start, end, 0, packets, slot=slot)

    @property
    def mac(self) -> bytes:
        """Ethernet address, 6 bytes."""
        return self._mac

    def fileno(self) -> int:
        """For epoll, edge-triggered only: while frames are held the kernel calls the ring readable all the time."""
        return self._socket.fileno()

    def receive(self, limit: int) -> list[Frame]:
        """See `Port.receive`; ``arrival_ns`` is the kernel's stamp on CLOCK_REALTIME."""
        frames: list[Frame] = []
        view, lent, offsets, slot = self._view, self._lent, self._offsets, self._next
        for _ in range(limit):
            offset = offsets[slot]
            status, length, captured, mac, _net, seconds, nanoseconds = _SLOT_HEADER.unpack_from(view, offset)
            # A slot that is still lent says USER too: then the ring is full of held frames.
            if not status & SLOT_USER or lent[slot]:
                break
            lent[slot] = 1
            start = offset + mac
            frames.append(
                Frame(
                    view,
                    start,
                    start + captured,
                    seconds * 1_000_000_000 + nanoseconds,
                    # A look at the GSO type saves most frames the rest.
                    self._packets(start, captured) if view[start - _GSO_TYPE_BEFORE] else 1,
                    captured == length,
                    status & SLOT_VLAN_VALID != 0,
                    slot,
                )
            )
            slot += 1
            if slot == len(offsets):
                slot = 0
        self._next = slot
        return frames

    def _packets(self, start: int, captured: int) -> int:
        _flags, _type, header_bytes, gso_bytes, _, _ = _VNET.unpack_from(self._view, start - VNET_BYTES)
        if not gso_bytes:
            return 1
        segments: int = -(-(captured - header_bytes) // gso_bytes)
        return max(1, segments)

    def send(self, frames: Sequence[Frame]) -> tuple[int, Sent]:
        """See `Port.send`; the kernel reads frame and ``virtio_net_hdr`` from the ring."""
        count = 0
        batch = self._batch
        for frame in frames:
            batch.place(count, frame.start - VNET_BYTES, frame.end)
            count += 1
        return batch.send(count)

    def release(self, frame: Frame) -> None:
        """See `Port.release`."""
        slot = frame.slot
        self._lent[slot] = 0
        _STATUS.pack_into(self._view, self._offsets[slot], SLOT_KERNEL)

    def check(self) -> None:
        """Make sure that the interface is still there; see `check_interface`."""
        check_interface(self._socket, self._interface)

    def lost_frames(self) -> int:
        """See `Port.lost_frames`."""
        self._lost += lost_since(self._socket)
        return self._lost

    def as_json(self) -> dict[str, int | str]:
        """See `Port.as_json`."""
        return {
            "kind": "packet_mmap",
            "interface": self._interface,
            "slots": self._size.slots,
            "slot_bytes": self._size.slot_bytes,
        }

    def close(self) -> None:
        """Give the ring back; nothing arrives any more. Frames that are still lent are gone."""
        self._batch.close()
        self._view.release()
        self._map.close()
        self._socket.close()
