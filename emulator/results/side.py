"""What a cell leaves beside its records: series of interfaces, distributions of workloads, counters of ports.

Each is a JSON file in ``cells/<n>/``: ``series.json``, ``distributions.json``, ``counters.json``; docs/formats.md shows
them. The classes here read and write them, and refuse what does not hold together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

from emulator.errors import ScenarioError
from emulator.model.distribution import Distribution
from emulator.results.events import Events

SERIES_FILE = "series.json"
DISTRIBUTIONS_FILE = "distributions.json"
WORKLOAD_DISTRIBUTIONS = "distributions-*.json"
COUNTERS_FILE = "counters.json"


@dataclass(frozen=True)
class Series:
    """Samples of one interface.

    Attributes:
        t_ns: Emulated time of each sample, ascending.
        tx_bytes: Bytes sent since the interface was made, at each sample.
        backlog_packets: Packets that waited for the line, at each sample.
    """

    t_ns: tuple[int, ...]
    tx_bytes: tuple[int, ...]
    backlog_packets: tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """All values of one metric of one workload, with their unit."""

    unit: str
    sample: Distribution

    def ccdf(self) -> list[tuple[float, float]]:
        """Points ``(value, share of values that are at least this)``, smallest value first."""
        size = self.sample.size
        below = accumulate(self.sample.counts, initial=0)
        return [(value, (size - before) / size) for value, before in zip(self.sample.values, below, strict=False)]


@dataclass(frozen=True)
class ClassCounters:
    """Counters of the queue of one class of traffic, in bytes and packets, over the whole cell."""

    name: str
    tx_bytes: int
    tx_packets: int
    drops: int


@dataclass(frozen=True)
class PortCounters:
    """Counters of one port, in bytes and packets, over the whole cell; of its queues where it has several."""

    node: str
    interface: str
    tx_bytes: int
    rx_bytes: int
    tx_packets: int
    rx_packets: int
    drops: int = 0
    classes: tuple[ClassCounters, ...] = ()


@dataclass(frozen=True)
class Counters:
    """Counters of a cell.

    Attributes:
        ports: Of every port of hosts and switches.
        storage_bytes_through_compute: Bytes of storage traffic that crossed general compute nodes; None: not counted.
    """

    ports: tuple[PortCounters, ...] = ()
    storage_bytes_through_compute: int | None = None

    def tx_by_interface(self) -> dict[str, PortCounters]:
        """Counters by interface name."""
        return {port.interface: port for port in self.ports}


Distributions = Mapping[str, Mapping[str, Measured]]
"""By workload, then metric."""


@dataclass(frozen=True)
class Side:
    """Everything beside the records of one cell; a part that was not recorded is empty or None."""

    series: Mapping[str, Series] = field(default_factory=dict)
    distributions: Distributions = field(default_factory=dict)
    counters: Counters | None = None
    events: Events = field(default_factory=Events)


def series_to_json(series: Mapping[str, Series]) -> dict[str, Any]:
    """``series.json`` as an object."""
    return {
        "interfaces": {name: {key: list(value) for key, value in asdict(one).items()} for name, one in series.items()}
    }


def series_from_json(data: Any, file: str) -> dict[str, Series]:
    """Read ``series.json``.

    Raises:
        ScenarioError: It is not what `series_to_json` writes; names file and key.
    """
    result = {}
    for name, entry in _mapping(_get(data, "interfaces", file, ""), file, "interfaces").items():
        key = f"interfaces.{name}"
        columns = [
            _integers(_get(entry, column, file, key), file, f"{key}.{column}") for column in Series.__annotations__
        ]
        if len({len(column) for column in columns}) > 1:
            raise ScenarioError("its columns differ in length", file=file, key=key)
        if any(later < earlier for earlier, later in zip(columns[0], columns[0][1:], strict=False)):
            raise ScenarioError("does not ascend", file=file, key=f"{key}.t_ns")
        result[name] = Series(*columns)
    return result


def distributions_to_json(distributions: Distributions) -> dict[str, Any]:
    """``distributions.json`` as an object."""
    return {
        workload: {metric: {"unit": one.unit, **one.sample.as_json()} for metric, one in metrics.items()}
        for workload, metrics in distributions.items()
    }


def distributions_from_json(data: Any, file: str) -> dict[str, dict[str, Measured]]:
    """Read ``distributions.json``: by workload and metric, values with or without counts, or a histogram of pairs.

    Raises:
        ScenarioError: It is neither; names file and key.
    """
    return {
        workload: {
            metric: _measured(entry, file, f"{workload}.{metric}")
            for metric, entry in _mapping(metrics, file, workload).items()
        }
        for workload, metrics in _mapping(data, file, "").items()
    }


def workload_distributions_from_json(data: Any, file: str) -> dict[str, dict[str, Measured]]:
    """Read ``distributions-<workload>.json``, the same for one workload: a list of metrics.

    Raises:
        ScenarioError: It is not that; names file and key.
    """
    workload = _get(data, "workload", file, "")
    entries = _list(_get(data, "distributions", file, ""), file, "distributions")
    result = {}
    for index, entry in enumerate(entries):
        key = f"distributions[{index}]"
        result[str(_get(entry, "metric", file, key))] = _measured(entry, file, key)
    return {str(workload): result}


def _measured(entry: Any, file: str, key: str) -> Measured:
    unit = _get(entry, "unit", file, key)
    if not isinstance(unit, str):
        raise ScenarioError(f"{unit!r} is not text", file=file, key=f"{key}.unit")
    counts: Counter[int] = Counter()
    for value, count in _pairs(entry, file, key):
        if not _number(value) or not _integer(count) or count < 1:
            raise ScenarioError(f"{value!r} seen {count!r} times is not part of a distribution", file=file, key=key)
        counts[value] += count
    if not counts:
        raise ScenarioError("is empty", file=file, key=key)
    values = sorted(counts)
    return Measured(unit, Distribution(tuple(values), tuple(counts[value] for value in values)))


def _pairs(entry: dict[str, Any], file: str, key: str) -> Iterator[tuple[Any, Any]]:
    if "histogram" in entry:
        for pair in _list(entry["histogram"], file, f"{key}.histogram"):
            if not (isinstance(pair, list) and len(pair) == 2):
                raise ScenarioError(f"{pair!r} is not [value, count]", file=file, key=f"{key}.histogram")
            yield pair[0], pair[1]
        return
    values = _list(_get(entry, "values", file, key), file, f"{key}.values")
    counts = _list(entry.get("counts", [1] * len(values)), file, f"{key}.counts")
    if len(values) != len(counts):
        raise ScenarioError("its values and counts differ in number", file=file, key=key)
    yield from zip(values, counts, strict=True)


def counters_to_json(counters: Counters) -> dict[str, Any]:
    """``counters.json`` as an object."""
    return {
        "ports": [_port_to_json(port) for port in counters.ports],
        "storage_bytes_through_compute": counters.storage_bytes_through_compute,
    }


def _port_to_json(port: PortCounters) -> dict[str, Any]:
    entry = asdict(port)
    if not port.classes:
        del entry["classes"]
    return entry


def counters_from_json(data: Any, file: str) -> Counters:
    """Read ``counters.json``.

    Raises:
        ScenarioError: It is not what `counters_to_json` writes; names file and key.
    """
    ports = []
    for index, entry in enumerate(_list(_get(data, "ports", file, ""), file, "ports")):
        try:
            port = _port(_mapping(entry, file, f"ports[{index}]"), file, f"ports[{index}]")
        except TypeError:
            raise ScenarioError(
                f"a port has the keys {', '.join(PortCounters.__annotations__)}", file=file, key=f"ports[{index}]"
            ) from None
        rows = [{key: value for key, value in asdict(port).items() if key != "classes"}, *map(asdict, port.classes)]
        for row in rows:
            names = [row.pop(key) for key in ("node", "interface", "name") if key in row]
            if not all(isinstance(name, str) for name in names) or not all(map(_integer, row.values())):
                raise ScenarioError("names are text and counters whole numbers", file=file, key=f"ports[{index}]")
        ports.append(port)
    crossed = data.get("storage_bytes_through_compute")
    if crossed is not None and not _integer(crossed):
        raise ScenarioError(f"{crossed!r} is not a whole number", file=file, key="storage_bytes_through_compute")
    return Counters(tuple(ports), crossed)


def _port(entry: dict[str, Any], file: str, key: str) -> PortCounters:
    classes = []
    for index, one in enumerate(_list(entry.get("classes", []), file, f"{key}.classes")):
        try:
            classes.append(ClassCounters(**_mapping(one, file, f"{key}.classes[{index}]")))
        except TypeError:
            raise ScenarioError(
                f"a class has the keys {', '.join(ClassCounters.__annotations__)}",
                file=file,
                key=f"{key}.classes[{index}]",
            ) from None
    return PortCounters(**{**entry, "classes": tuple(classes)})


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mapping(value: Any, file: str, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScenarioError("a JSON object is expected", file=file, key=key or None)
    return value


def _list(value: Any, file: str, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ScenarioError("a JSON list is expected", file=file, key=key or None)
    return value


def _get(data: Any, name: str, file: str, key: str) -> Any:
    if name not in _mapping(data, file, key):
        raise ScenarioError(f"has no {name!r}", file=file, key=key or None)
    return data[name]


def _integers(value: Any, file: str, key: str) -> tuple[int, ...]:
    items = _list(value, file, key)
    if not all(_integer(item) for item in items):
        raise ScenarioError("is not a list of whole numbers", file=file, key=key)
    return tuple(items)
