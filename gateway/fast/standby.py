"""What comes while nobody serves the AF_XDP sockets: collected by packet sockets, and forwarded afterwards.

Between the old daemon's last look at its sockets and the new one's first, the XDP programs pass packets of unknown
flows to the host's stack, where they would be lost. (Known flows are forwarded by the program as ever.) Packet sockets
see them there, and only them: what a program gives to an AF_XDP socket never comes to the stack. What is meant for the
stack is in their rings too, and the pipeline leaves it alone.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

from gateway.dataplane.pipeline import Pipeline
from gateway.fast.forwarder import Forwarder
from gateway.interface import carries_super_packets
from gateway.rings.mapped import MappedPort

_SLOTS = 4096
_SLOTS_FOR_SUPER_PACKETS = 256
"""Where packets of 64 KiB may come, each slot has room for one: 32 MiB in all."""


class Standby:
    """The rings, from the moment they are made until they are closed.

    Args:
        interfaces: Names of the gateway's interfaces, in the order of its ports.
        headroom_bytes: Room for headers that are put before frames.

    Raises:
        GatewayError: A ring cannot be had.
    """

    def __init__(self, interfaces: Sequence[str], headroom_bytes: int) -> None:
        self._stack = contextlib.ExitStack()
        self._ports: list[list[MappedPort]] = []
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                for name in interfaces:
                    slots = _SLOTS_FOR_SUPER_PACKETS if carries_super_packets(probe, name) else _SLOTS
                    port = MappedPort(name, slots, headroom_bytes)
                    self._stack.callback(port.close)
                    self._ports.append([port])
        except BaseException:
            self.close()
            raise

    def forward(self, pipeline: Pipeline, batch_frames: int, time_ns: Callable[[], int]) -> int:
        """Forward all that was collected, in order of arrival on each port, and say how many frames that were."""
        forwarder = Forwarder(self._ports, pipeline, batch_frames)
        total = 0
        while frames := forwarder.turn(time_ns()):
            total += frames
        forwarder.flush()
        return total

    def lost_frames(self) -> int:
        """Frames that found no room."""
        return sum(port.lost_frames() for queues in self._ports for port in queues)

    def close(self) -> None:
        """Collect no more."""
        self._stack.close()
