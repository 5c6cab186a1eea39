"""The ``collective`` workload: sizes one after the other, each with warm-up and repetitions."""

from __future__ import annotations

from emulator.errors import WorkloadError
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model.workload import CollectiveRun
from emulator.results.records import Record
from emulator.units import format_size
from emulator.workloads.collective.choice import Choice, Chooser
from emulator.workloads.collective.figures import Measured, figures
from emulator.workloads.collective.session import Session
from emulator.workloads.context import Context

_PAUSE_NS = 1000


def run(workload: CollectiveRun, context: Context) -> list[Record]:
    """Run the collective at all of its sizes.

    Raises:
        WorkloadError: Ranks cannot reach each other, or a connection broke.
        ScenarioError: A schedule cannot be made for these ranks.
    """
    reset_timer_slack()
    ways = context.ways
    if ways is None:
        raise WorkloadError(f"workload {workload.name}: it is not known where packets go")
    chooser = Chooser(workload, ways, _breathe)
    sizes = workload.sizes_bytes
    measured = []
    with Session(workload, context, ways) as session:
        for number, size in enumerate(sizes):
            ranking = chooser.ranking(size)
            schedule = ranking[0].schedule
            stage = f"{workload.name}: {workload.collective} of {format_size(size)} by {schedule.name}"
            context.progress(stage, number, len(sizes))
            execution = session.prepare(schedule, size, ways, workload.ranks)
            if not number:
                context.await_start(workload.name)
            wrong = execution.run(workload.warm_up).wrong if workload.warm_up else 0
            outcome = execution.run(workload.iterations)
            measured.append(
                Measured(
                    ranking=tuple(ranking),
                    size_bytes=size,
                    time_ns=(max(outcome.ends_ns) - outcome.start_ns) / workload.iterations,
                    first_ns=(min(outcome.ends_ns) - outcome.start_ns) / workload.iterations,
                    wrong=wrong + outcome.wrong,
                )
            )
    return figures(workload, context, measured, _foretold(workload, chooser))


def _foretold(workload: CollectiveRun, chooser: Chooser) -> list[tuple[int, Choice]]:
    """Larger sizes with the schedules that should be quickest."""
    return [(size, chooser.ranking(size)[0]) for size in workload.foretold_bytes]


def _breathe() -> None:
    """Let some emulated time pass: computing takes none, and who watches this machine is to see that it is alive."""
    with Timer() as timer:
        timer.wait(_PAUSE_NS)
