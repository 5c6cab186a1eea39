"""Answers what the REST interface asks: from the core, from the store, and freshly from the switches."""

from __future__ import annotations

from controller.green import eventlet  # noqa: F401  # first, it makes Ryu importable

# isort: split

from collections.abc import Mapping
from typing import Any

from controller import ryu_codec as codec
from controller import ryu_rules
from controller.driver import Driver
from controller.flows import Group
from controller.gateways.connections import Connections
from controller.gateways.fleet import GatewayStatus
from controller.lease import Election
from controller.rest.backend import AbsentGateway, Question, Standing, Tallies
from controller.ryu_app import FabricApp
from controller.ryu_ofctl import Ofctl
from controller.stats import FlowStat, GroupStat, PortStat
from controller.tenancy.ground import Ground
from controller.tenancy.store import Store
from emulator.messages.gateway import Policies


class LiveBackend:
    """The running controller, as `controller.rest.backend.Backend` wants it.

    Args:
        driver: Drives the core.
        app: Has the connections.
        ground: What declarations are checked against.
        store: The declared resources, or None.
        election: This controller among several, or None.
        gateways: The connections to gateways, or None.
    """

    def __init__(
        self,
        driver: Driver,
        app: FabricApp,
        ground: Ground,
        store: Store | None,
        election: Election | None,
        gateways: Connections | None = None,
    ) -> None:
        self.core = driver.core
        self.journal = driver.core.journal
        self.store = store
        self.ground = ground
        self._driver = driver
        self._app = app
        self._election = election
        self._gateways = gateways
        self._ofctl = Ofctl(
            lambda datapath, message: app.switch(datapath.id).ask(message),
            lambda datapath, message: app.switch(datapath.id).change(message),
        )

    def flows(self, dpid: int) -> list[FlowStat]:
        """All flow entries of a switch, fresh."""
        switch = self._app.switch(dpid)
        return [codec.read_flow(dpid, entry) for entry in switch.entries(codec.flows_request(switch.datapath))]

    def ports(self, dpid: int) -> list[PortStat]:
        """The counters of all ports of a switch, fresh."""
        switch = self._app.switch(dpid)
        return [codec.read_port(entry) for entry in switch.entries(codec.ports_request(switch.datapath))]

    def groups(self, dpid: int) -> list[GroupStat]:
        """The counters of all groups of a switch, fresh."""
        switch = self._app.switch(dpid)
        entries = switch.entries(codec.group_counters_request(switch.datapath))
        return [codec.read_group_counters(entry) for entry in entries]

    def group_contents(self, dpid: int) -> list[Group]:
        """The groups of a switch, fresh, as far as groups of ours can express them."""
        switch = self._app.switch(dpid)
        found = (ryu_rules.read_group(dpid, entry) for entry in switch.entries(codec.groups_request(switch.datapath)))
        return [group for group in found if group is not None]

    def connected(self) -> list[int]:
        """Datapath ids of the connected switches of the fabric."""
        return self._app.connected()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until all is ready; false if it is not in time."""
        return self._driver.wait_ready(timeout_s)

    def standing(self) -> Standing:
        """Whether this controller is the active one."""
        if self._election is None:
            return Standing()
        return Standing(self.core.office.active, self._election.name, self._election.holder)

    def tallies(self) -> Tallies:
        """Counts since the start."""
        return Tallies(
            packet_ins=dict(self._app.packet_ins),
            flow_messages=self._app.sent(),
            errors=dict(self._app.errors),
            connections=dict(self._app.connections),
            disconnections=dict(self._app.disconnections),
            port_reasons=dict(self._app.port_reasons),
            violations=dict(self.core.watch.alarms.tallies),
            failovers=self.core.repair.count,
            reconciliations=sum(session.corrected for session in self.core.sessions.values()),
        )

    def gateways(self) -> list[GatewayStatus]:
        """How the gateways are."""
        return self._gateways.statuses() if self._gateways is not None else []

    def gateway_statistics(self, name: str) -> dict[str, Any] | None:
        """A gateway's own figures, fresh."""
        return self._gateways.statistics(name) if self._gateways is not None else None

    def gateway_policies(self, name: str) -> Policies:
        """What a gateway is to be told."""
        return self._gateways.policies(name) if self._gateways is not None else Policies()

    def gateway_ask(self, name: str, question: Question) -> dict[str, Any]:
        """A gateway's result for a question."""
        if self._gateways is None:
            raise AbsentGateway(name, None)
        return self._gateways.ask(name, question)

    def ofctl_read(self, dpid: int, function: str, *arguments: Any) -> Any:
        """What a ``get_…`` function of Ryu's ``ofctl_v1_3`` returns for a switch, without the outer dictionary."""
        return self._ofctl.read(self._app.switch(dpid).datapath, function, *arguments)

    def ofctl_change(self, dpid: int, function: str, body: Mapping[str, Any], command: str | None = None) -> None:
        """Call a changing function of Ryu's ``ofctl_v1_3``, and see what the switch says."""
        self._ofctl.change(self._app.switch(dpid).datapath, function, body, command)
