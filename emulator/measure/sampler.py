"""Counters of interfaces and of the queues in front of them, read at fixed times while workloads run.

A run may be short or long: when a series is full, every second reading is dropped and the interval doubled, so memory
and cost stay bounded and the readings stay evenly spaced, but for the one at the end.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from emulator.errors import EngineError
from emulator.linux.port_counters import PortCounters, PortReader
from emulator.measure.vantage import Vantage
from emulator.measure.worker import Worker
from emulator.results.side import SERIES_FILE, Series, series_to_json
from emulator.units import NS_PER_S


class _Place:
    """The interfaces of one namespace, and queues of theirs, and the socket that reads them."""

    def __init__(self, vantage: Vantage) -> None:
        self.names = (*vantage.interfaces, *vantage.queues)
        with vantage.enter():
            self._reader = PortReader()
            try:
                self._indices = [socket.if_nametoindex(name) for name in vantage.interfaces]
                self._queues = [(socket.if_nametoindex(name), handle) for name, handle in vantage.queues.values()]
            except OSError:
                self._reader.close()
                raise

    def read(self) -> list[PortCounters]:
        """One reading of each, in order."""
        return self._reader.read(self._indices, self._queues)

    def close(self) -> None:
        """Close the socket."""
        self._reader.close()


class Sampler:
    """Reads counters at a fixed interval from its start to its stop; a context manager.

    Args:
        vantages: Interfaces to read.
        interval_ns: From one reading to the next, at first.
        most_readings: Readings that are kept at most beside the last; at least 2, rounded up to an even number.

    Raises:
        EngineError: An interface is missing.
    """

    def __init__(self, vantages: Sequence[Vantage], interval_ns: int, most_readings: int = 1000) -> None:
        if interval_ns < 1 or most_readings < 2:
            raise ValueError("a sampler needs an interval of at least 1 ns and room for at least 2 readings")
        self.interval_ns = interval_ns
        # With an odd number the first reading after a thinning would be only half an interval after the last.
        self._most = most_readings + most_readings % 2
        self._times_ns: list[int] = []
        self._readings: list[list[PortCounters]] = []
        self._places: list[_Place] = []
        self._undo = ExitStack()
        try:
            for vantage in vantages:
                place = _Place(vantage)
                self._undo.callback(place.close)
                self._places.append(place)
        except OSError as error:
            self._undo.close()
            raise EngineError(f"cannot read the counters of {', '.join(vantage.interfaces)}: {error}") from error
        self._worker = Worker("sampler", self._sample)

    def _sample(self) -> int:
        if len(self._times_ns) == self._most:
            del self._times_ns[1::2], self._readings[1::2]
            self.interval_ns *= 2
        self._read()
        return self.interval_ns

    def _read(self) -> None:
        now_ns = time.monotonic_ns()
        self._readings.append([counters for place in self._places for counters in place.read()])
        self._times_ns.append(now_ns)

    def start(self) -> None:
        """Take the first reading now, and go on in the background."""
        self._worker.start()

    def stop(self) -> None:
        """Take a last reading now, and no more.

        Raises:
            EngineError: An interface vanished while it was read.
        """
        error = self._worker.stop()
        try:
            if error is None:
                self._read()
        except OSError as failure:
            error = failure
        finally:
            self._undo.close()
        if error is not None:
            raise EngineError(f"reading counters failed: {error}") from error

    def series(self) -> dict[str, Series]:
        """What was read, by interface and name of queue, in the order of the vantages."""
        names = [name for place in self._places for name in place.names]
        times = tuple(self._times_ns)
        return {
            name: Series(
                times,
                tuple(reading[column].tx_bytes for reading in self._readings),
                tuple(reading[column].queue_packets for reading in self._readings),
            )
            for column, name in enumerate(names)
        }

    def drops(self) -> dict[str, int]:
        """Packets dropped on the way out between the first and the last reading, by interface and queue."""
        names = [name for place in self._places for name in place.names]
        if not self._readings:
            return dict.fromkeys(names, 0)
        first, last = self._readings[0], self._readings[-1]
        return {name: last[column].dropped_packets - first[column].dropped_packets for column, name in enumerate(names)}

    def save(self, folder: Path) -> Path:
        """Write ``series.json`` into a folder and return its path."""
        path = folder / SERIES_FILE
        path.write_text(json.dumps(series_to_json(self.series()), separators=(",", ":")) + "\n", encoding="utf-8")
        return path

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def utilization(series: Series, rate_bps: int, frame_overhead_share: float = 0.0) -> list[tuple[int, float]]:
    """Share of a line's rate that was used between readings, as ``(time in ns at the end, share)``.

    Args:
        series: Readings of the interface in front of the line.
        rate_bps: The line's rate.
        frame_overhead_share: Line overhead (preamble, gap, check sequence) per byte that the interface counts.
    """
    points = []
    for index in range(1, len(series.t_ns)):
        span_ns = series.t_ns[index] - series.t_ns[index - 1]
        if span_ns <= 0:
            continue
        bits = 8 * (series.tx_bytes[index] - series.tx_bytes[index - 1]) * (1 + frame_overhead_share)
        points.append((series.t_ns[index], bits * NS_PER_S / span_ns / rate_bps))
    return points
