"""The ``collective_job`` workload: round after round, while something breaks, and while cards join and leave.

When nothing arrives any more, the job gives its connections up and asks the fabric's manager, who looks at all links
and sends packets around broken ones. Ranks that are cut off are left out, the rest gets the schedule that should be
quickest on what is there now, and does the round again from its inputs, which are whole. Cards that join or leave do so
between two rounds: connections of the new set are opened while the old ones stand.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from emulator.collectives.grid import grid_of
from emulator.collectives.ways import Ways, together
from emulator.errors import ScenarioError, TopologyError, WorkloadError
from emulator.linux.timer import Timer, reset_timer_slack
from emulator.model.workload import CollectiveJob
from emulator.results.records import Record
from emulator.workloads.collective.choice import AUTO, Choice, Chooser
from emulator.workloads.collective.execution import Execution
from emulator.workloads.collective.job_figures import Era, Interruption, figures
from emulator.workloads.collective.session import Session
from emulator.workloads.context import Context

_MOST_REPAIRS = 100
_FEWEST = 2
"""Ranks without which a job makes no sense any more."""


@dataclass
class _State:
    """Where a job stands."""

    names: tuple[str, ...]
    ways: Ways
    choice: Choice
    execution: Execution


def run(workload: CollectiveJob, context: Context) -> list[Record]:
    """Run the job to its end.

    Raises:
        WorkloadError: Ranks cannot reach each other, or something broke that the fabric's manager does not see.
    """
    reset_timer_slack()
    if context.ways is None:
        raise WorkloadError(f"workload {workload.name}: it is not known where packets go")
    with Session(workload, context, context.ways) as session:
        return _Job(workload, context, session, context.ways).run()


class _Job:
    def __init__(self, workload: CollectiveJob, context: Context, session: Session, ways: Ways) -> None:
        self._workload, self._context, self._session = workload, context, session
        later = {name for _, joins, _ in workload.changes for name in joins}
        names = tuple(name for name in workload.ranks if name not in later)
        self._eras: list[Era] = []
        self._interruptions: list[Interruption] = []
        self._lost: set[str] = set()
        #: Links without carrier when the fabric was last repaired.
        self._broken: tuple[str, ...] = ()
        self._wrong = 0
        self._state = self._prepared(names, ways)

    def run(self) -> list[Record]:
        workload = self._workload
        start_ns = self._context.await_start(workload.name)
        changes = list(workload.changes)
        done = 0
        while done < workload.rounds:
            if changes and changes[0][0] <= done:
                _, joins, leaves = changes.pop(0)
                self._change({*self._state.names, *joins} - {*leaves}, joins)
            until = min([workload.rounds, *(after for after, _, _ in changes[:1])])
            self._context.progress(f"{workload.name}: {len(self._state.names)} ranks", done, workload.rounds)
            done += self._rounds(until - done)
        return figures(workload, self._context, start_ns, self._eras, self._interruptions, self._wrong)

    def _prepared(self, names: Sequence[str], ways: Ways, *, keep: bool = False) -> _State:
        """Connect ranks for the schedule that should be quickest among them."""
        size_bytes = self._workload.size_bytes
        here = replace(self._workload, ranks=tuple(names), shape=grid_of(names))
        try:
            choice = Chooser(here, ways).ranking(size_bytes)[0]
        except (ScenarioError, WorkloadError):
            # What was asked for is not for so many ranks, or not for these.
            choice = Chooser(replace(here, algorithm=AUTO), ways).ranking(size_bytes)[0]
        execution = self._session.prepare(choice.schedule, size_bytes, ways, names, keep=keep)
        return _State(tuple(names), ways, choice, execution)

    def _regrouped(self, names: Sequence[str], ways: Ways, *, keep: bool = False) -> _State:
        """Connect those of some ranks that reach each other, the others being left out from now on.

        Raises:
            TopologyError: Hardly anybody is left.
        """
        try:
            state = self._prepared(names, ways, keep=keep)
        except TopologyError:
            left = together(ways, names)
            if len(left) < _FEWEST:
                raise
            self._lost |= set(names) - set(left)
            state = self._prepared(left, ways, keep=keep)
        return state

    def _change(self, members: Collection[str], joins: Sequence[str]) -> None:
        """Go on with other members; who joins may be cut off by now, which the fabric's manager knows.

        Raises:
            WorkloadError: Hardly anybody is left.
        """
        ways = self._state.ways
        if joins and self._context.repair is not None:
            repair = self._context.repair()
            ways = repair.ways
            self._lost |= repair.cut_off & set(members)
        names = [name for name in self._workload.ranks if name in members and name not in self._lost]
        if len(names) < _FEWEST:
            raise WorkloadError(f"workload {self._workload.name}: of those who are to go on, hardly anybody is left")
        self._state = self._regrouped(names, ways, keep=True)

    def _rounds(self, count: int) -> int:
        """Do rounds until they are over, or something breaks; returns how many were done."""
        state = self._state
        began_ns = time.monotonic_ns()
        broken: WorkloadError | None = None
        try:
            self._wrong += state.execution.run(count, self._workload.detect_ns).wrong
        except WorkloadError as error:
            self._wrong += state.execution.wrong
            broken = error
        ends = tuple(state.execution.round_ends_ns)
        self._eras.append(
            Era(state.names, state.choice.schedule.name, state.choice.prediction.again_ns, began_ns, ends)
        )
        if broken is not None:
            self._repair(broken)
        return len(ends)

    def _repair(self, error: WorkloadError) -> None:
        """Have the fabric repaired and go on with whom can be reached.

        Raises:
            WorkloadError: Nothing is broken that anybody sees, or hardly anybody is left.
        """
        detected_ns = time.monotonic_ns()
        if self._context.repair is None or len(self._interruptions) >= _MOST_REPAIRS:
            raise error
        self._session.disconnect()
        repair = self._context.repair()
        if repair.broken == self._broken:
            # Whatever keeps messages away has carrier.
            repair = self._context.repair(closely=True)
        if not repair.broken:
            raise error
        self._broken = repair.broken
        with Timer() as timer:
            timer.wait(self._workload.react_ns)
        self._lost |= repair.cut_off & set(self._state.names)
        names = [name for name in self._state.names if name not in self._lost]
        if len(names) < _FEWEST:
            raise error
        try:
            self._state = self._regrouped(names, repair.ways)
        except TopologyError:
            raise error from None
        self._interruptions.append(
            Interruption(detected_ns, time.monotonic_ns(), len(self._eras), repair.broken, repair.routes)
        )
