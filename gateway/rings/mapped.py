"""A PACKET_MMAP port (TPACKET_V2): frames stay in the slots of the ring they arrived in, and are sent from there.

User space copies nothing. The kernel copies twice: into the slot, and from there into a packet of its own. Every
interface and every kernel can do this; no XDP program is needed. A slot that is lent is a slot less for arrivals.

The slot's status word is the only synchronization with the kernel; see `gateway.rings.index` on the order of accesses.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.dataplane.memory import records
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
from gateway.rings.batch import Batch, Memory, Numbers
from gateway.rings.copies import CopyLedger, Crossing
from gateway.rings.frames import Accounting, FrameError
from gateway.rings.index import require_ordered_memory
from gateway.rings.messages import FrameSender
from gateway.rings.port import PortCounters
from gateway.rings.tags import put_back
from gateway.rings.virtio import HEADER_BYTES, follow_frames

_HEADER = np.dtype(
    [
        ("status", "=u4"),
        ("length", "=u4"),
        ("captured", "=u4"),
        ("mac", "=u2"),
        ("network", "=u2"),
        ("seconds", "=u4"),
        ("nanoseconds", "=u4"),
        ("tag", "=u2"),
        ("tag_type", "=u2"),
        ("padding", "=u4"),
    ]
)
"""`struct tpacket2_hdr`."""
_OVERHEAD_BYTES = 128
"""Room before a frame in its slot: header, link-layer address, ``virtio_net_hdr``, alignment."""
_SPARE_BYTES = 36
"""Where in a slot, behind tpacket2_hdr, nobody looks: in the link-layer address that the kernel leaves there. What is
known of checksums is put there, so that headers can be put before the frame."""
_TAKEN_BYTES = 52
"""What the kernel and we write at a slot's beginning."""
_BLOCK_BYTES = 1 << 20


class SlotRing:
    """The memory of a ring, which lends its slots.

    Args:
        memory: The mapping.
        slot_bytes: Length of a slot, a power of two.
    """

    def __init__(self, memory: Memory, slot_bytes: int) -> None:
        self.memory = memory
        self.slots = len(memory) // slot_bytes
        self.slot_bytes = slot_bytes
        self._shift = slot_bytes.bit_length() - 1
        rows = memory.reshape(self.slots, slot_bytes)[:, : _HEADER.itemsize]
        self._headers: npt.NDArray[Any] = rows.view(_HEADER)[:, 0]
        self._status: npt.NDArray[np.uint32] = self._headers["status"]
        self._lent: npt.NDArray[np.bool_] = np.zeros(self.slots, dtype=bool)
        self._next = 0

    @property
    def lent(self) -> int:
        """Slots that are lent."""
        return int(np.count_nonzero(self._lent))

    def waiting(self) -> int:
        """Slots with frames that were not handed out."""
        return int(np.count_nonzero((self._status & SLOT_USER).astype(bool) & ~self._lent))

    def receive(self, limit: int) -> tuple[Numbers, npt.NDArray[Any]]:
        """Lend the next frames: the slots' offsets, and what the kernel wrote there of each."""
        start = self._next
        stop = min(start + limit, self.slots)
        # A slot that is still lent says USER too: then the ring is full of lent frames.
        ready = ((self._status[start:stop] & SLOT_USER) != 0) & ~self._lent[start:stop]
        count = int(ready.argmin()) if not ready.all() else len(ready)
        numbers = np.arange(start, start + count, dtype=np.int64)
        self._lent[start : start + count] = True
        self._next = (start + count) % self.slots
        return numbers << self._shift, self._headers[start : start + count].copy()

    def release(self, offsets: Numbers) -> None:
        """See `gateway.rings.batch.Lender`."""
        numbers = offsets >> self._shift
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= self.slots):
            raise FrameError(f"the ring has no slot {int(numbers.max())}")
        before = self.lent
        if not self._lent[numbers].all():
            raise FrameError(f"slot {int(numbers[~self._lent[numbers]][0])} is given back but was not lent")
        self._lent[numbers] = False
        if before - self.lent != len(numbers):
            raise FrameError("a slot is given back twice at once")
        self._status[numbers] = SLOT_KERNEL

    def headroom(self, offsets: Numbers) -> Numbers:
        """See `gateway.rings.batch.Lender`."""
        return (offsets & (self.slot_bytes - 1)) - _TAKEN_BYTES

    def close(self) -> None:
        """Let go of the mapping."""
        self.memory = self.memory[:0].copy()
        self._headers = self._headers[:0].copy()
        self._status = self._status[:0].copy()


