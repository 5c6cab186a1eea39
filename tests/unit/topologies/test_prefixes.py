"""Prefix tables: small, exact, and no smaller ones exist."""

from __future__ import annotations

from ipaddress import IPv4Address
from itertools import product

import pytest

from emulator.errors import TopologyError
from topologies.prefixes import Cover, Layout, compress


def answer(covers: list[Cover[str]], key: int, bits: int) -> str | None:
    """The action of the longest prefix that matches."""
    found = [one for one in covers if key >> (bits - one.length) == one.key]
    return max(found, key=lambda one: one.length).action if found else None


def test_tables_are_exact_and_minimal() -> None:
    """All tables over two bits with two actions and unused keys: exact, and as short as the best of all tables.

    The best is found by trying all tables of up to three prefixes.
    """
    prefixes = [(key, length) for length in range(3) for key in range(1 << length)]
    reachable: dict[tuple[str | None, ...], int] = {}
    for count in range(4):
        for chosen in product(product(prefixes, "ab"), repeat=count):
            covers = [Cover(key, length, action) for (key, length), action in chosen]
            if len({(one.key, one.length) for one in covers}) == count:
                table = tuple(answer(covers, key, 2) for key in range(4))
                reachable[table] = min(count, reachable.get(table, count))
    for wanted in product(("a", "b", None), repeat=4):
        covers = compress({key: action for key, action in enumerate(wanted) if action}, 2)
        for key, action in enumerate(wanted):
            assert action is None or answer(covers, key, 2) == action
        fitting = [
            n for table, n in reachable.items() if all(w in (None, t) for w, t in zip(wanted, table, strict=True))
        ]
        assert len(covers) == min(fitting), wanted


def test_addresses_are_readable_where_bytes_suffice() -> None:
    """Three fields of a byte; shorter fields only where more are needed; both ways round."""
    layout = Layout.fit((8, 8, 8))
    assert layout.widths == (8, 8, 8)
    assert layout.address((0, 6, 7)) == IPv4Address("10.1.7.8")
    packed = Layout.fit((8, 8, 8, 8))
    assert packed.widths == (12, 4, 4, 4)
    for place in ((0, 0, 0, 0), (7, 7, 7, 7), (3, 0, 5, 1)):
        assert packed.values(packed.address(place)) == place


@pytest.mark.parametrize("sizes", [(8, 8, 8, 8), (2, 3), (64,), (1, 1, 1), (22, 22, 22), (2, 250, 4, 3)])
def test_addresses_are_unique_and_never_end_in_zero(sizes: tuple[int, ...]) -> None:
    """Every place has an address of its own within 10.0.0.0/8 that is no network's first."""
    layout = Layout.fit(sizes)
    found = [
        layout.address(place) for place in product(*(sorted({0, 1, size - 1} & set(range(size))) for size in sizes))
    ]
    assert len(set(found)) == len(found)
    assert all(str(one).startswith("10.") and int(one) & ((1 << layout.widths[-1]) - 1) for one in found)


def test_too_many_places() -> None:
    """More places than 24 bits hold are refused."""
    with pytest.raises(TopologyError, match="do not fit"):
        Layout.fit((512, 512, 512))
