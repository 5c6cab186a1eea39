"""Which schedule a collective goes by, and what that should take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emulator.collectives import Collective, Schedule, build, fits
from emulator.collectives.cost import CostModel, Prediction
from emulator.collectives.grid import places_of, snake
from emulator.collectives.halving import halving_doubling
from emulator.collectives.leaves import leaves
from emulator.collectives.payload import DATA_TYPES
from emulator.collectives.ring import ring_all_reduce, rings
from emulator.collectives.schedule import striped
from emulator.collectives.ways import Ways, planes_of
from emulator.errors import WorkloadError
from emulator.model.workload import Collectives
from emulator.workloads.collective.cards import cost_model, slow_ranks

AUTO = "auto"
LEAVES = ("leaves-ring", "leaves-halving-doubling")
_RINGS = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
MOST_MESSAGES = 1_000_000
"""Schedules of more messages are not chosen: every one costs some tens of microseconds of real time."""

_WORTH = 2
"""Schedules that an estimate has this many times longer than the best are not looked at more closely."""


@dataclass(frozen=True)
class Choice:
    """A schedule and its prediction."""

    schedule: Schedule
    prediction: Prediction


def _suits(schedule: Schedule, model: CostModel) -> bool:
    """Whether a schedule whose point is that every transfer crosses a single link has such links here."""
    if not schedule.name.startswith("torus-hamiltonian"):
        return True
    first = schedule.make(0)
    return model.links_between(int(first.source[0]), int(first.target[0])) == 1


class Chooser:
    """Picks the schedule that should be quickest, or predicts the one that is asked for.

    Args:
        workload: What is to be done.
        ways: Of the network as it is.
        between: Is called between one prediction and the next, which take up to some seconds of computing each.
    """

    def __init__(self, workload: Collectives, ways: Ways, between: Callable[[], None] = lambda: None) -> None:
        self._between = between
        kind = Collective(workload.collective)
        self._model = model = cost_model(workload, ways)
        planes, slow = planes_of(ways, workload.ranks), slow_ranks(ways, workload.ranks)
        self._rounds = workload.rounds_in_a_row
        self._item_bytes = DATA_TYPES[workload.datatype].dtype.itemsize
        hanging = (
            [leaves(len(workload.ranks), slow, inner) for inner in (ring_all_reduce, halving_doubling)] if slow else []
        )
        if workload.algorithm in LEAVES:
            self._schedules = [one for one in hanging if one.name == workload.algorithm]
            if not self._schedules:
                raise WorkloadError(f"workload {workload.name}: all links are equally fast, so nobody is to be a leaf")
        elif workload.algorithm == AUTO:
            found = [one for one in fits(kind, workload.grid).values() if _suits(one, model)]
            if kind in _RINGS and places_of(workload.ranks):
                # Along rows and back: good where cards are missing, so that they make no grid.
                found.append(rings(kind, [snake(workload.ranks)], "snake-ring"))
            if kind is Collective.ALL_REDUCE:
                found += hanging
            if kind is not Collective.ALL_TO_ALL:
                found = [striped(one, planes) for one in found]
            self._schedules = [one for one in found if len(one) * one.ranks * one.part_count <= MOST_MESSAGES]
        else:
            self._schedules = [build(kind, workload.algorithm, workload.grid)]
        if not self._schedules:
            raise WorkloadError(f"workload {workload.name}: no schedule does {kind.value} with so many ranks")

    def ranking(self, size_bytes: int) -> list[Choice]:
        """All schedules that can be had, the one first that should be quickest; hopeless ones are only estimated."""
        found = []
        for one in self._schedules:
            found.append(Choice(one, self._model.estimate(one, size_bytes, self._item_bytes)))
            self._between()
        most_ns = _WORTH * min(one.prediction.time_ns for one in found)
        for number, choice in enumerate(found):
            if choice.prediction.time_ns <= most_ns:
                closer = self._model.predict(choice.schedule, size_bytes, self._item_bytes, self._rounds)
                found[number] = Choice(choice.schedule, closer)
                self._between()
        return sorted(found, key=lambda one: one.prediction.time_ns)
