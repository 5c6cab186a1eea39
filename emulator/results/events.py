"""What happened when in a cell: workloads, faults, and packets of probes lost over time.

``events.json`` and ``probe-<workload>.json`` in ``cells/<n>/``; docs/formats.md shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from emulator.errors import ScenarioError
from emulator.model.fault import Happened

EVENTS_FILE = "events.json"
PROBE_SERIES = "probe-*.json"


def probe_series_file(workload: str) -> str:
    """Name of the file of a probe workload."""
    return f"probe-{workload}.json"


@dataclass(frozen=True)
class WorkloadSpan:
    """When a workload ran, by the emulated clock.

    Attributes:
        name: Of the workload.
        start_ns: Its start; faults count from there.
        end_ns: When its figures were there.
    """

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class FaultMark:
    """A fault that was carried out.

    Attributes:
        during: Workload that it belongs to.
        number: Its place among the faults of that workload and those that run with it, from 0; figures carry it.
        title: In words: ``cut la1-spa1``.
        at_ns: When, by the emulated clock.
        done_ns: When the network had done it.
        repairs: Whether it made something whole again.
    """

    during: str
    number: int
    title: str
    at_ns: int
    done_ns: int
    repairs: bool


def fault_marks(happened: Sequence[Happened]) -> tuple[FaultMark, ...]:
    """Marks of the faults of one occasion, in order."""
    return tuple(
        FaultMark(one.fault.during, number, one.fault.title, one.at_ns, one.done_ns, one.fault.action.repairs)
        for number, one in enumerate(happened)
    )


@dataclass(frozen=True)
class ProbeSeries:
    """Packets of a probe workload by the time at which they were sent.

    Attributes:
        start_ns: Start of the first stretch.
        bin_ns: Length of each.
        sent, lost: Packets of each.
    """

    start_ns: int
    bin_ns: int
    sent: tuple[int, ...]
    lost: tuple[int, ...]

    def as_json(self, workload: str) -> dict[str, Any]:
        """The file's content."""
        return {"workload": workload, **asdict(self)}


@dataclass(frozen=True)
class Events:
    """What happened in a cell."""

    workloads: tuple[WorkloadSpan, ...] = ()
    faults: tuple[FaultMark, ...] = ()
    probes: dict[str, ProbeSeries] = field(default_factory=dict)


class Happenings:
    """Collects what happens in a cell, for ``events.json``."""

    def __init__(self) -> None:
        self._workloads: list[WorkloadSpan] = []
        self._faults: list[FaultMark] = []

    def add(self, workloads: Sequence[WorkloadSpan], happened: Sequence[Happened]) -> None:
        """Add workloads that started together, and the faults that struck meanwhile."""
        self._workloads += workloads
        self._faults += fault_marks(happened)

    @property
    def workloads(self) -> Sequence[WorkloadSpan]:
        """When workloads ran, in order."""
        return self._workloads

    def as_json(self) -> dict[str, Any]:
        """The file's content."""
        return {"workloads": [asdict(one) for one in self._workloads], "faults": [asdict(one) for one in self._faults]}


def events_from_json(data: Any, file: str) -> Events:
    """Read ``events.json``.

    Raises:
        ScenarioError: It is not what `Happenings.as_json` gives.
    """
    try:
        return Events(
            tuple(_checked(WorkloadSpan, entry) for entry in data["workloads"]),
            tuple(_checked(FaultMark, entry) for entry in data["faults"]),
        )
    except (TypeError, ValueError, LookupError) as error:
        raise ScenarioError(f"does not say what happened: {error!r}", file=file) from None


def probe_series_from_json(data: Any, file: str) -> tuple[str, ProbeSeries]:
    """Read ``probe-<workload>.json``: the workload's name and its series.

    Raises:
        ScenarioError: It is not what `ProbeSeries.as_json` gives.
    """
    try:
        sent, lost = (tuple(map(_whole, data[key])) for key in ("sent", "lost"))
        series = ProbeSeries(_whole(data["start_ns"]), _whole(data["bin_ns"]), sent, lost)
        if len(sent) != len(lost) or series.bin_ns < 1:
            raise ValueError("its columns differ in length, or it has no bins")
        return str(data["workload"]), series
    except (TypeError, ValueError, LookupError) as error:
        raise ScenarioError(f"is not a series of probes: {error!r}", file=file) from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _checked(cls: Any, entry: Any) -> Any:
    """One entry, if its keys and the types of their values are those of the class."""
    made = cls(**entry)
    for name, kind in cls.__annotations__.items():
        if type(getattr(made, name)).__name__ != kind:
            raise ValueError(f"{name} is {getattr(made, name)!r}")
    return made
