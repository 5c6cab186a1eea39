"""Ranks on hosts that are ready for a collective: settings, connections, and what is carried out over them."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import psutil

from emulator.collectives.cost import schedule_edges
from emulator.collectives.messages import Connection, messages_of, stages_of
from emulator.collectives.payload import DATA_TYPES, payload
from emulator.collectives.schedule import Schedule
from emulator.collectives.ways import Ways, stripe_addresses
from emulator.engine.host import HostHandle
from emulator.linux import sysctl
from emulator.model.workload import Collectives
from emulator.rng import derive
from emulator.workloads.collective.buffers import Buffers
from emulator.workloads.collective.cards import cards_of
from emulator.workloads.collective.execution import Execution
from emulator.workloads.collective.links import Links, opened
from emulator.workloads.collective.work import Work
from emulator.workloads.context import Context
from emulator.workloads.tcp_settings import applied, output_limit_bytes

_log = logging.getLogger(__name__)


class Session:
    """Hosts with the settings of a workload; connections are kept while the schedule and its ranks stay the same.

    A context manager.

    Args:
        workload: What is to be done; all hosts that take part at any time are its ranks.
        context: Where.
        ways: Of the fabric.
    """

    def __init__(self, workload: Collectives, context: Context, ways: Ways) -> None:
        self._workload, self._context = workload, context
        self._fabric = ways.fabric
        self._hosts = {name: context.host(name, workload.name) for name in workload.ranks}
        self._undo = ExitStack()
        self._opened = ExitStack()
        self._known: tuple[object, ...] = ()
        self._links: Links | None = None
        self._generation = 0

    def __enter__(self) -> Session:
        try:
            self._undo.enter_context(_room_for_buffers(self._workload.name))
            for host in self._hosts.values():
                self._undo.enter_context(applied(host, self._settings(host), self._workload.name))
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()
        self._undo.close()

    def _settings(self, host: HostHandle) -> dict[str, str]:
        """What Linux's defaults are too small for, or would forget between one message and the next."""
        specs = [link.spec for link in self._fabric.links_of(host.name)]
        return {
            "net.ipv4.tcp_limit_output_bytes": str(max(map(output_limit_bytes, specs))),
            "net.ipv4.tcp_slow_start_after_idle": "0",
            "net.ipv4.tcp_no_metrics_save": "1",
            "net.ipv4.tcp_ecn": "1" if self._workload.congestion == "dctcp" else "0",
        }

    def disconnect(self) -> None:
        """Close all connections."""
        self._opened.close()
        self._known = ()

    def prepare(
        self, schedule: Schedule, size_bytes: int, ways: Ways, names: Sequence[str], *, keep: bool = False
    ) -> Execution:
        """Connect ranks and give them their numbers.

        Args:
            schedule: What they are to do.
            size_bytes: Of the buffer.
            ways: Where packets go now.
            names: Hosts by rank, some or all of the workload's.
            keep: Open new connections before old ones are closed.

        Raises:
            WorkloadError: One cannot reach another.
        """
        workload = self._workload
        item_bytes = DATA_TYPES[workload.datatype].dtype.itemsize
        edges = schedule_edges(schedule, size_bytes, item_bytes)
        seed = derive(self._context.seed, "collective", workload.name, size_bytes)
        windows = [workload.ranks.index(name) for name in names]
        numbers = payload(schedule, edges, workload.datatype, workload.operation, seed, windows)
        messages = messages_of(schedule, edges)
        return Execution(
            messages,
            stages_of(messages),
            Buffers(schedule, messages, edges // item_bytes, numbers),
            self._connect(schedule, messages.connections, ways, names, keep),
            Work(cards_of(workload, names)),
            workload.buffer_bytes,
            names,
            workload.name,
        )

    def _connect(
        self, schedule: Schedule, connections: tuple[Connection, ...], ways: Ways, names: Sequence[str], keep: bool
    ) -> Links:
        known = (connections, tuple(names), schedule.stripes, schedule.part_count)
        if self._links is None or known != self._known:
            if not keep:
                self.disconnect()
            workload = self._workload

            def addresses(connection: Connection) -> tuple[str, str]:
                source, target, part = connection
                stripe = schedule.stripe_of(part)
                near, far = stripe_addresses(ways, names[source], names[target], stripe, schedule.stripes)
                return str(near), str(far)

            hosts = [self._hosts[name] for name in names]
            fresh = ExitStack()
            self._generation += 1
            self._links = fresh.enter_context(
                opened(
                    hosts, connections, workload.congestion, workload.buffer_bytes, workload.name, addresses,
                    self._generation % 2,
                )
            )  # fmt: skip
            self.disconnect()
            self._opened = fresh
            self._known = known
        return self._links


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
