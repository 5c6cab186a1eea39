"""Schedules with numbers in them: an executor of ten lines adds real arrays up."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.collectives import Collective, Schedule, fits
from emulator.collectives.cost import schedule_edges

SHAPES = [(1,), (2,), (5,), (8,), (2, 2), (3, 4), (2, 3, 2)]


def carry_out(schedule: Schedule, buffers: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """What every rank has after all steps; in a step, everyone sends before anything arrives."""
    for made in schedule:
        sent = [
            buffers[source, edges[first] : edges[first + count]].copy()
            for source, first, count in zip(made.source, made.first, made.count, strict=True)
        ]
        for data, target, first, count, reduce in zip(
            sent, made.target, made.first, made.count, made.reduce, strict=True
        ):
            place = slice(edges[first], edges[first + count])
            buffers[target, place] = buffers[target, place] + data if reduce else data
    return buffers


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", list(Collective))
def test_numbers_are_right(kind: Collective, shape: tuple[int, ...]) -> None:
    """Every schedule of every collective, with sizes that do not divide evenly: what people expect of it comes out."""
    ranks = int(np.prod(shape))
    items = 37
    for name, schedule in fits(kind, shape).items():
        edges = schedule_edges(schedule, 4 * items, 4) // 4
        total = int(edges[-1])
        given = np.random.default_rng(7).integers(1, 1000, size=(ranks, total))
        buffers = given.copy()
        owners = np.repeat(schedule.owners, np.diff(edges)) if schedule.owners is not None else None
        if kind is Collective.ALL_TO_ALL:
            owners = np.repeat(np.arange(ranks * ranks) // ranks, np.diff(edges))
        if kind in (Collective.ALL_GATHER, Collective.ALL_TO_ALL):
            assert owners is not None
            buffers[np.arange(ranks)[:, None] != owners[None, :]] = -1
        if kind is Collective.BROADCAST:
            buffers[np.arange(ranks) != schedule.root] = -1
        found = carry_out(schedule, buffers, edges)
        added = given.sum(axis=0)
        if kind is Collective.ALL_REDUCE:
            assert (found == added).all(), name
        elif kind is Collective.REDUCE:
            assert (found[schedule.root] == added).all(), name
        elif kind is Collective.BROADCAST:
            assert (found == given[schedule.root]).all(), name
        elif kind is Collective.REDUCE_SCATTER:
            assert owners is not None
            assert (found[owners, np.arange(total)] == added).all(), name
        elif kind is Collective.ALL_GATHER:
            assert owners is not None
            assert (found == given[owners, np.arange(total)]).all(), name
        else:
            assert owners is not None
            goals = np.repeat(np.arange(ranks * ranks) % ranks, np.diff(edges))
            assert (found[goals, np.arange(total)] == given[owners, np.arange(total)]).all(), name
