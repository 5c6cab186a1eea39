"""A short form of the benchmark, and the profile file that comes out of it (see ``docs/profiles.md``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console

from emulator.errors import GatewayError
from emulator.scenario.profile_file import load_profile
from tests.bench.dataplane.modes import MODES
from tests.bench.dataplane.rates import SIZES
from tests.bench.dataplane.results import Measured, Results, Spread, grid
from tests.bench.dataplane.run import run

_MODES = ("ip_forwarding", "sockets", "packet_mmap", "af_xdp", "offload", "proxy_copies", "proxy_splice", "haproxy")
_SIZES = (64, 1500, 9000)
_STATIONS = {"gateway": "offload", "router": "ip_forwarding", "compute": "proxy_copies"}
_QUEUE = 4096
_NS_PER_S = 10**9


def _latency(one: Measured, direct: Measured) -> Spread:
    """What the device adds to half a round trip, in ns."""
    pairs = zip(one.delays, direct.delays, strict=False)
    return Spread.of(max(1.0, (with_it.p50 - without.p50) / 2) for with_it, without in pairs)


def _bit_rate(one: Measured) -> Spread:
    size = max(one.rates, default=0)
    if size:
        return Spread.of(8 * SIZES[size] * rates.best.passed_per_s for rates in one.rates[size])
    return Spread.of(8 * stream.bytes_per_s for stream in one.streams)


def cost_fit(costs: dict[int, float]) -> tuple[float, float]:
    """CPU time as so much a packet and so much a byte, neither below zero, by least squares of relative errors.

    With absolute ones the longest packets alone would say what a short one costs.

    Args:
        costs: ns a packet by bytes in its frame, all above zero; at least two.
    """
    sizes, values = np.array(list(costs), float), np.array(list(costs.values()), float)
    slope, start = np.polyfit(sizes, values, 1, w=1 / values)
    if slope < 0:
        return float((1 / values).sum() / (1 / values**2).sum()), 0.0
    if start < 0:
        return 0.0, float((sizes / values).sum() / ((sizes / values) ** 2).sum())
    return float(start), float(slope)


def _spread(spread: Spread, unit: str) -> dict[str, Any]:
    rounded = {"median": round(spread.middle), "low": round(spread.low), "high": round(spread.high)}
    return {name: f"{value} {unit}" for name, value in rounded.items()} if unit else rounded


def _mode(name: str, one: Measured, direct: Measured) -> dict[str, Any]:
    result: dict[str, Any] = {"what": MODES[name].title, "latency": _spread(_latency(one, direct), "ns")}
    if one.rates:
        result["packet_rate"] = _spread(Spread.of(rates.best.passed_per_s for rates in one.rates[64]), "")
    result["bit_rate"] = _spread(_bit_rate(one), "bit/s")
    if one.rates:
        costs = {
            SIZES[size]: max(1.0, Spread.of(r.best.cpu_ns for r in rounds).middle) for size, rounds in one.rates.items()
        }
        packet, byte = cost_fit(costs)
    else:
        packet, byte = 0.0, Spread.of(stream.cpu_ns_per_kib / 1024 for stream in one.streams).middle
    result["packet_cost_ns"], result["byte_cost_ns"] = round(packet, 1), round(byte, 4)
    return result


def profile_of(results: Results) -> dict[str, Any]:
    """The profile file's content.

    Raises:
        GatewayError: A mode that a station needs was not measured.
    """
    modes = {
        name: _mode(name, one, results.direct)
        for name, one in results.modes.items()
        if one.delays and one.streams and (one.rates or not MODES[name].packets)
    }
    missing = [mode for mode in _STATIONS.values() if mode not in modes]
    if missing:
        raise GatewayError(f"no profile without {missing[0]}: {'; '.join(results.failures) or 'it was not measured'}")
    return {
        "profile": "calibrated",
        "title": "measured on this machine: software's costs over veth pairs, one CPU for the device",
        "measured": {**results.machine, "rounds": str(results.rounds), "seconds": str(results.seconds)},
        "modes": modes,
        "stations": {**_STATIONS, "queue": _QUEUE},
    }


def report(rounds: int, seconds: float, out: Path, console: Console, say: Callable[[str], None]) -> int:
    """Measure, write the file, read it back, and show what it says."""
    modes = [MODES[name] for name in _MODES if MODES[name].is_there]
    results = run(modes, rounds, seconds, _SIZES, say)
    content = profile_of(results)
    out.parent.mkdir(parents=True, exist_ok=True)
    head = "# Written by `make calibrate`. Scenarios name it as `profiles: [<this file>]`; see docs/profiles.md.\n"
    out.write_text(head + yaml.safe_dump(content, sort_keys=False, width=120), encoding="utf-8")
    load_profile(out)
    title = f"{out}: medians with the lowest and the highest of {rounds} rounds"
    table = grid(title, ("mode", "latency, us", "million packets/s", "Gbit/s", "CPU ns a packet", "and a byte"))
    for name, mode in content["modes"].items():
        one = results.modes[name]
        rate = Spread.of(r.best.passed_per_s for r in one.rates[64]).show(1e-6, 3) if one.rates else "-"
        latency = _latency(one, results.direct).show(1e-3, 1)
        bits = _bit_rate(one).show(1e-9, 1)
        table.add_row(mode["what"], latency, rate, bits, str(mode["packet_cost_ns"]), str(mode["byte_cost_ns"]))
    console.print(table)
    for text in results.failures:
        console.print(f"failed: {text}", markup=False)
    return 1 if results.failures else 0
