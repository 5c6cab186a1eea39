"""What a schedule should take on a fabric: time per step from the longest way and the most loaded link.

A step takes the latency of its slowest transfer plus the time in which the busiest link carries what all transfers put
on it (the α-β model of Hockney, with contention). Latency counts propagation, and for every link but the last the time
in which a full frame is stored and forwarded; a link carries payload at the rate that headers leave of its line rate.
Steps are taken one after the other, as if all ranks waited for the slowest: without faults and noise, schedules whose
steps are alike come close to it. A fabric's switches and hosts are taken to cost nothing but a stated time per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from emulator.collectives.schedule import Collective, Integers, Schedule, Step, chunk_edges
from emulator.errors import ScenarioError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, LinkSpec
from emulator.model.routing import Passage, Routing
from emulator.model.theory import tcp_goodput_bps

Numbers = npt.NDArray[np.float64]

_MOST_KNOWN = 2048
"""Patterns of pairs whose ways are kept."""


@dataclass(frozen=True)
class Prediction:
    """What a schedule should take.

    Attributes:
        time_ns: Altogether.
        latency_ns: The part of it that a buffer of nothing would take, too.
        transfer_ns: The part of it in which links carry data.
        busiest: Name of the link, and its end that sends, that carries most in all steps together.
        busiest_bytes: Payload that it carries.
        algbw: Size by time, in GB/s, as nccl-tests print it.
        busbw: The same as the rate of a link that a perfect schedule would keep busy.
    """

    time_ns: float
    latency_ns: float
    transfer_ns: float
    busiest: str
    busiest_bytes: float
    algbw: float
    busbw: float


def bus_factor(collective: Collective, ranks: int) -> float:
    """Bus bandwidth by algorithm bandwidth, as nccl-tests have it: the least that a rank sends, by the size."""
    if collective is Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    if collective in (Collective.BROADCAST, Collective.REDUCE):
        return 1.0
    return (ranks - 1) / ranks


def bandwidths(collective: Collective, ranks: int, size_bytes: int, time_ns: float) -> tuple[float, float]:
    """Algorithm and bus bandwidth in GB/s, zero for no time.

    Args:
        collective: What was done.
        ranks: By how many.
        size_bytes: Of the buffer, as nccl-tests count it: all ranks' parts together.
        time_ns: How long it took.
    """
    algbw = size_bytes / time_ns if time_ns > 0 else 0.0
    return algbw, algbw * bus_factor(collective, ranks)


def bound_ns(collective: Collective, ranks: int, size_bytes: int, ports: Sequence[LinkSpec]) -> float:
    """The least time for a large buffer: what every rank has to send at least, over all of its ports.

    Args:
        collective: Any but broadcast and reduce, which not every rank sends in.
        ranks: How many.
        size_bytes: Of the buffer.
        ports: A rank's links.
    """
    return bus_factor(collective, ranks) * size_bytes * 8e9 / sum(map(tcp_goodput_bps, ports))


@dataclass(frozen=True)
class _Way:
    """From one rank to another: links with their direction, the share of traffic on each, and a message's latency."""

    passages: Integers
    shares: Numbers
    latency_ns: float


@dataclass(frozen=True)
class _Ways:
    """The same for many pairs of ranks: which pair each passage belongs to, and latencies by pair."""

    passages: Integers
    shares: Numbers
    pairs: Integers
    latencies: Numbers


