"""The numbers that ranks work on: different everywhere, exact in their type, and what must come out of them."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from emulator.collectives import Collective, Schedule, build
from emulator.collectives.cost import schedule_edges
from emulator.collectives.payload import DATA_TYPES, OPERATIONS, Payload, payload
from emulator.errors import ScenarioError


def drawn(
    schedule: Schedule, datatype: str, operation: str = "sum", items: int = 4000, windows: list[int] | None = None
) -> Payload:
    edges = schedule_edges(schedule, items * DATA_TYPES[datatype].dtype.itemsize, DATA_TYPES[datatype].dtype.itemsize)
    return payload(schedule, edges, datatype, operation, 3, windows)


@pytest.mark.parametrize("ranks", [2, 9, 700])
@pytest.mark.parametrize("datatype", list(DATA_TYPES))
def test_sums_are_exact_in_any_order(datatype: str, ranks: int) -> None:
    """Adding up from the first to the last, the other way round and in pairs gives the very numbers that must come."""
    found = drawn(build(Collective.ALL_REDUCE, "ring", (ranks,)), datatype, items=257)
    assert len({one.tobytes() for one in found.inputs}) == ranks, "no two ranks have the same numbers"
    paired = [a + b for a, b in zip(found.inputs[: ranks // 2], found.inputs[-(ranks // 2) :], strict=True)]
    middle = [found.inputs[ranks // 2]] if ranks % 2 else []
    for order in (found.inputs, found.inputs[::-1], [*paired, *middle]):
        total = reduce(np.add, order)
        assert total.dtype == found.truth.dtype == DATA_TYPES[datatype].dtype
        assert np.array_equal(total, found.truth)


def test_too_many_ranks_for_a_type() -> None:
    """Sums of 1025 halves cannot be exact if each is one of at least two numbers."""
    drawn(build(Collective.ALL_REDUCE, "binomial", (1024,)), "half")
    with pytest.raises(ScenarioError, match="sums of 1025 numbers are not exact as half") as caught:
        drawn(build(Collective.ALL_REDUCE, "binomial", (1025,)), "half")
    assert caught.value.key == "datatype"


@pytest.mark.parametrize("datatype", ["int8", "half", "double"])
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_the_truth_is_that_of_those_who_are_left(operation: str, datatype: str) -> None:
    """Of seven ranks three stay, not next to each other: what must come out is what these three come to."""
    some = drawn(build(Collective.ALL_REDUCE, "ring", (3,)), datatype, operation, windows=[1, 4, 6])
    assert np.array_equal(reduce(OPERATIONS[operation], some.inputs), some.truth)


@pytest.mark.parametrize("datatype", ["int8", "int32", "float"])
def test_who_stays_keeps_its_numbers(datatype: str) -> None:
    """Each of them goes on with the input that it had."""
    everybody = drawn(build(Collective.ALL_REDUCE, "ring", (7,)), datatype)
    some = drawn(build(Collective.ALL_REDUCE, "ring", (3,)), datatype, windows=[1, 4, 6])
    for window, one in zip([1, 4, 6], some.inputs, strict=True):
        assert np.array_equal(one, everybody.inputs[window])


@pytest.mark.parametrize("kind", [Collective.ALL_GATHER, Collective.BROADCAST, Collective.ALL_TO_ALL])
def test_data_that_is_not_added_up_differs_everywhere(kind: Collective) -> None:
    """What one rank has is nobody else's: a chunk that goes astray is noticed."""
    found = drawn(
        build(kind, {"all_gather": "ring", "broadcast": "chain", "alltoall": "shift"}[kind.value], (5,)), "int32"
    )
    assert found.inputs == ()
    parts = np.array_split(found.truth, 25)
    assert len({part.tobytes() for part in parts}) == 25
