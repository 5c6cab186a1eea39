"""A port on a plain packet socket, for comparison: one system call a frame, and two copies of it in user space.

This is how a straightforward Python forwarder works: ``recv`` makes a new object of every frame, whose bytes go into a
buffer where they can be changed, and from there into a new object that ``send`` takes.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import socket
from dataclasses import asdict
from typing import Any

import numpy as np

from emulator.errors import GatewayError
from gateway.filter import Instruction
from gateway.interface import check_interface, mac_address
from gateway.packet_socket import NOTE_SPACE_BYTES, ask_for_tags, begin, lost_since, opening, prepare, taken_tag
from gateway.rings.batch import Batch, Memory
from gateway.rings.copies import CopyLedger, Crossing
from gateway.rings.frames import Accounting, FramePool
from gateway.rings.port import PortCounters
from gateway.rings.tags import put_back
from gateway.rings.virtio import HEADER_BYTES, follow_frames

_HEADROOM_BYTES = 128
_FRAME_BYTES = 1 << 17
"""Super-packets have up to 64 KiB, and their headers."""
_MOST_BYTES = (1 << 16) + 128
"""Longest frame with its header. Not more: Python's allocator asks the kernel anew for each object of 128 KiB, which
clears all of its pages."""
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 1 << 24
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM})


def _buffers(frames: int) -> Memory:
    """Memory for frames, none of it in huge pages.

    Of most frames only the first page is ever used. numpy would ask for huge pages, and the kernel would go on putting
    such together, 2 MiB at a time, until all of the memory is resident.
    """
    mapping = mmap.mmap(-1, frames * _FRAME_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(mapping, dtype=np.uint8)


class PlainPort:
    """See the module.

    Args:
        interface: Name of an Ethernet interface in this network namespace.
        frames: Frames that can be lent at a time.
        accept: Classic BPF program that says which frames arrive; empty: all.

    Raises:
        GatewayError: There is no such interface, or no right to open a packet socket.
    """

    crossing = Crossing.COPY

    def __init__(
        self, interface: str, frames: int = 256, accept: tuple[Instruction, ...] = (), copies: CopyLedger | None = None
    ) -> None:
        self.interface = interface
        self.counters = PortCounters()
        self.copies = copies or CopyLedger()
        self._lost = 0
        self._pool = FramePool(_buffers(frames), _FRAME_BYTES, HEADER_BYTES)
        with opening(interface, "open a packet socket") as self._socket:
            self.mac = mac_address(self._socket, interface)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            prepare(self._socket, _BUFFER_BYTES, accept)
            ask_for_tags(self._socket)
            begin(self._socket, interface)

    def fileno(self) -> int:
        """See `Port.fileno`."""
        return self._socket.fileno()

    def receive(self, limit: int) -> Batch:
        """See `Port.receive`."""
        taken = self._pool.lend(limit)
        count = 0
        memory = self._pool.memory
        lengths = np.zeros(len(taken), dtype=np.int64)
        tags: list[tuple[int, int, int]] = []
        for offset in taken.tolist():
            try:
                data, notes, _, _ = self._socket.recvmsg(_MOST_BYTES, NOTE_SPACE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ENETDOWN:
                    break
                raise GatewayError(f"cannot receive on {self.interface}: {error.strerror}") from None
            self.copies.put("out of recv's object", self._pool.memory, offset + _HEADROOM_BYTES - HEADER_BYTES, data)
            lengths[count] = len(data) - HEADER_BYTES
            at = offset + _HEADROOM_BYTES
            memory[offset : offset + HEADER_BYTES] = memory[at - HEADER_BYTES : at]
            if (tag := taken_tag(notes)) is not None:
                tags.append((count, *tag))
            count += 1
        self._pool.release(taken[count:])
        offsets = taken[:count] + _HEADROOM_BYTES
        self.counters.wakeups += count + 1
        self.counters.rx_frames += count
        self.counters.rx_bytes += int(lengths[:count].sum())
        batch = Batch(self._pool, offsets, lengths[:count], virtio=taken[:count])
        for number, tag_type, identifier in tags:
            put_back(batch, number, tag_type, identifier, self.copies)
        return batch

    def send(self, batch: Batch) -> int:
        """See `Port.send`."""
        follow_frames(batch)
        count = 0
        for number in range(len(batch)):
            try:
                self._socket.send(self._joined(batch, number))
            except OSError as error:
                if error.errno in _NO_ROOM:
                    break
                self.counters.tx_refused += 1
            else:
                self.counters.tx_frames += 1
                self.counters.tx_bytes += int(batch.lengths[number])
            count += 1
        self.counters.wakeups += count
        self.counters.tx_full += len(batch) - count
        batch.take(slice(count)).release()
        return count

    def _joined(self, batch: Batch, number: int) -> bytes:
        """One object of the kernel's note and the frame."""
        note = bytes(HEADER_BYTES)
        if batch.virtio is not None:
            at = int(batch.virtio[number])
            note = batch.memory[at : at + HEADER_BYTES].tobytes()
        self.copies.count("into send's object", 1, int(batch.lengths[number]))
        return note + batch.frame(number)

    def flush(self) -> bool:
        """See `Port.flush`: what was sent has left."""
        return True

    def check(self) -> None:
        """See `Port.check`."""
        check_interface(self._socket, self.interface)

    def accounting(self) -> Accounting:
        """See `Port.accounting`: the kernel has frames of its own."""
        return Accounting()

    @property
    def pool(self) -> FramePool:
        """Its buffer."""
        return self._pool

    def lost_frames(self) -> int:
        """See `Port.lost_frames`."""
        self._lost += lost_since(self._socket)
        return self._lost

    def as_json(self) -> dict[str, Any]:
        """See `Port.as_json`."""
        return {
            "kind": "socket",
            "interface": self.interface,
            "crossing": self.crossing.value,
            "lost_frames": self.lost_frames(),
            "counters": self.counters.as_json(),
            "accounting": asdict(self.accounting()),
        }

    def close(self) -> None:
        """See `Port.close`."""
        self._socket.close()
