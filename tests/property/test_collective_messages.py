"""Schedules as messages: right in any order of events that their dependencies allow, and never stuck."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.collectives import Collective, fits
from emulator.collectives.cost import schedule_edges
from emulator.collectives.messages import messages_of
from emulator.collectives.payload import DATA_TYPES, OPERATIONS
from tests.support.collective_play import play

KINDS = st.sampled_from(list(Collective))
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda shape: prod(shape) <= 12)


@settings(deadline=None, max_examples=60)
@given(
    KINDS, SHAPES, st.integers(0, 300), st.sampled_from(list(DATA_TYPES)), st.sampled_from(list(OPERATIONS)), st.data()
)
def test_any_order_of_events(
    kind: Collective, shape: list[int], items: int, datatype: str, operation: str, data: st.DataObject
) -> None:
    """Every schedule, with fewer items than chunks too: all messages arrive, and all numbers are right."""
    schedule = data.draw(st.sampled_from(list(fits(kind, shape).values())))
    order = data.draw(st.randoms(use_true_random=False))
    size = items * DATA_TYPES[datatype].dtype.itemsize
    wrong, stuck, messages = play(schedule, size, order.randrange, datatype, operation)
    assert (wrong, stuck) == (0, 0)
    assert len(messages) <= sum(len(step) for step in schedule)


@settings(deadline=None, max_examples=60)
@given(KINDS, SHAPES.filter(lambda shape: prod(shape) > 1), st.data())
def test_damage_is_found(kind: Collective, shape: list[int], data: st.DataObject) -> None:
    """One number changed on its way to where it counts: at least one is wrong in the end, and none is lost."""
    schedule = data.draw(st.sampled_from(list(fits(kind, shape).values())))
    order = data.draw(st.randoms(use_true_random=False))
    edges = schedule_edges(schedule, 4 * 600)
    victim = data.draw(st.integers(0, len(messages_of(schedule, edges)) - 1))

    def damage(message: int, numbers: np.ndarray) -> None:
        if message == victim:
            numbers[order.randrange(len(numbers))] += 1

    wrong, stuck, _ = play(schedule, 4 * 600, order.randrange, damage=damage)
    assert wrong > 0
    assert stuck == 0


@settings(deadline=None, max_examples=60)
@given(KINDS, SHAPES, st.integers(0, 200))
def test_messages_carry_what_the_steps_say(kind: Collective, shape: list[int], items: int) -> None:
    """Bytes from rank to rank are those of the schedule's transfers, step by step, and none is of nothing."""
    for schedule in fits(kind, shape).values():
        edges = schedule_edges(schedule, 4 * items)
        messages = messages_of(schedule, edges)
        size = np.add.reduceat(edges[messages.first + messages.count] - edges[messages.first], messages.ranges[:-1])
        assert (size[: len(messages)] > 0).all()
        for number, step in enumerate(schedule):
            wanted = np.zeros((schedule.ranks, schedule.ranks), dtype=np.int64)
            np.add.at(wanted, (step.source, step.target), edges[step.first + step.count] - edges[step.first])
            found = np.zeros_like(wanted)
            mine = messages.step == number
            np.add.at(found, (messages.source[mine], messages.target[mine]), size[: len(messages)][mine])
            assert (found == wanted).all()
