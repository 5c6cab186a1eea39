"""Which schedule a collective goes by, and what that should take."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.collectives import Collective, Schedule, build, fits
from emulator.collectives.cost import CostModel, Prediction
from emulator.collectives.payload import DATA_TYPES
from emulator.errors import WorkloadError
from emulator.model.workload import CollectiveRun

AUTO = "auto"
MOST_MESSAGES = 1_000_000
"""Schedules of more messages are not chosen: every one costs some tens of microseconds of real time."""


@dataclass(frozen=True)
class Choice:
    """A schedule and its prediction."""

    schedule: Schedule
    prediction: Prediction


class Chooser:
    """Picks the schedule that should be quickest, or predicts the one that is asked for.

    Args:
        workload: What is to be done.
        model: Of the network as it is.
    """

    def __init__(self, workload: CollectiveRun, model: CostModel) -> None:
        kind = Collective(workload.collective)
        self._model = model
        self._item_bytes = DATA_TYPES[workload.datatype].dtype.itemsize
        if workload.algorithm == AUTO:
            self._schedules = [
                one
                for one in fits(kind, workload.grid).values()
                if len(one) * one.ranks <= MOST_MESSAGES or one.ranks == 1
            ]
        else:
            self._schedules = [build(kind, workload.algorithm, workload.grid)]
        if not self._schedules:
            raise WorkloadError(f"workload {workload.name}: no schedule does {kind.value} with so many ranks")

    def ranking(self, size_bytes: int) -> list[Choice]:
        """All schedules that can be had, the one first that should be quickest."""
        found = [Choice(one, self._model.predict(one, size_bytes, self._item_bytes)) for one in self._schedules]
        return sorted(found, key=lambda one: one.prediction.time_ns)
