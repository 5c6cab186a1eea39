"""What workloads run with: the hosts, the paths between them, where records and side files go."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Protocol

from emulator.collectives.ways import Ways
from emulator.engine.host import HostHandle
from emulator.errors import WorkloadError
from emulator.linux.timer import Timer
from emulator.model.distribution import Distribution
from emulator.model.fabric import LinkSpec
from emulator.model.fault import Happened
from emulator.model.profile import Profile, StationModel
from emulator.model.workload import Workload
from emulator.results.records import Kind, Record
from emulator.workloads.storage import Storage

DISTRIBUTION_POINTS = 2000
"""Most distinct values in a distribution file."""

_FIRST_PORT = 41_001


def _at_once(_workload: str, lead_ns: int) -> int:
    return time.monotonic_ns() + lead_ns


@dataclass(frozen=True)
class Occasion:
    """What happens around a workload while it runs.

    Attributes:
        names: Workloads that start together, itself included.
        begin: Is told that a workload is ready and how long before its start it must know of it, in ns; waits for the
            others and returns the common start, CLOCK_MONOTONIC.
        happened: The faults so far, in order.
        faults: How many there will be.
    """

    names: tuple[str, ...] = ()
    begin: Callable[[str, int], int] = _at_once
    happened: Callable[[], Sequence[Happened]] = tuple
    faults: int = 0


@dataclass(frozen=True)
class Repair:
    """What the manager of a fabric found and did.

    Attributes:
        ways: Where packets go now.
        broken: Names of links without carrier.
        cut_off: Hosts all of whose links are broken.
        routes: Routes that were changed.
    """

    ways: Ways
    broken: tuple[str, ...] = ()
    cut_off: frozenset[str] = frozenset()
    routes: int = 0


class RepairCall(Protocol):
    """Has a fabric's manager send packets around what is broken."""

    def __call__(self, *, closely: bool = False) -> Repair:
        """Look for links without carrier, or also, closely, for those over which nothing passes; see `Repair`."""
        ...


def _no_stations(_source: str, _target: str) -> Sequence[StationModel]:
    return ()


@dataclass
class Context:
    """One cell of an experiment: a running fabric under one variant of a scenario.

    A context manager: on the way out, volumes and everything else that workloads share is removed.

    Attributes:
        scenario: Name of the scenario.
        variant: Which of its variants.
        hosts: Running hosts by name.
        path: The links from one host to another, in order.
        profile: The cost models of this variant.
        seed: The scenario's seed.
        work_dir: Existing folder for side files (distributions).
        progress: Is told stage, done and total.
        occasion: What happens around the workloads that run now.
        stations: The gateway and forwarding stations that packets from one host to another cross; predictions need
            them.
        ways: The fabric and the links that packets cross, for predictions of many flows at once; None: not known.
        repair: Has the fabric's manager send packets around what is broken; None: there is nobody who could.
    """

    scenario: str
    variant: str
    hosts: Mapping[str, HostHandle]
    path: Callable[[str, str], Sequence[LinkSpec]]
    profile: Profile
    seed: int
    work_dir: Path
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None
    stations: Callable[[str, str], Sequence[StationModel]] = _no_stations
    occasion: Occasion = field(default_factory=Occasion)
    ways: Ways | None = None
    repair: RepairCall | None = None
    _undo: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _ports: Iterator[int] = field(default_factory=lambda: count(_FIRST_PORT), init=False, repr=False)

    def host(self, name: str, workload: str) -> HostHandle:
        """Look a host up.

        Raises:
            WorkloadError: There is none of that name.
        """
        try:
            return self.hosts[name]
        except KeyError:
            raise WorkloadError(f"workload {workload}: there is no host {name!r}") from None

    def start(self, workload: str, lead_ns: int = 0) -> int:
        """Tell that a workload is ready, and return the moment at which it starts (CLOCK_MONOTONIC, ns).

        Every workload calls this or `await_start` exactly once: faults are counted from there, and workloads that run
        together start there.

        Args:
            workload: Its name.
            lead_ns: How long before its start it must know when that is.

        Raises:
            WorkloadError: Another one, with which it was to start, failed.
        """
        return self.occasion.begin(workload, lead_ns)

    def await_start(self, workload: str) -> int:
        """As `start`, but return only when it has come."""
        start_ns = self.start(workload)
        if start_ns > time.monotonic_ns():
            with Timer() as timer:
                timer.wait_until(start_ns)
        return start_ns

    def fresh_port(self) -> int:
        """A client port that no flow of this cell has used: a used one stays blocked for a minute (TIME_WAIT)."""
        return next(self._ports)

    @cached_property
    def storage(self) -> Storage:
        """Volumes of this cell; made when first asked for."""
        return self._undo.enter_context(Storage(self.profile.media))

    def close(self) -> None:
        """Remove what workloads share."""
        self._undo.close()
        self.__dict__.pop("storage", None)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Findings:
    """Collects the records of one workload.

    Attributes:
        context: The cell.
        workload: The workload.
        records: What was found so far.
    """

    context: Context
    workload: Workload
    records: list[Record] = field(default_factory=list)
    _distributions: list[dict[str, object]] = field(default_factory=list)

    def _add(self, metric: str, value: float, unit: str, kind: Kind, source: str) -> None:
        context = self.context
        # Thousandths of a nanosecond or of a bit/s mean nothing; ratios keep nine digits.
        rounded = value if isinstance(value, int) else round(value, 9 if unit == "1" else 3)
        self.records.append(
            Record(context.scenario, context.variant, self.workload.name, metric, rounded, unit, kind, source)
        )

    def measured(self, metric: str, value: float, unit: str, source: str) -> None:
        """Add a figure that came out of packets."""
        self._add(metric, value, unit, Kind.MEASURED, source)

    def modelled(self, metric: str, value: float, unit: str, source: str) -> None:
        """Add a stated input, or a consequence of one."""
        self._add(metric, value, unit, Kind.MODELLED, source)

    def theory(self, metric: str, value: float, unit: str, source: str) -> None:
        """Add the value of a closed form."""
        self._add(metric, value, unit, Kind.THEORY, source)

    def distribution(self, metric: str, unit: str, sample: Distribution) -> None:
        """Keep a distribution for the report's plots; written by `save`."""
        drawn = sample.at_most(DISTRIBUTION_POINTS)
        self._distributions.append({"metric": metric, "unit": unit, **drawn.as_json()})

    def save(self) -> None:
        """Write ``distributions-<workload>.json`` if there is anything to write."""
        if not self._distributions:
            return
        content = {
            "scenario": self.context.scenario,
            "variant": self.context.variant,
            "workload": self.workload.name,
            "distributions": self._distributions,
        }
        path = self.context.work_dir / f"distributions-{self.workload.name}.json"
        path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
