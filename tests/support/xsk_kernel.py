"""The kernel's side of AF_XDP rings, played in memory: what it may do with frames, one step at a time."""

from __future__ import annotations

from collections import deque

import numpy as np

from gateway.rings import xsk_abi as abi
from gateway.rings.copies import CopyLedger
from gateway.rings.index import RingMemory
from gateway.rings.umem import Umem
from gateway.rings.xsk_core import XskCore, XskRings

_PRODUCER, _CONSUMER, _FLAGS, _ENTRIES = 0, 64, 128, 192
_WRAP = 1 << 32


class PlayedRing:
    """A ring's memory, and the kernel's hold on it."""

    def __init__(self, size: int, kind: np.dtype, start: int) -> None:
        self.memory = np.zeros(_ENTRIES + size * kind.itemsize, dtype=np.uint8)
        self.size = size
        self.ring = RingMemory(self.memory, _PRODUCER, _CONSUMER, _FLAGS, _ENTRIES, size, kind)
        self.ring.producer[0] = self.ring.consumer[0] = start % _WRAP

    @property
    def waiting(self) -> int:
        return (self.ring.producer[0] - self.ring.consumer[0]) % _WRAP

    @property
    def room(self) -> int:
        return self.size - self.waiting

    def contents(self) -> list:
        """What is in the ring, the oldest first."""
        first = self.ring.consumer[0]
        return [self.ring.entries[(first + i) % self.size] for i in range(self.waiting)]

    def take(self):
        """Consume one entry."""
        entry = self.ring.entries[self.ring.consumer[0] % self.size].copy()
        self.ring.consumer[0] = (self.ring.consumer[0] + 1) % _WRAP
        return entry

    def write(self, entry, ahead: int = 0) -> None:
        """Write one entry, *ahead* places behind the last published one, without publishing it."""
        self.ring.entries[(self.ring.producer[0] + ahead) % self.size] = entry

    def publish(self, count: int) -> None:
        self.ring.producer[0] = (self.ring.producer[0] + count) % _WRAP


class PlayedKernel:
    """One port's kernel: it takes from fill and transmit ring, and puts into receive and completion ring.

    Attributes:
        receiving: Frames taken from the fill ring that nothing was received into yet.
        sending: Descriptors taken from the transmit ring whose completion is outstanding.
        line: Packets that left.
    """

    def __init__(self, umem: Umem, size: int, start: int, *, long_frames: bool = False) -> None:
        self.umem = umem
        self.rx = PlayedRing(size, abi.DESCRIPTOR, start)
        self.tx = PlayedRing(size, abi.DESCRIPTOR, start)
        self.fill = PlayedRing(size, abi.ADDRESS, start)
        self.completion = PlayedRing(size, abi.ADDRESS, start)
        rings = XskRings(self.rx.ring, self.tx.ring, self.fill.ring, self.completion.ring)
        self.core = XskCore(umem, rings, CopyLedger(), stamped=False, long_frames=long_frames)
        self.receiving: deque[int] = deque()
        self.sending: deque[int] = deque()
        self.line: list[bytes] = []
        self._unfinished = b""

    def take_fill(self, limit: int) -> None:
        for _ in range(min(limit, self.fill.waiting)):
            self.receiving.append(int(self.fill.take()))

    def receive(self, packet: bytes) -> bool:
        """Let a packet arrive, in as many pieces as it takes; whether there was room."""
        plan = self.umem.plan
        pieces = [packet[at : at + plan.room_bytes] for at in range(0, len(packet), plan.room_bytes)]
        if len(self.receiving) < len(pieces) or self.rx.room < len(pieces):
            return False
        for number, piece in enumerate(pieces):
            address = self.receiving.popleft() + plan.headroom_bytes + abi.PACKET_HEADROOM_BYTES
            self.umem.memory[address : address + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            goes_on = abi.XDP_PKT_CONTD if number + 1 < len(pieces) else 0
            self.rx.write((address, len(piece), goes_on), ahead=number)
        self.rx.publish(len(pieces))
        return True

    def take_tx(self, limit: int) -> None:
        for _ in range(min(limit, self.tx.waiting)):
            address, length, options = self.tx.take()
            self._unfinished += self.umem.memory[address : address + length].tobytes()
            if not options & abi.XDP_PKT_CONTD:
                self.line.append(self._unfinished)
                self._unfinished = b""
            self.sending.append(int(address))

    def complete(self, limit: int, *, last_first: bool = False) -> None:
        """Give sent frames back, in order or not: completions of real devices may overtake each other."""
        for _ in range(min(limit, len(self.sending), self.completion.room)):
            self.completion.write(self.sending.pop() if last_first else self.sending.popleft())
            self.completion.publish(1)

    def frames(self) -> list[int]:
        """Every frame that is in a ring or in the kernel's hand, as often as it is there."""
        places = [int(entry["address"]) for ring in (self.rx, self.tx) for entry in ring.contents()]
        places += [int(entry) for ring in (self.fill, self.completion) for entry in ring.contents()]
        places += [*self.receiving, *self.sending]
        return [place // self.umem.plan.frame_bytes for place in places]
