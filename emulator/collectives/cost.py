"""What a schedule should take on a fabric: when each rank gets what each step brings it.

A message begins when its sender has what the steps before brought it, in the same strand (see `messages`). It takes the
latency of its way and the time in which the busiest link on it carries what messages of the same step and part put
there, once the link is through with earlier ones (the α-β model of Hockney, with contention). Latency counts
propagation, and for every link but the last the time in which a message's first frame is stored and forwarded; a link
carries every frame with its headers. What arrives to be added up waits for the receiving card, which adds up one after
the other. A fabric's switches and hosts are taken to cost nothing but a stated time per message; acknowledgements are
not counted, and bytes are spread evenly over equal paths, as many flows are.

`CostModel.estimate` goes from step to step and takes little time. `CostModel.predict` follows every message in the
order of time (`follow`), which is what ranks do: those that have what they need go on, and get out of step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from emulator.collectives.clocks import Burst, Clocks
from emulator.collectives.courses import Course, courses_of
from emulator.collectives.follow import Costs, follow, pieces_of
from emulator.collectives.messages import Messages, messages_of, stages_of
from emulator.collectives.schedule import Collective, Integers, Schedule, chunk_edges
from emulator.collectives.ways import Numbers, WayFinder, Ways
from emulator.errors import ScenarioError
from emulator.model.fabric import LinkSpec
from emulator.model.routing import Passage
from emulator.model.theory import tcp_goodput_bps

MOST_FOLLOWED = 200_000
"""Most messages, or pieces of them, that are followed: each costs some ten microseconds of computing."""

_ROUNDS_FOLLOWED = 3
"""Rounds after which each takes as long as the one before, or nearly so."""


@dataclass(frozen=True)
class Prediction:
    """What a schedule should take.

    Attributes:
        time_ns: Altogether; of rounds that follow each other, the mean.
        latency_ns: The part of it that a buffer of nothing would take, too.
        transfer_ns: The rest, in which links carry data, or cards add up what arrived.
        busiest: Name of the link, and its end that sends, that carries most in all steps together.
        busiest_bytes: Payload that it carries.
        algbw: Size by time, in GB/s, as nccl-tests print it.
        busbw: The same as the rate of a link that a perfect schedule would keep busy.
        followed: Whether every message was followed; else the model went from step to step.
        again_ns: What each further round adds, of rounds that follow each other; else the same as `time_ns`.
    """

    time_ns: float
    latency_ns: float
    transfer_ns: float
    busiest: str
    busiest_bytes: float
    algbw: float
    busbw: float
    followed: bool
    again_ns: float


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


class CostModel:
    """Predicts times of schedules on one fabric.

    Args:
        routing: Of the fabric.
        nodes: Node of each rank.
        message_ns: Time that every message costs its sender besides the network, in ns, of all ranks or of each.
        reduce_bps: Rate at which a rank adds up what arrives, in bit/s, of all ranks or of each; 0: it takes no time.
        chunk_bytes: A sender handles a message in chunks of this size, each of which costs it that time; 0: whole.
        window_bytes: What a connection may have under way; 0: there is no limit.

    Raises:
        ScenarioError: A node has two ranks, or does not exist.
    """

    def __init__(
        self,
        routing: Ways,
        nodes: Sequence[str],
        message_ns: npt.ArrayLike = 0.0,
        reduce_bps: npt.ArrayLike = 0.0,
        chunk_bytes: npt.ArrayLike = 0.0,
        window_bytes: int = 0,
    ) -> None:
        self._window_bytes = window_bytes
        unknown = [node for node in nodes if node not in routing.fabric.by_name]
        if unknown or len(set(nodes)) != len(nodes):
            raise ScenarioError(f"there is no node {unknown[0]!r}" if unknown else "a node has two ranks", key="ranks")
        self._routing = routing
        self._nodes = list(nodes)
        self._message_ns = np.broadcast_to(np.asarray(message_ns, dtype=np.float64), len(nodes))
        self._chunk_bytes = np.broadcast_to(np.asarray(chunk_bytes, dtype=np.float64), len(nodes))
        rates_bps = np.broadcast_to(np.asarray(reduce_bps, dtype=np.float64), len(nodes))
        #: Time to add up a byte, by rank.
        self._adding_ns = np.divide(8e9, rates_bps, out=np.zeros(len(nodes)), where=rates_bps > 0)
        rates = np.array([link.spec.rate_bps for link in routing.fabric.links])
        #: Bytes per ns, for each link one way and the other.
        self._rates = np.repeat(rates, 2) / 8e9
        self._ways = WayFinder(routing, nodes)
        self._compiled: dict[int, tuple[Schedule, Messages]] = {}

    def predict(self, schedule: Schedule, size_bytes: int, item_bytes: int = 4, rounds: int = 1) -> Prediction:
        """What a schedule should take, all messages followed if they are not too many (`MOST_FOLLOWED`).

        Args:
            schedule: For as many ranks as there are nodes.
            size_bytes: Of the buffer that is reduced, gathered and so on: all ranks' parts together.
            item_bytes: Size of a number, which is not divided.
            rounds: How often in a row, each rank beginning a round as soon as it is through with the one before.

        Raises:
            ScenarioError: Another number of ranks, or a size of no whole items.
            TopologyError: Two ranks do not reach each other.
        """
        estimate = self.estimate(schedule, size_bytes, item_bytes)
        messages, sizes = self._messages(schedule, size_bytes, item_bytes)
        pieces = int(pieces_of(sizes, self._window_bytes).sum())
        if not 0 < pieces <= MOST_FOLLOWED:
            return estimate
        few = max(1, min(rounds, _ROUNDS_FOLLOWED, MOST_FOLLOWED // pieces))
        ends_ns = follow(messages, stages_of(messages), self._costs(schedule, messages, sizes), few)
        again_ns = (ends_ns[-1] - ends_ns[0]) / (few - 1) if few > 1 else ends_ns[0]
        time_ns = (ends_ns[-1] + (rounds - few) * again_ns) / rounds
        algbw, busbw = bandwidths(schedule.collective, schedule.ranks, size_bytes, time_ns)
        return replace(
            estimate,
            time_ns=time_ns,
            transfer_ns=time_ns - estimate.latency_ns,
            algbw=algbw,
            busbw=busbw,
            followed=True,
            again_ns=again_ns,
        )

    def estimate(self, schedule: Schedule, size_bytes: int, item_bytes: int = 4) -> Prediction:
        """About what a schedule should take, step by step; see `predict`."""
        if schedule.ranks != len(self._nodes):
            raise ScenarioError(f"{schedule.name} is for {schedule.ranks} ranks, not {len(self._nodes)}", key="ranks")
        messages, sizes = self._messages(schedule, size_bytes, item_bytes)
        whole, latency = Clocks(messages, self._rates), Clocks(messages, None)
        carried = np.zeros(len(self._rates))
        for burst, payload in self._bursts(schedule, messages, sizes):
            carried += payload
            latency.advance(burst)
            whole.advance(burst)
        busiest = int(carried.argmax())
        link = self._routing.fabric.links[busiest // 2]
        algbw, busbw = bandwidths(schedule.collective, schedule.ranks, size_bytes, whole.end_ns)
        return Prediction(
            time_ns=whole.end_ns,
            latency_ns=latency.end_ns,
            transfer_ns=whole.end_ns - latency.end_ns,
            busiest=f"{link.name} from {link.b if busiest % 2 else link.a}",
            busiest_bytes=float(carried[busiest]),
            algbw=algbw,
            busbw=busbw,
            followed=False,
            again_ns=whole.end_ns,
        )

    def links_between(self, source: int, target: int) -> int:
        """Links that a message from one rank to another crosses."""
        return len(self._routing.path(self._nodes[source], self._nodes[target]))

    def link_loads(self, schedule: Schedule, size_bytes: int, item_bytes: int = 4) -> dict[Passage, float]:
        """Payload bytes that every link carries in each direction, in all steps together (see `predict`)."""
        messages, sizes = self._messages(schedule, size_bytes, item_bytes)
        carried = np.zeros(len(self._rates))
        for _, payload in self._bursts(schedule, messages, sizes):
            carried += payload
        return {
            Passage(int(number) // 2, number % 2 == 0): float(carried[number]) for number in np.flatnonzero(carried)
        }

    def _messages(self, schedule: Schedule, size_bytes: int, item_bytes: int) -> tuple[Messages, Integers]:
        """Messages and their sizes; all sizes of buffers with something in every chunk have the same messages."""
        edges = schedule_edges(schedule, size_bytes, item_bytes)
        if (np.diff(edges) == 0).any():
            messages = messages_of(schedule, edges)
        else:
            if id(schedule) not in self._compiled:
                self._compiled[id(schedule)] = (schedule, messages_of(schedule, edges))
            messages = self._compiled[id(schedule)][1]
        return messages, messages.sizes(edges)

    def _preparing_ns(self, source: Integers, size: Integers) -> Numbers:
        """What messages cost their senders."""
        chunk = self._chunk_bytes[source]
        whole = np.ones(len(source))
        return self._message_ns[source] * np.ceil(np.divide(size, chunk, out=whole, where=chunk > 0))

    def _costs(self, schedule: Schedule, messages: Messages, sizes: Integers) -> Costs:
        """What each message costs, for following it."""
        found: dict[int, Course] = {}
        stripe = np.array([schedule.stripe_of(part) for _, _, part in messages.connections])
        pairs = np.array([source * len(self._nodes) + target for source, target, _ in messages.connections])
        for one in range(schedule.stripes):
            numbers = np.flatnonzero(stripe == one)
            if len(numbers):
                ways = self._ways.table(pairs[numbers], one, schedule.stripes)
                sources = [self._nodes[messages.connections[number][0]] for number in numbers.tolist()]
                made = courses_of(ways, sources, self._routing.fabric.links)
                found |= dict(zip(numbers.tolist(), made, strict=True))
        courses = [found[number] for number in range(len(messages.connections))]
        payload = np.array([course.payload_bytes for course in courses])[messages.connection]
        around = np.array([course.around_bytes for course in courses])[messages.connection]
        return Costs(
            courses=courses,
            rates=self._rates,
            frame=np.minimum(sizes, payload) + around,
            carried=sizes + np.ceil(sizes / payload) * around,
            prepare_ns=self._preparing_ns(messages.source, sizes),
            compute_ns=np.where(messages.reduce, sizes * self._adding_ns[messages.target], 0.0),
            pieces=pieces_of(sizes, self._window_bytes),
        )

    def _bursts(self, schedule: Schedule, messages: Messages, sizes: Integers) -> Iterator[tuple[Burst, Numbers]]:
        """Messages by step and part, with the payload that every link carries in each direction."""
        ranks = len(self._nodes)
        part = np.array([part for _, _, part in messages.connections], dtype=np.int64)[messages.connection]
        order = np.lexsort((messages.target, messages.source, part, messages.step))
        keys = messages.step[order] * (int(part.max(initial=0)) + 1) + part[order]
        for numbers in np.split(order, np.flatnonzero(np.diff(keys)) + 1):
            if not len(numbers):
                continue
            source, target, size = messages.source[numbers], messages.target[numbers], sizes[numbers]
            stripe = schedule.stripe_of(int(part[numbers[0]]))
            ways = self._ways.table(source * ranks + target, stripe, schedule.stripes)
            first = np.minimum(size, ways.payload_bytes) + ways.around_bytes
            burst = Burst(
                numbers=numbers,
                source=source,
                target=target,
                ways=ways,
                latency_ns=self._preparing_ns(source, size) + ways.delays_ns + first * ways.forward_ns,
                carried=size + np.ceil(size / ways.payload_bytes) * ways.around_bytes,
                compute_ns=np.where(messages.reduce[numbers], size * self._adding_ns[target], 0.0),
            )
            weights = ways.shares * size[ways.pairs]
            yield burst, np.bincount(ways.passages, weights=weights, minlength=len(self._rates)).astype(np.float64)


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
