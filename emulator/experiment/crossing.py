"""Claim G09 from counters: the storage bytes that crossed general compute nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from controller.client import ControllerClient
from emulator.model.fabric import Fabric, Role
from emulator.model.workload import Checkpoint, NvmeIo, Workload
from emulator.results import Kind, Record
from emulator.scenario import Cell

FABRIC_WORKLOAD = "fabric"
_SOURCE = "OpenFlow port counters of the switches, difference over the storage workloads"


class ComputeCrossings:
    """Sums, over the storage workloads of a cell, what switches sent to general compute nodes and to storage nodes.

    Args:
        cell: The cell.
        fabric: What it runs on.
        client: Its controller; None: there are no switches, and nothing is counted.
    """

    def __init__(self, cell: Cell, fabric: Fabric, client: ControllerClient | None) -> None:
        self._cell = cell
        self._client = client if fabric.with_role(Role.COMPUTE) and fabric.with_role(Role.STORAGE) else None
        self.crossed_bytes: int | None = None
        self._stored_bytes = 0

    @contextmanager
    def during(self, group: Sequence[Workload]) -> Iterator[None]:
        """Count while workloads run that start together, if all are of storage: ports cannot tell bytes apart."""
        if self._client is None or not all(isinstance(workload, (NvmeIo, Checkpoint)) for workload in group):
            yield
            return
        before = self._client.counters()["roles"]
        yield
        after = self._client.counters()["roles"]
        # What a switch sends to a compute node enters it; each crossing byte does so once.
        entered = _difference(before, after, Role.COMPUTE, "to_bytes")
        self.crossed_bytes = (self.crossed_bytes or 0) + entered
        for counter in ("to_bytes", "from_bytes"):
            self._stored_bytes += _difference(before, after, Role.STORAGE, counter)

    def records(self) -> list[Record]:
        """The sums as records; none if nothing was counted."""
        if self.crossed_bytes is None:
            return []
        figures = {"storage_bytes_through_compute": self.crossed_bytes, "storage_bytes": self._stored_bytes}
        return [
            Record(self._cell.scenario, self._cell.variant, FABRIC_WORKLOAD, metric, value, "B", Kind.MEASURED, _SOURCE)
            for metric, value in figures.items()
        ]


def _difference(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], role: Role, counter: str) -> int:
    return after[role.value][counter] - before[role.value][counter]
