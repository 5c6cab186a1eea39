"""What the REST interface needs of the controller.

`controller.ryu_ofctl.Ofctl` implements `Backend.ofctl_read` and `Backend.ofctl_change` on top of a function that sends
a message and waits for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.core import Core
from controller.flows import Group
from controller.gateways.fleet import GatewayStatus
from controller.gateways.session import GatewaySession
from controller.journal import Journal
from controller.stats import FlowStat, GroupStat, PortStat
from controller.tenancy.ground import Ground
from controller.tenancy.store import Store
from controller.tenancy.violations import Violation
from emulator.errors import ControllerError
from emulator.messages.gateway import Policies

Question = Callable[[GatewaySession], tuple[int, bytes]]
"""Asks something of a gateway, like `GatewaySession.statistics`."""


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


class SilentGateway(ControllerError):
    """A gateway did not answer in time."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(name, timeout_s)
        self.name = name
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"gateway {self.name} did not answer within {self.timeout_s:g} s"


class AbsentGateway(ControllerError):
    """A gateway cannot be asked now."""

    def __init__(self, name: str, reason: str | None) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"gateway {self.name} is not connected" + (f": {self.reason}" if self.reason else "")


class GatewayDeclines(ControllerError):
    """A gateway answered with an error.

    Attributes:
        code: What kind of error, see `emulator.messages.gateway.ErrorCode`.
    """

    def __init__(self, name: str, code: str, reason: str) -> None:
        super().__init__(name, code, reason)
        self.name = name
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"gateway {self.name} refuses: {self.reason}"


def answered(name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The result in a gateway's answer.

    Raises:
        GatewayDeclines: It is an error.
    """
    result, error = answer.get("result"), answer.get("error")
    if answer.get("ok") is True and isinstance(result, dict):
        return result
    found = error if isinstance(error, dict) else {}
    raise GatewayDeclines(name, str(found.get("code")), str(found.get("message", "without a reason")))


class Unacceptable(ControllerError):
    """No OpenFlow message can be made of what was asked for, or OpenFlow 1.3 has none."""

    def __init__(self, reason: str, *, unsupported: bool = False) -> None:
        super().__init__(reason, unsupported)
        self.reason = reason
        self.unsupported = unsupported

    def __str__(self) -> str:
        return self.reason


class Declined(ControllerError):
    """A switch answered a change with an error."""

    def __init__(self, dpid: int, reason: str) -> None:
        super().__init__(dpid, reason)
        self.dpid = dpid
        self.reason = reason

    def __str__(self) -> str:
        return f"switch {self.dpid:#x} refuses: {self.reason}"


@dataclass(frozen=True)
class Standing:
    """This controller among those that share a store.

    Attributes:
        active: Whether it programs the switches and takes changes. True for a controller on its own.
        name: Its own name.
        holder: Name of the active one; empty: nobody is, or nobody knows.
    """

    active: bool = True
    name: str = ""
    holder: str = ""


@dataclass(frozen=True)
class Tallies:
    """Counts since the controller started; by datapath id where a dictionary is.

    Attributes:
        packet_ins: Packets that switches handed over.
        flow_messages: Flow, group and meter modifications and packet-outs that were sent.
        errors: OpenFlow errors that switches sent.
        connections, disconnections: Of switches.
        port_reasons: Reason of the last port-status message (0 add, 1 delete, 2 modify), by datapath id and port.
        violations: Reports of each violation that arrived. Meters let only some through: switches count them all.
        failovers: How often paths were computed anew because a link or switch failed or came back.
        reconciliations: How often what a switch held had to be changed after it was read.
    """

    packet_ins: Mapping[int, int] = field(default_factory=dict)
    flow_messages: Mapping[int, int] = field(default_factory=dict)
    errors: Mapping[int, int] = field(default_factory=dict)
    connections: Mapping[int, int] = field(default_factory=dict)
    disconnections: Mapping[int, int] = field(default_factory=dict)
    port_reasons: Mapping[tuple[int, int], int] = field(default_factory=dict)
    violations: Mapping[Violation, int] = field(default_factory=dict)
    failovers: int = 0
    reconciliations: int = 0


class Backend(Protocol):
    """Answers questions about switches; every method may raise `NotConnected` or `Silent`.

    Attributes:
        core: The controller's state.
        journal: What happened lately.
        store: The declared resources; None: started without a store, all hosts may talk.
        ground: The facts about the fabric that the store was made with.
    """

    core: Core
    journal: Journal
    store: Store | None
    ground: Ground

    def flows(self, dpid: int) -> list[FlowStat]:
        """All flow entries of a switch, fresh."""

    def ports(self, dpid: int) -> list[PortStat]:
        """The counters of all ports of a switch, fresh."""

    def groups(self, dpid: int) -> list[GroupStat]:
        """The counters of all groups of a switch, fresh."""

    def group_contents(self, dpid: int) -> list[Group]:
        """The groups of a switch, fresh, as far as groups of ours can express them."""

    def connected(self) -> list[int]:
        """Datapath ids of the connected switches of the fabric."""

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until all is ready; false if it is not in time."""

    def standing(self) -> Standing:
        """Whether this controller is the active one."""

    def tallies(self) -> Tallies:
        """Counts since the start."""

    def gateways(self) -> Sequence[GatewayStatus]:
        """How the gateways that this controller tells what to do are."""

    def gateway_statistics(self, name: str) -> dict[str, Any] | None:
        """A gateway's own figures, fresh; None: it is not connected, or is none that can be asked.

        Raises:
            SilentGateway: It did not answer in time.
        """

    def gateway_policies(self, name: str) -> Policies:
        """What a gateway is to be told."""

    def gateway_ask(self, name: str, question: Question) -> dict[str, Any]:
        """A gateway's result for a question.

        Raises:
            AbsentGateway: It cannot be asked now.
            SilentGateway: It did not answer in time.
            GatewayDeclines: It answered with an error.
        """

    def ofctl_read(self, dpid: int, function: str, *arguments: Any) -> Any:
        """What a ``get_…`` function of Ryu's ``ofctl_v1_3`` returns for a switch, without the outer dictionary.

        Args:
            dpid: The switch.
            function: Name of the function.
            arguments: What follows ``dp`` and ``waiters`` among its arguments.

        Raises:
            Unacceptable: The arguments are of no use, or the function does not exist.
        """

    def ofctl_change(self, dpid: int, function: str, body: Mapping[str, Any], command: str | None = None) -> None:
        """Call a ``mod_…``, ``set_…`` or ``send_…`` function of Ryu's ``ofctl_v1_3``, and see what the switch says.

        Args:
            dpid: The switch.
            function: Name of the function.
            body: What Ryu's REST resource takes.
            command: ``add``, ``modify``, ``modify_strict``, ``delete`` or ``delete_strict``, for functions that take
                a command.

        Raises:
            Unacceptable: No message can be made of the body.
            Declined: The switch answered with an error.
        """
