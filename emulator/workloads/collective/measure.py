"""The ``collective`` workload: sizes one after the other, each with warm-up and repetitions."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import psutil

from emulator.collectives.cost import CostModel, schedule_edges
from emulator.collectives.messages import Connection, messages_of, stages_of
from emulator.collectives.payload import DATA_TYPES, payload
from emulator.collectives.schedule import Schedule
from emulator.collectives.ways import Ways, planes_of, stripe_address
from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux import sysctl
from emulator.linux.timer import reset_timer_slack
from emulator.model.workload import CollectiveRun
from emulator.results.records import Record
from emulator.rng import derive
from emulator.units import format_size
from emulator.workloads.collective.buffers import Buffers
from emulator.workloads.collective.choice import Choice, Chooser
from emulator.workloads.collective.execution import Execution
from emulator.workloads.collective.figures import Measured, figures
from emulator.workloads.collective.links import Links, opened
from emulator.workloads.collective.work import CardModel, Work
from emulator.workloads.context import Context
from emulator.workloads.tcp_settings import applied, output_limit_bytes

_log = logging.getLogger(__name__)


def run(workload: CollectiveRun, context: Context) -> list[Record]:
    """Run the collective at all of its sizes.

    Raises:
        WorkloadError: Ranks cannot reach each other, or a connection broke.
        ScenarioError: A schedule cannot be made for these ranks.
    """
    reset_timer_slack()
    if context.ways is None:
        raise WorkloadError(f"workload {workload.name}: it is not known where packets go")
    model = CostModel(context.ways, workload.ranks, workload.message_ns, workload.reduce_bps)
    chooser = Chooser(workload, model, planes_of(context.ways, workload.ranks))
    sizes = workload.sizes_bytes
    measured = []
    with _Machine(workload, context, context.ways) as machine:
        for number, size in enumerate(sizes):
            ranking = chooser.ranking(size)
            name = ranking[0].schedule.name
            context.progress(
                f"{workload.name}: {workload.collective} of {format_size(size)} by {name}", number, len(sizes)
            )
            measured.append(machine.measure(ranking, size))
    foretold = [(size, chooser.ranking(size)[0]) for size in workload.foretold_bytes]
    return figures(workload, context, measured, foretold)


class _Machine:
    """The ranks, with connections that are kept from one size to the next while the schedule is the same."""

    def __init__(self, workload: CollectiveRun, context: Context, ways: Ways) -> None:
        self._workload, self._context, self._ways = workload, context, ways
        self._hosts = [context.host(name, workload.name) for name in workload.ranks]
        self._undo = ExitStack()
        self._opened = ExitStack()
        self._connections: tuple[Connection, ...] | None = None
        self._started = False

    def __enter__(self) -> _Machine:
        try:
            self._undo.enter_context(_room_for_buffers(self._workload.name))
            for host in self._hosts:
                self._undo.enter_context(applied(host, self._settings(host), self._workload.name))
            card = CardModel(self._workload.reduce_bps // 8 or None, self._workload.message_ns)
            self._work = Work([card] * len(self._hosts))
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        self._undo.close()

    def _settings(self, host: HostHandle) -> dict[str, str]:
        """What Linux's defaults are too small for, or would forget between one message and the next."""
        specs = [link.spec for link in self._ways.fabric.links_of(host.name)]
        return {
            "net.ipv4.tcp_limit_output_bytes": str(max(map(output_limit_bytes, specs))),
            "net.ipv4.tcp_slow_start_after_idle": "0",
            "net.ipv4.tcp_no_metrics_save": "1",
            "net.ipv4.tcp_ecn": "1" if self._workload.congestion == "dctcp" else "0",
        }

    def measure(self, ranking: Sequence[Choice], size_bytes: int) -> Measured:
        """Do one size by the first of some schedules."""
        workload, chosen = self._workload, ranking[0]
        schedule = chosen.schedule
        item_bytes = DATA_TYPES[workload.datatype].dtype.itemsize
        edges = schedule_edges(schedule, size_bytes, item_bytes)
        seed = derive(self._context.seed, "collective", workload.name, size_bytes)
        numbers = payload(schedule, edges, workload.datatype, workload.operation, seed)
        messages = messages_of(schedule, edges)
        buffers = Buffers(schedule, messages, edges // item_bytes, numbers)
        execution = Execution(
            messages,
            stages_of(messages),
            buffers,
            self._links(schedule, messages.connections),
            self._work,
            workload.buffer_bytes,
            workload.ranks,
            workload.name,
        )
        if not self._started:
            self._started = True
            self._context.await_start(workload.name)
        wrong = execution.run(workload.warm_up).wrong if workload.warm_up else 0
        outcome = execution.run(workload.iterations)
        return Measured(
            ranking=tuple(ranking),
            size_bytes=size_bytes,
            time_ns=(max(outcome.ends_ns) - outcome.start_ns) / workload.iterations,
            first_ns=(min(outcome.ends_ns) - outcome.start_ns) / workload.iterations,
            wrong=wrong + outcome.wrong,
        )

    def _links(self, schedule: Schedule, connections: tuple[Connection, ...]) -> Links:
        if connections != self._connections:
            self._opened.close()
            workload, ways = self._workload, self._ways

            def address(rank: int, part: int) -> str:
                return str(stripe_address(ways, workload.ranks[rank], schedule.stripe_of(part), schedule.stripes))

            self._current = self._opened.enter_context(
                opened(self._hosts, connections, workload.congestion, workload.buffer_bytes, workload.name, address)
            )
            self._connections = connections
        return self._current


@contextmanager
def _room_for_buffers(what: str) -> Iterator[None]:
    """While this lasts, TCP may use all memory of the machine.

    By default Linux leaves it a sixteenth, and makes all windows smaller when that is used up: hundreds of hosts in one
    kernel would slow each other down, which separate machines would not.
    """
    pages = psutil.virtual_memory().total // resource.getpagesize()
    try:
        before = sysctl.write({"net.ipv4.tcp_mem": f"{pages} {pages} {pages}"})
    except OSError:
        before = {}
        _log.warning("workload %s: TCP's memory cannot be set: large messages may be slower than they should be", what)
    try:
        yield
    finally:
        sysctl.write(before)
