"""Rounds of all measurements, one mode after the other in each, so that what changes on the machine meets them all."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from emulator.errors import EmulatorError
from tests.bench.dataplane.bed import DIRECT_IP, Cpus, bench
from tests.bench.dataplane.connections import measure_delays, measure_stream, peer
from tests.bench.dataplane.modes import Mode
from tests.bench.dataplane.rates import MTUS, SIZES, measure_alone, measure_rates
from tests.bench.dataplane.results import Measured, Results

TRIPS = 5000
_STREAM_MTU = 1500


def run(
    modes: Sequence[Mode],
    rounds: int,
    seconds: float,
    sizes: Sequence[int] = tuple(SIZES),
    say: Callable[[str], None] = lambda _: None,
) -> Results:
    """Measure everything.

    Args:
        modes: What is measured.
        rounds: How often.
        seconds: Of each rate and stream.
        sizes: Of packets.
        say: Is told what goes on.
    """
    cpus = Cpus.of_this_machine()
    results = Results(rounds, seconds, {mode.name: Measured() for mode in modes}, load=[os.getloadavg()[0]])
    for number in range(rounds):
        _alone(cpus, results, sizes, seconds)
        for mode in modes:
            began = time.monotonic()
            one = results.modes[mode.name]
            try:
                if mode.packets:
                    _rates(cpus, mode, one, sizes, seconds)
                if not mode.rates_only:
                    _connections(cpus, mode, one, seconds)
            except EmulatorError as error:
                one.failures.append(f"round {number + 1}: {error}")
            say(f"round {number + 1} of {rounds}: {mode.name} ({time.monotonic() - began:.0f} s)")
        _direct(cpus, results.direct, seconds)
    return results


def _by_mtu(sizes: Sequence[int]) -> list[tuple[int, list[int]]]:
    wanted = [(mtu, [size for size in some if size in sizes]) for mtu, some in MTUS.items()]
    return [(mtu, some) for mtu, some in wanted if some]


def _rates(cpus: Cpus, mode: Mode, one: Measured, sizes: Sequence[int], seconds: float) -> None:
    for mtu, some in _by_mtu(sizes):
        with (
            tempfile.TemporaryDirectory(prefix="icgw-bench-") as folder,
            bench(cpus, mtu, coalesced=True) as built,
            mode.start(built, Path(folder)) as running,
        ):
            for size in some:
                one.rates.setdefault(size, []).append(measure_rates(built, mode, running, size, seconds))


def _alone(cpus: Cpus, results: Results, sizes: Sequence[int], seconds: float) -> None:
    for mtu, some in _by_mtu(sizes):
        with bench(cpus, mtu, coalesced=True) as built:
            for size in some:
                results.alone.setdefault(size, []).append(measure_alone(built, size, seconds))


def _connections(cpus: Cpus, mode: Mode, one: Measured, seconds: float) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="icgw-bench-") as folder,
        bench(cpus, _STREAM_MTU, coalesced=False) as built,
        peer(built),
        mode.start(built, Path(folder)) as running,
    ):
        one.delays.append(measure_delays(built, running.target_ip, TRIPS))
        one.streams.append(measure_stream(built, running.target_ip, seconds))


def _direct(cpus: Cpus, one: Measured, seconds: float) -> None:
    with bench(cpus, _STREAM_MTU, coalesced=False) as built, peer(built):
        one.delays.append(measure_delays(built, DIRECT_IP, TRIPS))
        one.streams.append(measure_stream(built, DIRECT_IP, seconds))
