"""Builds fabrics for real: namespaces, links, shaping and switches in the current kernel, over netlink.

With `topologies`, this is the only package that imports Mininet. The entry point is `build`.
"""

from __future__ import annotations

from emulator.network.counters import QueueReader, QueueSample
from emulator.network.host import EmulatedHost
from emulator.network.interfaces import InterfaceCounters
from emulator.network.network import Network
from emulator.network.planning import build

__all__ = ["EmulatedHost", "InterfaceCounters", "Network", "QueueReader", "QueueSample", "build"]
