"""What the REST interface needs of the controller."""

from __future__ import annotations

from typing import Any, Protocol

from controller.core import Core
from controller.stats import FlowStat, PortStat
from emulator.errors import ControllerError


class NotConnected(ControllerError):
    """A switch is not connected now."""

    def __init__(self, dpid: int) -> None:
        super().__init__(dpid)
        self.dpid = dpid

    def __str__(self) -> str:
        return f"switch {self.dpid:#x} is not connected"


class Silent(ControllerError):
    """A switch did not answer in time."""

    def __init__(self, dpid: int, timeout_s: float) -> None:
        super().__init__(dpid, timeout_s)
        self.dpid = dpid
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"switch {self.dpid:#x} did not answer within {self.timeout_s:g} s"


class Backend(Protocol):
    """Answers questions about switches; every method may raise `NotConnected` or `Silent`.

    Attributes:
        core: The controller's state.
    """

    core: Core

    def flows(self, dpid: int) -> list[FlowStat]:
        """All flow entries of a switch, fresh."""

    def ports(self, dpid: int) -> list[PortStat]:
        """The counters of all ports of a switch, fresh."""

    def description(self, dpid: int) -> dict[str, Any]:
        """A switch's description in Ryu's shape."""

    def connected(self) -> list[int]:
        """Datapath ids of the connected switches of the fabric."""

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until all is ready; false if it is not in time."""
