"""Runs workloads that start together, with the faults that strike meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from emulator.errors import WorkloadError
from emulator.experiment.faults import FaultDriver
from emulator.model.workload import Workload
from emulator.results import Record
from emulator.results.events import WorkloadSpan
from emulator.workloads import Context, run
from emulator.workloads.context import Occasion


class Start:
    """The common start of some workloads: each says when it is ready, and all are told when it is.

    Args:
        count: How many there are.
        driver: Its faults count from the start.
    """

    def __init__(self, count: int, driver: FaultDriver) -> None:
        self._barrier = threading.Barrier(count, action=self._decide)
        self._driver = driver
        self._lead_ns = 0
        self.start_ns = 0

    def begin(self, workload: str, lead_ns: int) -> int:
        """Wait for the others and return the start, CLOCK_MONOTONIC.

        Raises:
            WorkloadError: Another one failed before.
        """
        self._lead_ns = max(self._lead_ns, lead_ns)
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            raise WorkloadError(f"workload {workload}: one that it was to start with failed") from None
        return self.start_ns

    def _decide(self) -> None:
        self.start_ns = time.monotonic_ns() + self._lead_ns
        self._driver.begin(self.start_ns)

    def give_up(self) -> None:
        """Let nobody wait for one that failed."""
        self._barrier.abort()


def run_together(
    group: Sequence[Workload], context: Context, driver: FaultDriver
) -> tuple[list[Record], list[WorkloadSpan]]:
    """Run workloads that start together, each to its end; returns all figures and when each ran.

    Args:
        group: The workloads.
        context: The cell.
        driver: The faults that strike meanwhile.

    Raises:
        WorkloadError: One failed; the others have ended too.
    """
    start = Start(len(group), driver)
    occasion = Occasion(
        tuple(workload.name for workload in group), start.begin, driver.happened, faults=len(driver.faults)
    )
    context.occasion = occasion
    records: dict[str, list[Record]] = {}
    ends_ns: dict[str, int] = {}
    errors: list[BaseException] = []

    def run_one(workload: Workload) -> None:
        try:
            records[workload.name] = run(workload, context)
            ends_ns[workload.name] = time.monotonic_ns()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that waits
            errors.append(error)
            start.give_up()

    threads = [threading.Thread(target=run_one, args=(one,), name=one.name, daemon=True) for one in group[1:]]
    for thread in threads:
        thread.start()
    run_one(group[0])
    for thread in threads:
        thread.join()
    context.occasion = Occasion()
    if errors:
        raise errors[0]
    spans = [WorkloadSpan(one.name, start.start_ns, ends_ns[one.name]) for one in group]
    return [record for one in group for record in records[one.name]], spans
