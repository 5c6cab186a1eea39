"""What is to be changed in the headers of frames, and what that does to their checksums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gateway.dataplane.checksum import PLENTY
from gateway.dataplane.headers import Headers
from gateway.dataplane.memory import Flags, Ints, Words, word

_32, _16, _M = word(32), word(16), word(0xFFFF)
_HOP = word(0x0100)
"""One hop less: the time to live is the upper byte of its 16-bit word."""


@dataclass(slots=True)
class Edits:
    """The headers that frames leave with; fields as in `Headers`.

    Attributes:
        next_hop: Number of the next hop, which gives Ethernet addresses and port.
    """

    source: Words
    target: Words
    source_high: Words
    target_high: Words
    source_port: Ints
    target_port: Ints
    next_hop: Ints

    @classmethod
    def none(cls, headers: Headers) -> Edits:
        """The headers as they are, for no next hop; arrays are copies."""
        return cls(
            headers.source.copy(),
            headers.target.copy(),
            headers.source_high.copy(),
            headers.target_high.copy(),
            headers.source_port.copy(),
            headers.target_port.copy(),
            np.full(headers.size, -1, np.int64),
        )

    @classmethod
    def empty(cls, size: int) -> Edits:
        """Room for the edits of so many frames or flows."""
        words = [np.zeros(size, np.uint64) for _ in range(4)]
        ports = [np.zeros(size, np.int64) for _ in range(2)]
        return cls(words[0], words[1], words[2], words[3], ports[0], ports[1], np.full(size, -1, np.int64))

    def take(self, rows: Ints) -> Edits:
        """The edits of some of the frames."""
        return Edits(
            self.source[rows],
            self.target[rows],
            self.source_high[rows],
            self.target_high[rows],
            self.source_port[rows],
            self.target_port[rows],
            self.next_hop[rows],
        )

    def put(self, rows: Ints, other: Edits) -> None:
        """Replace some entries by those of *other*."""
        for name in self.__slots__:
            getattr(self, name)[rows] = getattr(other, name)

    @property
    def target_ports(self) -> Words:
        """Target and ports of IPv4 as in `Headers.words`."""
        ports: Words = (self.source_port.view(np.uint64) << _16) | self.target_port.view(np.uint64)
        ports |= self.target << _32
        return ports


@dataclass(slots=True)
class Deltas:
    """What `checksum.updated` needs.

    Attributes:
        header: For the checksum of IPv4's header, with one hop less.
        transport: For TCP's or UDP's.
        changes: Whether addresses or ports change at all.
    """

    header: Words
    transport: Words
    changes: Flags

    @classmethod
    def empty(cls, size: int) -> Deltas:
        """Room for so many."""
        return cls(np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.zeros(size, np.bool_))

    def take(self, rows: Ints) -> Deltas:
        """Those of some of the frames."""
        return Deltas(self.header[rows], self.transport[rows], self.changes[rows])

    def put(self, rows: Ints, other: Deltas) -> None:
        """Replace some entries by those of *other*."""
        for name in self.__slots__:
            getattr(self, name)[rows] = getattr(other, name)


def deltas_of(headers: Headers, edits: Edits) -> Deltas:
    """What edits do to checksums."""
    header = np.full(headers.size, PLENTY, np.uint64)
    for old, new in (
        (headers.source, edits.source),
        (headers.target, edits.target),
        (headers.source_high, edits.source_high),
        (headers.target_high, edits.target_high),
    ):
        header += old % _M
        header -= new % _M
    old_ports = (headers.source_port + headers.target_port).view(np.uint64)
    new_ports = (edits.source_port + edits.target_port).view(np.uint64)
    changes = (headers.source != edits.source) | (headers.target != edits.target)
    changes |= (headers.source_high != edits.source_high) | (headers.target_high != edits.target_high)
    changes |= (headers.source_port != edits.source_port) | (headers.target_port != edits.target_port)
    return Deltas(header + _HOP, header + old_ports - new_ports, changes)


def delta_of_sums(
    old: tuple[Sequence[int], Sequence[int]], new: tuple[Sequence[int], Sequence[int]]
) -> tuple[int, int]:
    """The same for one flow: `Deltas.header` and `Deltas.transport`, from addresses and ports before and after."""
    addresses = int(PLENTY) + sum(value % 0xFFFF for value in old[0]) - sum(value % 0xFFFF for value in new[0])
    return addresses + int(_HOP), addresses + sum(old[1]) - sum(new[1])
