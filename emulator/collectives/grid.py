"""Grids that ranks make, told from the names of their cards, and an order in which one goes through them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod

_COORDINATES = re.compile(r"c\d+(_\d+)*")


def places_of(names: Sequence[str]) -> list[tuple[int, ...]]:
    """Coordinates of cards, which are their names; empty if some have none, or different numbers of them."""
    if not all(map(_COORDINATES.fullmatch, names)):
        return []
    places = [tuple(map(int, name[1:].split("_"))) for name in names]
    return places if len({len(place) for place in places}) == 1 else []


def grid_of(names: Sequence[str]) -> str:
    """The grid that hosts make whose names are coordinates, as those of cards are, such as ``8x8x4``.

    They make one if no place in it is free and the last coordinate changes fastest; else it has one dimension.
    """
    places = places_of(names)
    if places:
        axes = [sorted(set(axis)) for axis in zip(*places, strict=True)]
        if prod(map(len, axes)) == len(places) and list(product(*axes)) == places:
            return "x".join(str(len(axis)) for axis in axes)
    return str(len(names))


def snake(names: Sequence[str]) -> list[int]:
    """Ranks in an order in which each is beside the next as far as that goes: along rows, back in every other one.

    Cards may be missing. Names without coordinates keep their order.
    """
    places = places_of(names)

    def turned(rank: int) -> tuple[int, ...]:
        key: list[int] = []
        backwards = False
        for coordinate in places[rank]:
            key.append(-coordinate if backwards else coordinate)
            backwards ^= bool(coordinate % 2)
        return tuple(key)

    return sorted(range(len(names)), key=turned) if places else list(range(len(names)))
