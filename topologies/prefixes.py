"""Addresses that tell where a node is, and the fewest prefixes for a table over them.

An address is 10.0.0.0/8 and 24 bits that hold fields, the most significant first: for example supernode, x, y, z. Each
field holds its value plus one, so that no address ends in zero and, where fields are bytes, people count from one:
card c2_0_5 of a torus is 10.3.1.6.

Tables are compressed exactly (Draves, King, Venkatachary and Zill: Constructing Optimal IP Routing Tables, 1999):
addresses that nobody has may go anywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Generic, NamedTuple, TypeVar

from emulator.errors import TopologyError
from emulator.model.routing import Route

BASE = int(IPv4Address("10.0.0.0"))
BITS = 24
_ALL = 32

Action = TypeVar("Action", bound=Hashable)


@dataclass(frozen=True)
class Layout:
    """Which bits of an address hold what.

    Attributes:
        widths: Bits of each field, the most significant first; 24 together.
    """

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if sum(self.widths) != BITS or min(self.widths) < 1:
            raise ValueError(self.widths)

    @staticmethod
    def fit(sizes: Sequence[int]) -> Layout:
        """A layout for fields that take 0 to size - 1: bytes if possible, for people to read.

        Raises:
            TopologyError: There are more places than addresses.
        """
        needed = [size.bit_length() for size in sizes]  # values are stored plus one
        if sum(needed) > BITS:
            raise TopologyError(f"{'x'.join(map(str, sizes))} places do not fit into the addresses 10.0.0.0/8")
        if len(sizes) <= BITS // 8 and max(needed) <= 8:
            spare = BITS - 8 * len(sizes)
            return Layout((8 + spare, *(8 for _ in needed[1:])))
        return Layout((BITS - sum(needed[1:]), *needed[1:]))

    def key(self, values: Sequence[int]) -> int:
        """The 24 bits of an address."""
        key = 0
        for value, width in zip(values, self.widths, strict=True):
            key = key << width | (value + 1)
        return key

    def address(self, values: Sequence[int]) -> IPv4Address:
        """The address of a place."""
        return IPv4Address(BASE | self.key(values))

    def values(self, address: IPv4Address) -> tuple[int, ...]:
        """The place that an address tells."""
        key, found = int(address) & ((1 << BITS) - 1), []
        for width in reversed(self.widths):
            found.append((key & ((1 << width) - 1)) - 1)
            key >>= width
        return tuple(reversed(found))

    def bits_of(self, fields: int) -> int:
        """Bits of the first *fields* fields together."""
        return sum(self.widths[:fields])


@dataclass(frozen=True)
class Cover(Generic[Action]):
    """What is done for a range of keys.

    Attributes:
        key: The first bits.
        length: How many bits are given.
        action: What is done.
    """

    key: int
    length: int
    action: Action


def compress(actions: Mapping[int, Action], bits: int) -> list[Cover[Action]]:
    """The fewest prefixes that do for every key what *actions* says; keys that it does not name may do anything.

    Args:
        actions: By key.
        bits: Length of a key.

    Returns:
        Shortest prefixes first; empty without actions.
    """
    if not actions:
        return []
    kinds = list(dict.fromkeys(actions.values()))
    bit = {action: 1 << number for number, action in enumerate(kinds)}
    tree = _tree(sorted((key, bit[action]) for key, action in actions.items()), 0, bits)
    found = [Cover(key, length, kinds[chosen.bit_length() - 1]) for key, length, chosen in _chosen(tree, 0)]
    return sorted(found, key=lambda one: (one.length, one.key))


class _Tree(NamedTuple):
    """Keys with the same first bits, and the set of actions that are equally good as the default for all of them."""

    key: int
    length: int
    good: int
    halves: tuple[_Tree, ...]


def _tree(leaves: Sequence[tuple[int, int]], length: int, bits: int) -> _Tree:
    first, good = leaves[0]
    prefix = first >> (bits - length)
    if len(leaves) == 1:
        return _Tree(prefix, length, good, ())
    middle = bisect_left(leaves, ((prefix * 2 + 1) << (bits - length - 1),))
    if middle in (0, len(leaves)):
        half = _tree(leaves, length + 1, bits)
        return _Tree(prefix, length, half.good, (half,))
    low, high = _tree(leaves[:middle], length + 1, bits), _tree(leaves[middle:], length + 1, bits)
    return _Tree(prefix, length, low.good & high.good or low.good | high.good, (low, high))


def _chosen(tree: _Tree, inherited: int) -> Iterator[tuple[int, int, int]]:
    """Prefixes, and which action each is for: the first that is good, unless the one from above is."""
    if not inherited & tree.good:
        inherited = tree.good & -tree.good
        yield tree.key, tree.length, inherited
    for half in tree.halves:
        if half.halves or not inherited & half.good:
            yield from _chosen(half, inherited)


def network(key: int, length: int) -> IPv4Network:
    """The prefix within 10.0.0.0/8 that begins with *length* bits *key*."""
    return IPv4Network((BASE | key << (BITS - length), _ALL - BITS + length))


def routes(actions: Mapping[int, tuple[int, ...]], bits: int = BITS) -> list[Route]:
    """The fewest routes for ports by key.

    Args:
        actions: Ports by the first bits of an address.
        bits: How many these are.
    """
    return [Route(network(one.key, one.length), one.action) for one in compress(actions, bits)]
