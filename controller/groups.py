"""The groups of a fabric's switches: one for each switch that packets go to, and each plane that differs there.

Rules point to groups by destination, and a failure changes groups only. A group repairs locally, without the
controller, as long as one of its ports is up: its ports all lead one link nearer to the target, so whichever are alive,
no packet ever comes back. Where no such port is left, packets are dropped until the controller has computed new paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from controller.flows import Bucket, Group, GroupKind
from controller.nexthops import Edge
from controller.routing import MAX_PLANES, Routes, Spread

_MOST_WEIGHT = 1000


class Groups:
    """Numbers and contents of groups.

    Args:
        whole: Routes of the whole fabric. They alone say which groups exist, so that rules never have to change.
    """

    def __init__(self, whole: Routes) -> None:
        self._whole = whole
        self._number = {name: index for index, name in enumerate(whole.targets)}

    def number(self, switch: str, target: str, plane: int) -> int | None:
        """The group by which a switch sends to another one on a plane; None if no switches lead there.

        Planes that use the same port in the whole fabric share a group.
        """
        ports = self._whole.plane_ports(switch, target)
        return None if ports is None else 1 + self._number[target] * MAX_PLANES + ports.index(ports[plane])

    def target(self, number: int) -> str:
        """The switch that a group leads to."""
        return self._whole.targets[(number - 1) // MAX_PLANES]

    def of(self, routes: Mapping[str, Routes]) -> tuple[Group, ...]:
        """All groups of all switches, with the ports that routes of the fabric, one for each target, give them."""
        groups: list[Group] = []
        for node in self._whole.fabric.switches:
            if node.dpid is None:
                continue
            for target in self._whole.targets:
                ports = self._whole.plane_ports(node.name, target)
                if target == node.name or ports is None:
                    continue
                for plane in dict.fromkeys(ports.index(port) for port in ports):
                    groups.append(self._group(routes[target], node.name, node.dpid, target, plane))
        return tuple(groups)

    def _group(self, routes: Routes, switch: str, dpid: int, target: str, plane: int) -> Group:
        number = 1 + self._number[target] * MAX_PLANES + plane
        if routes.spread is Spread.FLOWS:
            note = f"to {target} over all equal paths"
            return Group(dpid, number, GroupKind.SELECT, _weighted(routes.next_hops.best(switch, target)), note)
        note = f"to {target} on plane {plane}"
        live = routes.plane_ports(switch, target)
        nearer = [edge.port for edge in routes.next_hops.nearer(switch, target)]
        if live is None or not nearer:
            return Group(dpid, number, GroupKind.FAST_FAILOVER, (), note)
        # The others in turn, a different one first on each plane, so that what fails over does not all go one way.
        others = [port for port in nearer if port != live[plane]]
        turn = plane % len(others) if others else 0
        order = [live[plane], *others[turn:], *others[:turn]]
        return Group(dpid, number, GroupKind.FAST_FAILOVER, tuple(Bucket(port) for port in order), note)


def _weighted(edges: list[Edge]) -> tuple[Bucket, ...]:
    """Buckets in proportion to the links' rates."""
    if not edges:
        return ()
    unit = gcd(*(edge.rate_bps for edge in edges))
    scale = max(1, max(edge.rate_bps for edge in edges) // unit // _MOST_WEIGHT)
    return tuple(Bucket(edge.port, max(1, edge.rate_bps // unit // scale)) for edge in edges)
