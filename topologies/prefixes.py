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
from typing import Generic, TypeVar

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
    rank = {action: number for number, action in enumerate(dict.fromkeys(actions.values()))}
    return sorted(_chosen(_tree(sorted(actions), actions, 0, bits), None, rank), key=lambda one: (one.length, one.key))


@dataclass(frozen=True)
class _Tree(Generic[Action]):
    """Keys with the same first bits, and the actions that are equally good as the default for all of them."""

    key: int
    length: int
    actions: frozenset[Action]
    halves: tuple[_Tree[Action], ...]


def _tree(keys: Sequence[int], actions: Mapping[int, Action], length: int, bits: int) -> _Tree[Action]:
    if len(keys) == 1:
        return _Tree(keys[0] >> (bits - length), length, frozenset((actions[keys[0]],)), ())
    prefix = keys[0] >> (bits - length)
    middle = bisect_left(keys, (prefix * 2 + 1) << (bits - length - 1))
    halves = tuple(_tree(half, actions, length + 1, bits) for half in (keys[:middle], keys[middle:]) if half)
    common = frozenset.intersection(*(half.actions for half in halves))
    return _Tree(prefix, length, common or frozenset.union(*(half.actions for half in halves)), halves)


def _chosen(tree: _Tree[Action], inherited: Action | None, rank: Mapping[Action, int]) -> Iterator[Cover[Action]]:
    if inherited not in tree.actions:
        inherited = min(tree.actions, key=rank.__getitem__)
        yield Cover(tree.key, tree.length, inherited)
    for half in tree.halves:
        yield from _chosen(half, inherited, rank)


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
