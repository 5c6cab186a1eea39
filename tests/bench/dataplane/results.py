"""What a run measured: kept as plain data, summed up, and shown."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.dataplane.connections import Delays, Stream
from tests.bench.dataplane.modes import MODES
from tests.bench.dataplane.rates import SIZES, Rate, Rates
from tests.bench.table import spread

REFERENCE = "ip_forwarding"
BOUND = 0.85
"""Of a CPU: a device that was less busy could have done more than it was given."""


@dataclass(frozen=True)
class Spread:
    """A figure over the rounds."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Minimum, median and maximum."""
        return cls(*spread(list(values)))

    def show(self, scale: float = 1, digits: int = 2) -> str:
        """The median, with the others behind it."""
        low, middle, high = (f"{value * scale:.{digits}f}" for value in (self.low, self.middle, self.high))
        return f"{middle} [dim]{low}-{high}[/]"


@dataclass
class Measured:
    """One mode, or the hosts without a device.

    Attributes:
        rates: By size of packets, one a round.
        delays, streams: One a round.
        failures: What went wrong.
    """

    rates: dict[int, list[Rates]] = field(default_factory=dict)
    delays: list[Delays] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def best(self, size: int, what: Callable[[Rate], float]) -> Spread | None:
        """A figure at the best rate."""
        rounds = self.rates.get(size)
        return Spread.of(what(one.best) for one in rounds) if rounds else None

    def is_bound(self, size: int) -> bool:
        """Whether it was the device that could not do more, in most rounds."""
        busy = self.best(size, lambda rate: rate.busy)
        return busy is not None and busy.middle >= BOUND

    def delay(self, what: Callable[[Delays], float]) -> Spread | None:
        """A round-trip time."""
        return Spread.of(map(what, self.delays)) if self.delays else None

    def stream(self, what: Callable[[Stream], float]) -> Spread | None:
        """A figure of the streams."""
        return Spread.of(map(what, self.streams)) if self.streams else None


@dataclass
class Results:
    """A whole run.

    Attributes:
        rounds, seconds: How often, and how long each measurement took.
        modes: By name.
        direct: The hosts joined without a device.
        alone: Packets/s that reach the device when it only drops them, by size.
        load: Load averages of the machine (1 minute) before each run.
        machine: What it ran on.
    """

    rounds: int
    seconds: float
    modes: dict[str, Measured] = field(default_factory=dict)
    direct: Measured = field(default_factory=Measured)
    alone: dict[int, list[float]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=lambda: this_machine())

    @property
    def failures(self) -> list[str]:
        """All that went wrong."""
        return [f"{name}: {text}" for name, one in self.modes.items() for text in one.failures]

    def as_json(self) -> dict[str, Any]:
        """Everything, every round."""
        return asdict(self)


def this_machine() -> dict[str, str]:
    """What it ran on."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    virtual = "hypervisor" in Path("/proc/cpuinfo").read_text()
    return {
        "cpu": model + (" (virtual machine)" if virtual else ""),
        "cpus": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _ratio(one: Spread | None, other: Spread | None) -> str:
    return "" if one is None or other is None or not other.middle else f" x{one.middle / other.middle:.2f}"


def show(results: Results, console: Console, *, markdown: bool = False) -> None:
    """Print the tables; as the documents have them, if that is wanted."""
    host = results.machine
    load = ", ".join(f"{load:.1f}" for load in results.load) or "unknown"
    text = (
        f"{host['cpu']}, {host['cpus']} CPUs, Linux {host['kernel']}, Python {host['python']}, load before it {load}:"
        f" medians of {results.rounds} rounds of {results.seconds} s with the lowest and the highest;"
        " x: the ratio to the kernel's IP forwarding; >: the device was not busy all the time, so what makes and counts"
        " the packets was the limit"
    )
    tables = _rates(results), _costs(results), _connections(results)
    if markdown:
        sys.stdout.write("\n".join([f"{text}.\n", *map(as_markdown, tables)]))
    else:
        console.print(text, highlight=False)
        for table in tables:
            console.print(table)
    for text in results.failures:
        console.print(f"[red]failed:[/] {text}", markup=True, highlight=False)


def as_markdown(table: Table) -> str:
    """The same table, for documents. Ranges are in brackets, the title is above the names."""
    rows = list(zip(*(list(map(_plain, column.cells)) for column in table.columns), strict=True))
    heads = [str(table.title), *(str(column.header) for column in table.columns[1:])]
    rules = ["---", *["---:"] * (len(heads) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, rules, *rows])


def _plain(cell: object) -> str:
    return Text.from_markup(re.sub(r"\[dim\](.*?)\[/\]", r"(\1)", str(cell))).plain


def grid(title: str, heads: Iterable[str]) -> Table:
    """A table of figures, each row with its name at the left."""
    table = Table(title=title, title_justify="left")
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left")
    return table


def _title(name: str) -> str:
    return MODES[name].title


def _rates(results: Results) -> Table:
    table = grid("thousand packets/s", ["", *(f"{size} B" for size in SIZES)])
    reference = results.modes.get(REFERENCE, Measured())
    alone = [Spread.of(results.alone[size]).show(1e-3, 0) if results.alone.get(size) else "-" for size in SIZES]
    table.add_row("[i]the generator alone, dropped at the device[/]", *alone)
    for name, one in results.modes.items():
        if MODES[name].packets:
            cells = []
            for size in SIZES:
                best = one.best(size, lambda rate: rate.passed_per_s)
                other = reference.best(size, lambda rate: rate.passed_per_s)
                bound = "" if one.is_bound(size) else " >"
                cells.append("-" if best is None else best.show(1e-3, 0) + _ratio(best, other) + bound)
            table.add_row(_title(name), *cells)
    return table


def _costs(results: Results) -> Table:
    table = grid("CPU time of the device, ns a packet", ["", *(f"{size} B" for size in SIZES)])
    reference = results.modes.get(REFERENCE, Measured())
    for name, one in results.modes.items():
        if MODES[name].packets:
            cells = []
            for size in SIZES:
                cost = one.best(size, lambda rate: rate.cpu_ns)
                other = reference.best(size, lambda rate: rate.cpu_ns)
                cells.append("-" if cost is None else cost.show(1, 0) + _ratio(cost, other))
            table.add_row(_title(name), *cells)
    return table


def _connections(results: Results) -> Table:
    heads = ["", "RTT p50, us", "p99", "p99.9", "MB/s", "CPU ns a KiB"]
    table = grid("TCP: round trips of 64 bytes, and one stream", heads)
    reference = results.modes.get(REFERENCE, Measured())
    for title, one in [
        ("[i]no device: the hosts joined directly, on one CPU[/]", results.direct),
        *((_title(name), one) for name, one in results.modes.items() if not MODES[name].rates_only),
    ]:
        cells = []
        for what in (lambda it: it.p50, lambda it: it.p99, lambda it: it.p999):
            delay = one.delay(what)
            cells.append("-" if delay is None else delay.show(1e-3, 1) + _ratio(delay, reference.delay(what)))
        rate, cost = one.stream(lambda it: it.bytes_per_s), one.stream(lambda it: it.cpu_ns_per_kib)
        cells.append(
            "-" if rate is None else rate.show(1e-6, 0) + _ratio(rate, reference.stream(lambda it: it.bytes_per_s))
        )
        cells.append("-" if not cost or not cost.middle else cost.show(1, 0))
        table.add_row(title, *cells)
    return table
