"""The Ryu application: carries events from switches to the core and the core's commands to switches. Decides nothing.

Every connection has one green thread that carries out commands in order, so a slow switch delays nobody else.
"""

from __future__ import annotations

from controller.green import eventlet  # first, it makes Ryu importable

# isort: split

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3 as ofp

from controller import ryu_codec as codec
from controller.driver import Driver
from controller.events import Command, Connected, Disconnected, PortChanged, Refused, SwitchEvent
from controller.pending import Pending
from controller.rest.backend import NotConnected
from controller.rivals import Rivals
from controller.ryu_switch import Switch

LOG = logging.getLogger("controller.switches")
REQUEST_TIMEOUT_S = 10.0


class FabricApp(app_manager.RyuApp):  # type: ignore[misc]  # Ryu has no types
    """Connections of switches, by datapath id.

    Args:
        driver: Drives the core.

    Attributes:
        connections, disconnections, packet_ins, errors: Counts by datapath id.
        port_reasons: Reason of the last port-status message, by datapath id and port.
        demoted: Called when a switch says that another controller is its master.
    """

    OFP_VERSIONS = (ofp.OFP_VERSION,)
    LOGGER_NAME = "ryu.app"

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self.connections: Counter[int] = Counter()
        self.disconnections: Counter[int] = Counter()
        self.packet_ins: Counter[int] = Counter()
        self.errors: Counter[int] = Counter()
        self.port_reasons: dict[tuple[int, int], int] = {}
        self.demoted: Callable[[], None] = lambda: None
        self._sent: Counter[int] = Counter()
        self._driver = driver
        self._switches: dict[int, Switch] = {}
        self._pending = Pending(REQUEST_TIMEOUT_S)
        self._rivals = Rivals()
        driver.execute = self._execute

    # --- events from switches -----------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])  # type: ignore[untyped-decorator]
    def on_state(self, ev: Any) -> None:
        """A switch finished its handshake, or its connection ended."""
        with self._driver.guarded():
            datapath = ev.datapath
            if ev.state == MAIN_DISPATCHER:
                self._connected(datapath)
            elif datapath.id is not None:
                self._disconnected(datapath)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_port(self, ev: Any) -> None:
        """A port was added, removed or changed."""
        with self._driver.guarded():
            if self._is_current(ev.msg.datapath) and not codec.is_reserved(ev.msg.desc.port_no):
                port, dpid = codec.read_port_description(ev.msg.desc), ev.msg.datapath.id
                self.port_reasons[dpid, port.number] = ev.msg.reason
                self._driver.handle(PortChanged(dpid, port, ev.msg.reason != ofp.OFPPR_DELETE))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_packet(self, ev: Any) -> None:
        """A rule handed a packet over."""
        with self._driver.guarded():
            if self._is_current(ev.msg.datapath):
                self.packet_ins[ev.msg.datapath.id] += 1
                self._driver.handle(codec.read_reported(ev.msg))

    @set_ev_cls(  # type: ignore[untyped-decorator]
        [
            ofp_event.EventOFPFlowStatsReply,
            ofp_event.EventOFPAggregateStatsReply,
            ofp_event.EventOFPTableStatsReply,
            ofp_event.EventOFPTableFeaturesStatsReply,
            ofp_event.EventOFPPortStatsReply,
            ofp_event.EventOFPPortDescStatsReply,
            ofp_event.EventOFPQueueStatsReply,
            ofp_event.EventOFPQueueGetConfigReply,
            ofp_event.EventOFPDescStatsReply,
            ofp_event.EventOFPGroupDescStatsReply,
            ofp_event.EventOFPGroupStatsReply,
            ofp_event.EventOFPGroupFeaturesStatsReply,
            ofp_event.EventOFPMeterStatsReply,
            ofp_event.EventOFPMeterConfigStatsReply,
            ofp_event.EventOFPMeterFeaturesStatsReply,
            ofp_event.EventOFPRoleReply,
            ofp_event.EventOFPBarrierReply,
        ],
        MAIN_DISPATCHER,
    )
    def on_reply(self, ev: Any) -> None:
        """An answer, or a part of one, to a request of ours."""
        with self._driver.guarded():
            more = bool(getattr(ev.msg, "flags", 0) & ofp.OFPMPF_REPLY_MORE)
            self._pending.answered(ev.msg.datapath, ev.msg, more=more)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_error(self, ev: Any) -> None:
        """A switch refused something."""
        with self._driver.guarded():
            datapath, text = ev.msg.datapath, codec.error_text(ev.msg)
            if not self._is_current(datapath):
                return
            self.errors[datapath.id] += 1
            if not self._pending.refused(datapath, ev.msg.xid, text):
                self._driver.handle(Refused(datapath.id, text))
            if codec.is_demotion(ev.msg):
                self.demoted()

    # --- for the REST interface -----------------------------------------------------------------------------------

    def switch(self, dpid: int) -> Switch:
        """A connected switch. Raises: NotConnected."""
        try:
            return self._switches[dpid]
        except KeyError:
            raise NotConnected(dpid) from None

    def connected(self) -> list[int]:
        """Datapath ids of all connected switches of the fabric."""
        return sorted(dpid for dpid in self._switches if dpid in self._driver.core.sessions)

    def sent(self) -> dict[int, int]:
        """Messages that change something, and packets, that were sent, by datapath id."""
        total = Counter(self._sent)
        for dpid, switch in self._switches.items():
            total[dpid] += switch.sent
        return dict(total)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _connected(self, datapath: Any) -> None:
        older = self._switches.get(datapath.id)
        if older is not None:
            if not self._rivals.admit(datapath.id, time.monotonic_ns()):
                LOG.warning(
                    "%s: another switch at %s:%s claims the same datapath id again and again: it is turned away",
                    *(self._name(datapath.id), *datapath.address[:2]),
                )
                datapath.close()
                return
            LOG.warning("%s connected a second time: the older connection is closed", self._name(datapath.id))
            self._drop(datapath.id)
            older.datapath.close()
        self.connections[datapath.id] += 1
        switch = self._switches[datapath.id] = Switch(datapath, self._pending, self._tell)
        eventlet.spawn_n(self._run, switch)
        ports = (codec.read_port_description(port) for port in datapath.ports.values())
        usable = tuple(port for port in ports if not codec.is_reserved(port.number))
        self._driver.handle(Connected(datapath.id, usable))

    def _disconnected(self, datapath: Any) -> None:
        if self._is_current(datapath):
            self._drop(datapath.id)
            self._driver.handle(Disconnected(datapath.id))
        else:
            self._pending.abandon(datapath)

    def _drop(self, dpid: int) -> None:
        switch = self._switches.pop(dpid)
        switch.end()
        self._sent[dpid] += switch.sent
        self.disconnections[dpid] += 1

    def _is_current(self, datapath: Any) -> bool:
        switch = self._switches.get(datapath.id)
        return switch is not None and switch.datapath is datapath

    def _name(self, dpid: int) -> str:
        session = self._driver.core.sessions.get(dpid)
        return session.name if session else f"unknown switch {dpid:#x}"

    def _execute(self, command: Command) -> None:
        switch = self._switches.get(command.dpid)
        if switch is not None:
            switch.put(command)

    def _run(self, switch: Switch) -> None:
        with self._driver.guarded():
            switch.run()

    def _tell(self, switch: Switch, event: SwitchEvent) -> None:
        if self._is_current(switch.datapath):
            self._driver.handle(event)
