"""The manager of a supernode's fabric: when asked, it looks at all links and sends packets around broken ones.

As InfiniBand's subnet manager does, it knows the whole fabric, and changes tables from the outside. How long it takes
until it looks is up to whoever asks: a job that misses messages, or the driver of faults after a stated delay. A job
whose messages stay away though no carrier does has it look more closely.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from emulator.model.detour import Detour
from emulator.model.routing import Routing
from emulator.network import Network
from emulator.workloads.context import Repair


@dataclass(frozen=True)
class Rerouted:
    """A time at which the manager changed routes.

    Attributes:
        at_ns: When it looked, CLOCK_MONOTONIC.
        done_ns: When every node had its new routes.
        routes: Lines of tables that changed.
    """

    at_ns: int
    done_ns: int
    routes: int


class Manager:
    """Repairs the routes of one network whose nodes forward for each other; may be asked from several threads.

    Args:
        network: The network.
        routing: Its routes while all is well.

    Attributes:
        rerouted: What it changed so far.
    """

    def __init__(self, network: Network, routing: Routing) -> None:
        self._network = network
        self._routing = routing
        self._lock = threading.Lock()
        self.rerouted: list[Rerouted] = []

    def repair(self, *, closely: bool = False) -> Repair:
        """Install routes around all links that have no carrier now.

        Args:
            closely: Also send frames over all links before, and turn those off over which nothing passes.

        Raises:
            LinkError: A kernel refused a route.
        """
        links = self._routing.fabric.links
        with self._lock:
            at_ns = time.monotonic_ns()
            if closely:
                for number in sorted(self._network.silent_links()):
                    self._network.disable(links[number].name)
            broken = self._network.broken_links()
            detour = Detour(self._routing, broken) if broken else None
            changed = self._network.take_detour(detour)
            if changed:
                self.rerouted.append(Rerouted(at_ns, time.monotonic_ns(), changed))
        return Repair(
            ways=detour or self._routing,
            broken=tuple(links[number].name for number in sorted(broken)),
            cut_off=detour.cut_off if detour else frozenset(),
            routes=changed,
        )
