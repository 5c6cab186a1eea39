"""Grids that names of cards make, and the way through them along rows and back."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from emulator.collectives.grid import grid_of, places_of, snake


def names(*shape: int) -> list[str]:
    return ["c" + "_".join(map(str, place)) for place in product(*map(range, shape))]


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (4, 4, 4), (3, 3, 3), (2, 2, 2, 2)])
def test_a_snake_goes_from_neighbour_to_neighbour(shape: tuple[int, ...]) -> None:
    """Through every card once, one link at a time."""
    cards = names(*shape)
    order = snake(cards)
    assert sorted(order) == list(range(len(cards)))
    places = places_of(cards)
    for here, there in pairwise(order):
        assert sum(abs(a - b) for a, b in zip(places[here], places[there], strict=True)) == 1


def test_a_snake_with_a_gap() -> None:
    """A missing card costs one longer step; names without places keep their order."""
    cards = names(3, 3)
    cards.remove("c1_1")
    places = places_of(cards)
    steps = [
        sum(abs(a - b) for a, b in zip(places[here], places[there], strict=True))
        for here, there in pairwise(snake(cards))
    ]
    assert sorted(steps) == [1] * 6 + [2]
    assert snake(["h3", "h1", "h2"]) == [0, 1, 2]


def test_grids() -> None:
    """Only a full box in order is one."""
    assert grid_of(names(2, 3)) == "2x3"
    assert grid_of(names(2, 3)[::-1]) == "6"
    assert grid_of(["c0_0", "c1"]) == "2"
    assert places_of(["c0_0", "h1"]) == []
