"""The manager of a supernode's fabric: when asked, it looks at all links and sends packets around broken ones."""

from __future__ import annotations

from emulator.model.detour import Detour
from emulator.model.routing import Routing
from emulator.network import Network
from emulator.workloads.context import Repair


class Manager:
    """Repairs the routes of one network whose nodes forward for each other.

    Args:
        network: The network.
        routing: Its routes while all is well.
    """

    def __init__(self, network: Network, routing: Routing) -> None:
        self._network = network
        self._routing = routing

    def repair(self) -> Repair:
        """Install routes around all links that have no carrier now."""
        broken = self._network.broken_links()
        detour = Detour(self._routing, broken) if broken else None
        changed = self._network.take_detour(detour)
        links = self._routing.fabric.links
        return Repair(
            ways=detour or self._routing,
            broken=tuple(links[number].name for number in sorted(broken)),
            cut_off=detour.cut_off if detour else frozenset(),
            routes=changed,
        )
