"""Topologies as pure functions of their parameters, and the same as Mininet `Topo` classes for ``mn --custom``.

Each function takes numbers in base units (bit/s, ns, bytes, packets) as keyword arguments and returns a checked
`emulator.model.fabric.Fabric`; nothing here touches a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.model.fabric import Fabric
from emulator.model.routing import Routing
from topologies.cards import antipodes
from topologies.cascade import cascade, cascade_routing
from topologies.chain import chain
from topologies.dragonfly import dragonfly, dragonfly_routing
from topologies.dual_plane import dual_plane, dual_plane_routing
from topologies.dumbbell import dumbbell
from topologies.fat_tree import fat_tree, fat_tree_routing
from topologies.icgw import icgw
from topologies.single import single
from topologies.torus import torus3d, torus3d_routing
from topologies.tree import tree, tree_routing

FABRICS: dict[str, Callable[..., Fabric]] = {
    "cascade": cascade,
    "chain": chain,
    "dragonfly": dragonfly,
    "dual_plane": dual_plane,
    "dumbbell": dumbbell,
    "fat_tree": fat_tree,
    "icgw": icgw,
    "single": single,
    "torus3d": torus3d,
    "tree": tree,
}
"""Every topology by the name that scenarios and ``mn --topo`` use."""

_ROUTINGS: dict[str, Callable[[Fabric], Routing]] = {
    "cascade": cascade_routing,
    "dragonfly": dragonfly_routing,
    "dual_plane": dual_plane_routing,
    "fat_tree": fat_tree_routing,
    "torus3d": torus3d_routing,
    "tree": tree_routing,
}


def routing_of(fabric: Fabric) -> Routing | None:
    """The routing tables that a fabric's nodes need; None where hosts are neighbours and switches do the rest."""
    make = _ROUTINGS.get(fabric.name)
    return None if make is None or fabric.switches else make(fabric)


__all__ = [
    "FABRICS",
    "antipodes",
    "cascade",
    "chain",
    "dragonfly",
    "dual_plane",
    "dumbbell",
    "fat_tree",
    "icgw",
    "routing_of",
    "single",
    "torus3d",
    "tree",
]