class MappedPort:
    """See the module.

    Args:
        interface: Name of an Ethernet interface in this network namespace.
        slots: Frames that it can hold.
        headroom_bytes: Room before each frame for headers that are to come.
        accept: Classic BPF program that says which frames come into the ring; empty: all.

    Raises:
        GatewayError: There is no such interface, or the kernel refuses the ring.
    """

    crossing = Crossing.COPY

    def __init__(
        self,
        interface: str,
        slots: int = 2048,
        headroom_bytes: int = 0,
        accept: tuple[Instruction, ...] = (),
        copies: CopyLedger | None = None,
    ) -> None:
        require_ordered_memory()
        self.interface = interface
        self.counters = PortCounters()
        self.copies = copies or CopyLedger()
        self._lost = 0
        with opening(interface, "set up a ring") as self._socket:
            self._open(slots, headroom_bytes, accept)

    def _open(self, slots: int, headroom_bytes: int, accept: tuple[Instruction, ...]) -> None:
        sock = self._socket
        self.mac = mac_address(sock, self.interface)
        frame_bytes = longest_frame_bytes(sock, self.interface) + VLAN_TAG_BYTES
        slot_bytes = 1 << (frame_bytes + _OVERHEAD_BYTES + headroom_bytes - 1).bit_length()
        blocks = max(1, slots * slot_bytes // _BLOCK_BYTES)
        prepare(sock, RING_SEND_BUFFER_BYTES, accept)
        slots = blocks * _BLOCK_BYTES // slot_bytes
        self._map = make_ring(sock, _BLOCK_BYTES, blocks, slot_bytes, slots, headroom_bytes)
        self._ring = SlotRing(np.frombuffer(self._map, dtype=np.uint8), slot_bytes)
        self._sender = FrameSender(sock)
        begin(sock, self.interface)

    def fileno(self) -> int:
        """See `Port.fileno`; edge-triggered only: while frames are lent the kernel calls it readable all the time."""
        return self._socket.fileno()

    def receive(self, limit: int) -> Batch:
        """See `Port.receive`; times of arrival are the kernel's, on CLOCK_REALTIME."""
        slots, headers = self._ring.receive(limit)
        offsets = slots + headers["mac"]
        lengths = headers["captured"].astype(np.int64)
        arrivals = headers["seconds"].astype(np.int64) * 1_000_000_000 + headers["nanoseconds"]
        spare = slots + _SPARE_BYTES
        notes = records(self._ring.memory, HEADER_BYTES)
        notes[spare] = notes[offsets - HEADER_BYTES]
        batch = Batch(self._ring, offsets, lengths, arrivals, virtio=spare)
        self.counters.rx_frames += len(slots)
        self.counters.rx_bytes += int(lengths.sum())
        tagged = headers["status"] & SLOT_VLAN_VALID
        for number in np.flatnonzero(tagged).tolist():
            tag_type, tag = int(headers["tag_type"][number]), int(headers["tag"][number])
            put_back(batch, number, tag_type, tag, self.copies)
        cut = headers["captured"] != headers["length"]
        if cut.any():
            self.counters.cut_frames += int(np.count_nonzero(cut))
            batch.take(cut).release()
            batch = batch.take(~cut)
        return batch

    def send(self, batch: Batch) -> int:
        """See `Port.send`; frames of any memory are sent from where they lie."""
        follow_frames(batch)
        refused = self._sender.refused
        count = self._sender.send(batch)
        taken = batch.take(slice(count))
        taken.release()
        refused = self._sender.refused - refused
        self.counters.tx_frames += count - refused
        self.counters.tx_refused += refused
        self.counters.tx_bytes += int(taken.lengths.sum())
        self.counters.tx_full += len(batch) - count
        self.counters.wakeups = self._sender.calls
        return count

    def flush(self) -> bool:
        """See `Port.flush`: what was sent has left."""
        return True

    def check(self) -> None:
        """See `Port.check`."""
        check_interface(self._socket, self.interface)

    def accounting(self) -> Accounting:
        """See `Port.accounting`."""
        waiting = self._ring.waiting()
        return Accounting(fill=self._ring.slots - self._ring.lent - waiting, rx=waiting)

    @property
    def lent(self) -> int:
        """Frames of its ring that are lent."""
        return self._ring.lent

    @property
    def slots(self) -> int:
        """Frames that its ring has."""
        return self._ring.slots

    def lost_frames(self) -> int:
        """See `Port.lost_frames`."""
        self._lost += lost_since(self._socket)
        return self._lost

    def as_json(self) -> dict[str, Any]:
        """See `Port.as_json`."""
        return {
            "kind": "packet_mmap",
            "interface": self.interface,
            "crossing": self.crossing.value,
            "slots": self._ring.slots,
            "slot_bytes": self._ring.slot_bytes,
            "lost_frames": self.lost_frames(),
            "counters": self.counters.as_json(),
            "accounting": asdict(self.accounting()),
        }

    def close(self) -> None:
        """See `Port.close`."""
        self._ring.close()
        self._socket.close()
