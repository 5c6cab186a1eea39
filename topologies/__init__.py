"""Topologies as pure functions of their parameters, and the same as Mininet `Topo` classes for ``mn --custom``.

Each function takes numbers in base units (bit/s, ns, bytes, packets) as keyword arguments and returns a checked
`emulator.model.fabric.Fabric`; nothing here touches a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.model.fabric import Fabric
from topologies.chain import chain
from topologies.dumbbell import dumbbell
from topologies.icgw import icgw
from topologies.single import single

FABRICS: dict[str, Callable[..., Fabric]] = {"chain": chain, "dumbbell": dumbbell, "icgw": icgw, "single": single}
"""Every topology by the name that scenarios and ``mn --topo`` use."""

__all__ = ["FABRICS", "chain", "dumbbell", "icgw", "single"]
