"""What the controller's balancer did while workloads ran: how often it moved a flow, and how soon."""

from __future__ import annotations

import time
from collections.abc import Iterable

from controller.client import ControllerClient
from emulator.experiment.crossing import FABRIC_WORKLOAD
from emulator.results import Kind, Record
from emulator.results.events import WorkloadSpan
from emulator.scenario import Cell

_SOURCE = "the controller's journal"


def balance_records(cell: Cell, client: ControllerClient | None, spans: Iterable[WorkloadSpan]) -> list[Record]:
    """Figures of the balancer; none if it is not on.

    Args:
        cell: The cell.
        client: Its controller; None: there are no switches.
        spans: When workloads ran.

    Raises:
        ControllerError: The controller does not answer.
    """
    if client is None or not cell.control.balance_ns:
        return []
    # The journal has times of day, workloads have those of the monotonic clock.
    ahead_ns = time.time_ns() - time.monotonic_ns()
    moved_ns = [time_ns - ahead_ns for time_ns in _moves(client)]

    def record(metric: str, value: int, unit: str, source: str) -> Record:
        return Record(cell.scenario, cell.variant, FABRIC_WORKLOAD, metric, value, unit, Kind.MEASURED, source)

    records = [record("balance_moves", len(moved_ns), "1", f"{_SOURCE}; flows moved, whole cell")]
    started_ns = [span.start_ns for span in spans if moved_ns and span.start_ns <= moved_ns[0]]
    if started_ns:
        source = f"{_SOURCE}; from the start of the workload that ran to the first move"
        records.append(record("balance_first_move", moved_ns[0] - max(started_ns), "ns", source))
    return records


def _moves(client: ControllerClient) -> list[int]:
    """When flows were moved, in ns since 1970."""
    found: list[int] = []
    after = 0
    while True:
        page = client.get("/v1/events", kind="balance", after=after)
        if not page["events"]:
            return found
        found += [event["time_ns"] for event in page["events"]]
        after = page["events"][-1]["number"]