class CostModel:
    """Predicts times of schedules on one fabric.

    Args:
        routing: Of the fabric.
        nodes: Node of each rank.
        message_ns: Time that every message costs besides the network, in ns.

    Raises:
        ScenarioError: A node has two ranks, or does not exist.
    """

    def __init__(self, routing: Routing, nodes: Sequence[str], message_ns: float = 0.0) -> None:
        unknown = [node for node in nodes if node not in routing.fabric.by_name]
        if unknown or len(set(nodes)) != len(nodes):
            raise ScenarioError(f"there is no node {unknown[0]!r}" if unknown else "a node has two ranks", key="ranks")
        self._routing = routing
        self._nodes = list(nodes)
        self._message_ns = message_ns
        links = routing.fabric.links
        rates = np.array([tcp_goodput_bps(link.spec) for link in links])
        #: Payload bits per ns, for each link one way and the other.
        self._rates = np.repeat(rates, 2) / 1e9
        self._way = lru_cache(maxsize=None)(self._way_between)
        self._known: dict[bytes, _Ways] = {}

    def predict(self, schedule: Schedule, size_bytes: int, item_bytes: int = 4) -> Prediction:
        """What a schedule should take.

        Args:
            schedule: For as many ranks as there are nodes.
            size_bytes: Of the buffer that is reduced, gathered and so on: all ranks' parts together.
            item_bytes: Size of a number, which is not divided.

        Raises:
            ScenarioError: Another number of ranks, or a size of no whole items.
            TopologyError: Two ranks do not reach each other.
        """
        if schedule.ranks != len(self._nodes):
            raise ScenarioError(f"{schedule.name} is for {schedule.ranks} ranks, not {len(self._nodes)}", key="ranks")
        edges = schedule_edges(schedule, size_bytes, item_bytes)
        latency = transfer = 0.0
        carried = np.zeros(len(self._rates))
        for made in schedule:
            step_latency, loads = self._step(made, edges)
            latency += step_latency
            transfer += float((loads * 8 / self._rates).max(initial=0.0))
            carried += loads
        busiest = int(carried.argmax())
        link = self._routing.fabric.links[busiest // 2]
        algbw, busbw = bandwidths(schedule.collective, schedule.ranks, size_bytes, latency + transfer)
        return Prediction(
            time_ns=latency + transfer,
            latency_ns=latency,
            transfer_ns=transfer,
            busiest=f"{link.name} from {link.b if busiest % 2 else link.a}",
            busiest_bytes=float(carried[busiest]),
            algbw=algbw,
            busbw=busbw,
        )

    def link_loads(self, schedule: Schedule, size_bytes: int, item_bytes: int = 4) -> dict[Passage, float]:
        """Payload bytes that every link carries in each direction, in all steps together (see `predict`)."""
        edges = schedule_edges(schedule, size_bytes, item_bytes)
        carried = np.zeros(len(self._rates))
        for made in schedule:
            carried += self._step(made, edges)[1]
        return {
            Passage(int(number) // 2, number % 2 == 0): float(carried[number]) for number in np.flatnonzero(carried)
        }

    def _step(self, made: Step, edges: Integers) -> tuple[float, Numbers]:
        """Latency of a step, and bytes on every link and direction."""
        if not len(made):
            return 0.0, np.zeros(len(self._rates))
        sizes = edges[made.first + made.count] - edges[made.first]
        pairs, which = np.unique(made.source * len(self._nodes) + made.target, return_inverse=True)
        amounts = np.bincount(which, weights=sizes, minlength=len(pairs))
        ways = self._ways_of(pairs)
        loads = np.zeros(len(self._rates))
        np.add.at(loads, ways.passages, ways.shares * amounts[ways.pairs])
        return float(ways.latencies[amounts > 0].max(initial=0.0)), loads

    def _ways_of(self, pairs: Integers) -> _Ways:
        """The ways of all pairs of ranks of a step, which most steps of a schedule have in common."""
        key = pairs.tobytes()
        if key not in self._known:
            found = [self._way(*divmod(pair, len(self._nodes))) for pair in pairs.tolist()]
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = _Ways(
                passages=np.concatenate([way.passages for way in found]),
                shares=np.concatenate([way.shares for way in found]),
                pairs=np.repeat(np.arange(len(found)), [len(way.passages) for way in found]),
                latencies=np.array([way.latency_ns for way in found]),
            )
        return self._known[key]

    def _way_between(self, source: int, target: int) -> _Way:
        shares = self._routing.shares(self._nodes[source], self._nodes[target])
        specs = [
            self._routing.fabric.links[passage.link].spec
            for passage in self._routing.path(self._nodes[source], self._nodes[target])
        ]
        latency = self._message_ns + sum(spec.delay_ns for spec in specs)
        latency += sum(spec.line_time_ns(spec.mtu_bytes + ETHERNET_HEADER_BYTES) for spec in specs[:-1])
        numbers = np.array([2 * passage.link + (not passage.forward) for passage in shares], dtype=np.int64)
        return _Way(numbers, np.array(list(shares.values())), latency)


def schedule_edges(schedule: Schedule, size_bytes: int, item_bytes: int = 4) -> Integers:
    """Where the chunks of a schedule begin, in bytes.

    With all-to-all, every rank has a buffer of the size, so that all chunks together are as many times as large.

    Raises:
        ScenarioError: The size is not a whole number of items.
    """
    if schedule.collective is not Collective.ALL_TO_ALL:
        return chunk_edges(size_bytes, schedule.chunks, item_bytes)
    one = chunk_edges(size_bytes, schedule.ranks, item_bytes)
    starts = np.arange(schedule.ranks, dtype=np.int64)[:, None] * size_bytes + one[None, :-1]
    return np.append(starts.ravel(), schedule.ranks * size_bytes)
