"""Tables that are asked for a whole batch at a time: exact keys by hashing, addresses by their longest prefix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

import numpy as np
from numpy.typing import NDArray

from gateway.dataplane.memory import Ints, Words, integer, word

MISSING = -1
_MULTIPLIERS = tuple(
    word(value)
    for value in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
)
_MIX, _STEP, _MISSING = word(32), integer(1), integer(MISSING)
_MASK64 = (1 << 64) - 1
_FEW = 64
"""Keys that are taken out one by one; for more, the table is written anew."""


class ExactTable:
    """Values, numbers from 0, by keys of a fixed number of 64-bit words: open addressing with linear probing.

    Args:
        width: Words in a key, at most 5.
        capacity: Entries at most; four times as many places are kept, so that runs of taken ones stay short.
    """

    def __init__(self, width: int, capacity: int) -> None:
        places = 1 << max(4, (4 * capacity - 1).bit_length())
        self.width = width
        self.capacity = capacity
        self._keys = np.zeros((width, places), np.uint64)
        self._values = np.full(places, MISSING, np.int64)
        self._mask_number = integer(places - 1)
        self._shift = 64 - (places.bit_length() - 1)
        self._shift_word = word(self._shift)
        self._mask = places - 1
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def find(self, keys: Sequence[Words]) -> Ints:
        """The value of each key, `MISSING` where there is none; *keys* are one array for each word of a key."""
        place = self._homes(keys)
        values = self._values[place]
        same = self._keys[0][place] == keys[0]
        for stored, column in zip(self._keys[1:], keys[1:], strict=True):
            same &= stored[place] == column
        if np.count_nonzero(same) == values.size:
            return values
        self._probe(keys, place, values, same)
        return values

    def _homes(self, keys: Sequence[Words]) -> Ints:
        """Where each key would be if it were alone."""
        hashed = keys[0] * _MULTIPLIERS[0]
        for column, multiplier in zip(keys[1:], _MULTIPLIERS[1:], strict=False):
            hashed ^= column
            hashed *= multiplier
        hashed ^= hashed >> _MIX
        hashed *= _MULTIPLIERS[0]
        places: Ints = (hashed >> self._shift_word).view(np.int64)
        return places

    def _probe(self, keys: Sequence[Words], place: Ints, values: Ints, same: NDArray[np.bool_]) -> None:
        """Look at the places behind those where another key stood."""
        rows = (~same).nonzero()[0]
        found = values[rows]
        while True:
            again = found != _MISSING
            if np.count_nonzero(again) != rows.size:
                rows = rows[again]
            if not rows.size:
                return
            here = (place[rows] + _STEP) & self._mask_number
            place[rows] = here
            found = self._values[here]
            values[rows] = found
            equal = self._keys[0][here] == keys[0][rows]
            for stored, column in zip(self._keys[1:], keys[1:], strict=True):
                equal &= stored[here] == column[rows]
            if np.count_nonzero(equal):
                different = ~equal
                rows, found = rows[different], found[different]

    def _place(self, key: Sequence[int]) -> int:
        hashed = key[0] * int(_MULTIPLIERS[0]) & _MASK64
        for part, multiplier in zip(key[1:], _MULTIPLIERS[1:], strict=False):
            hashed = (hashed ^ part) * int(multiplier) & _MASK64
        hashed ^= hashed >> 32
        return (hashed * int(_MULTIPLIERS[0]) & _MASK64) >> self._shift

    def _locate(self, key: Sequence[int]) -> int:
        place = self._place(key)
        while self._values[place] != MISSING and any(
            int(self._keys[index, place]) != part for index, part in enumerate(key)
        ):
            place = (place + 1) & self._mask
        return place

    def get(self, key: Sequence[int]) -> int:
        """The value of one key, or `MISSING`."""
        return int(self._values[self._locate(key)])

    def put(self, key: Sequence[int], value: int) -> None:
        """Add a key or replace its value.

        Raises:
            OverflowError: The table is full.
        """
        place = self._locate(key)
        if self._values[place] == MISSING:
            if self._size >= self.capacity:
                raise OverflowError(f"a table of {self.capacity} entries is full")
            self._size += 1
            for index, part in enumerate(key):
                self._keys[index, place] = part
        self._values[place] = value

    def put_new(self, keys: Sequence[Words], values: Ints) -> None:
        """Add many keys that differ and of which none is there.

        Raises:
            OverflowError: They do not fit; none was added.
        """
        if self._size + values.size > self.capacity:
            raise OverflowError(f"a table of {self.capacity} entries is full")
        self._size += values.size
        rows, place = np.arange(values.size), self._homes(keys)
        while rows.size:
            free = np.flatnonzero(self._values[place] == MISSING)
            taken, first = np.unique(place[free], return_index=True)
            winners = free[first]
            self._values[taken] = values[rows[winners]]
            for stored, column in zip(self._keys, keys, strict=True):
                stored[taken] = column[rows[winners]]
            losers = np.ones(rows.size, np.bool_)
            losers[winners] = False
            rows, place = rows[losers], (place[losers] + 1) & self._mask

    def remove_all(self, keys: Sequence[Words]) -> None:
        """Take many keys out that are there."""
        count = keys[0].size
        if count <= _FEW:
            for key in zip(*(column.tolist() for column in keys), strict=True):
                self.remove(key)
            return
        stays = self._values != MISSING
        place = self._homes(keys)
        rows = np.arange(count)
        while rows.size:
            same = np.ones(rows.size, np.bool_)
            for stored, column in zip(self._keys, keys, strict=True):
                same &= stored[place] == column[rows]
            stays[place[same]] = False
            rows, place = rows[~same], (place[~same] + 1) & self._mask
        columns, values = self._keys[:, stays], self._values[stays]
        self.clear()
        self.put_new(list(columns), values)

    def remove(self, key: Sequence[int]) -> bool:
        """Take a key out, and move those behind it up where that is needed; False: it was not there."""
        hole = self._locate(key)
        if self._values[hole] == MISSING:
            return False
        self._size -= 1
        place = hole
        while True:
            place = (place + 1) & self._mask
            if self._values[place] == MISSING:
                break
            home = self._place([int(part) for part in self._keys[:, place]])
            # It may move into the hole unless its home lies behind the hole.
            if (place - home) & self._mask >= (place - hole) & self._mask:
                self._keys[:, hole] = self._keys[:, place]
                self._values[hole] = self._values[place]
                hole = place
        self._values[hole] = MISSING
        return True

    def clear(self) -> None:
        """Take all keys out."""
        self._values.fill(MISSING)
        self._size = 0


Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Prefix:
    """An entry of a `PrefixTable`.

    Attributes:
        scope: Within which the prefix is meant, such as a tenant (0 to 2^31 - 1).
        network: The addresses.
        value: What they lead to, from 0.
    """

    scope: int
    network: Network
    value: int


class PrefixTable:
    """The value of the longest prefix that an address has, within a scope.

    IPv4 prefixes are cut into intervals that do not overlap, so that one binary search finds the answer. IPv6 prefixes
    are compared one after the other, shortest first.
    """

    def __init__(self, prefixes: Iterable[Prefix]) -> None:
        narrow: list[tuple[int, int, int]] = []
        self._wide: list[tuple[int, int, int, int, int, int]] = []
        for prefix in prefixes:
            network = prefix.network
            first = int(network.network_address)
            if isinstance(network, IPv4Network):
                base = prefix.scope << 32
                narrow.append((base + first, base + int(network.broadcast_address), prefix.value))
            else:
                mask = int(network.netmask)
                halves = (first >> 64, first & _MASK64, mask >> 64, mask & _MASK64)
                self._wide.append((*halves, prefix.scope, prefix.value))
        self._wide.sort(key=lambda entry: (entry[2], entry[3]))
        starts, values = _intervals(narrow)
        self._starts = np.array(starts, np.uint64)
        self._values = np.array(values, np.int64)

    def find(self, scope: Ints, family: Ints, high: Words, low: Words) -> Ints:
        """The value for each address, or `MISSING`; addresses are as in `Headers`."""
        keys = scope.view(np.uint64) << _MIX
        keys |= low
        found: Ints = self._values[np.searchsorted(self._starts, keys, "right")]
        six = family == 6
        if np.count_nonzero(six):
            rows = np.flatnonzero(six)
            found[rows] = self._find_wide(scope[rows], high[rows], low[rows])
        return found

    def _find_wide(self, scope: Ints, high: Words, low: Words) -> Ints:
        found = np.full(high.size, MISSING, np.int64)
        for first, second, mask, low_mask, wanted, value in self._wide:
            match = (high & np.uint64(mask)) == np.uint64(first)
            match &= (low & np.uint64(low_mask)) == np.uint64(second)
            found[match & (scope == wanted)] = value
        return found


def _intervals(ranges: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """Cut nested ranges into intervals.

    Args:
        ranges: First, last and value of each; two of them are nested or apart. Of equal ones the later counts.

    Returns:
        Where intervals begin, in order, and the value before each of them and at the end: one value more.
    """
    starts: list[int] = []
    values: list[int] = [MISSING]
    open_ranges: list[tuple[int, int]] = []

    def begin(at: int, value: int) -> None:
        if starts and starts[-1] == at:
            values[-1] = value
        else:
            starts.append(at)
            values.append(value)

    def close_before(at: int | None) -> None:
        while open_ranges and (at is None or open_ranges[-1][0] < at):
            last, _ = open_ranges.pop()
            begin(last + 1, open_ranges[-1][1] if open_ranges else MISSING)

    for first, last, value in sorted(ranges, key=lambda entry: (entry[0], -entry[1])):
        close_before(first)
        begin(first, value)
        open_ranges.append((last, value))
    close_before(None)
    return starts, values
