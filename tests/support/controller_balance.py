"""A fabric with steady traffic, for the balancer to act on."""

from __future__ import annotations

import random
from collections import defaultdict

from controller.paths import Paths, Spread, compute
from controller.paths.balance import Balancer, BalanceSettings, Decision
from controller.paths.ways import Pair, Pin, Ways
from emulator.model.fabric import Fabric, FabricBuilder
from tests.support.controller_fabrics import SPEC

SECOND = 10**9


def leaf_pairs(spines: int, hosts: int) -> Fabric:
    """Two leaves under some spines; hosts a0, a1, ... at the first and b0, b1, ... at the second."""
    builder = FabricBuilder("pairs")
    for leaf in range(2):
        builder.add_switch(f"l{leaf}")
    for spine in range(spines):
        builder.add_switch(f"s{spine}", tier=0)
        for leaf in range(2):
            builder.add_link(f"l{leaf}", f"s{spine}", SPEC)
    for index in range(hosts):
        for leaf, letter in enumerate("ab"):
            builder.add_host(f"{letter}{index}", f"10.0.{leaf}.{index + 1}/8")
            builder.add_link(f"{letter}{index}", f"l{leaf}", SPEC)
    return builder.build()


class Plant:
    """Carries demands along pins, else along the plan; where switches hash, along a way drawn once for each pair.

    Attributes:
        demands: Rates in bit/s by pair.
        pins: What is pinned at present.
        both: Counters of both directions are reported.
        late: Decisions take effect a round later.
    """

    def __init__(self, fabric: Fabric, spread: Spread, settings: BalanceSettings | None = None, seed: int = 0) -> None:
        self.paths: Paths = compute(fabric, spread)
        self.ways = Ways(self.paths)
        self.balancer = Balancer(self.paths, settings)
        self.demands: dict[Pair, float] = {}
        self.pins: dict[Pair, Pin] = {}
        self.now_ns = 0
        self.both = True
        self.late = False
        self._next_pins: dict[Pair, Pin] = {}
        self._random = random.Random(seed)
        self._hashed: dict[Pair, tuple[int, ...]] = {}
        self._measured: tuple[Pair, ...] = ()

    def way(self, pair: Pair) -> tuple[int, ...]:
        """The links that a pair's traffic crosses now."""
        if pair in self.pins:
            return self.ways.pinned(self.pins[pair])
        if self.paths.spread is Spread.HOSTS:
            return tuple(self.ways.shares(*pair))
        if pair not in self._hashed:
            self._hashed[pair] = self._random.choice(self.ways.candidates(*pair) or [()])
        return self._hashed[pair]

    def loads(self) -> dict[int, float]:
        """What each link carries, in bit/s."""
        found: dict[int, float] = defaultdict(float)
        for pair, rate in self.demands.items():
            for edge in self.way(pair):
                found[edge] += rate
        return found

    def fullest(self) -> float:
        """The largest utilization."""
        rates = self.paths.layout.graph.rate_bps
        return max((load / int(rates[edge]) for edge, load in self.loads().items()), default=0.0)

    def round(self, passed_ns: int = SECOND) -> Decision:
        """Let time pass and let the balancer see it; what it decides takes effect at once."""
        self.now_ns += passed_ns
        graph = self.paths.layout.graph
        sent: dict[tuple[str, int], int] = defaultdict(int)
        received: dict[tuple[str, int], int] = defaultdict(int)
        for edge, load in self.loads().items():
            sent[graph.switches[graph.source[edge]], int(graph.port[edge])] += round(load * passed_ns / 8e9)
        for (source, target), rate in self.demands.items():
            count = round(rate * passed_ns / 8e9)
            start, end = (self.paths.attachments[host] for host in (source, target))
            received[start.switch, start.port] += count
            sent[end.switch, end.port] += count
        rates = {pair: self.demands.get(pair, 0.0) for pair in self._measured}
        decision = self.balancer.round(self.now_ns, sent, rates, received if self.both else None)
        self._measured = decision.measure
        decided = {pin.pair: pin for pin in decision.pins}
        self.pins, self._next_pins = (self._next_pins if self.late else decided), decided
        return decision
