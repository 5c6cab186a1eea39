"""The Ryu application: carries events from switches to the core and the core's commands to switches.

Decides nothing. Every connection has one green thread that executes commands in order, so a slow switch delays nobody
else. An unexpected error ends the whole controller (the switches go on forwarding) instead of leaving it half alive.
"""

from __future__ import annotations

from controller.green import eventlet  # first, it makes Ryu importable

# isort: split

import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3 as ofp

from controller import ryu_codec as codec
from controller import ryu_rules
from controller.changes import Change
from controller.core import Core
from controller.events import (
    Changed,
    Close,
    Command,
    Connected,
    Disconnected,
    Event,
    Failed,
    Make,
    PortChanged,
    ProgramRead,
    Refused,
)
from controller.flows import Program
from controller.pending import Pending
from controller.rest.backend import NotConnected, Silent
from controller.stats import FlowStat, GroupStat, PortStat

LOG = logging.getLogger("controller.switches")
REQUEST_TIMEOUT_S = 10.0


class FabricApp(app_manager.RyuApp):  # type: ignore[misc]  # Ryu has no types
    """Executes the core's commands and answers the REST interface's questions."""

    OFP_VERSIONS = (ofp.OFP_VERSION,)
    LOGGER_NAME = "ryu.app"

    def __init__(self, core: Core, crashed: Callable[[BaseException], None]) -> None:
        super().__init__()
        self.core = core
        self._crashed = crashed
        self._datapaths: dict[int, Any] = {}
        self._queues: dict[int, Any] = {}
        self._timer: Any = None
        self._pending = Pending(REQUEST_TIMEOUT_S)
        self._changed = eventlet.event.Event()

    # --- events from switches -----------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])  # type: ignore[untyped-decorator]
    def on_state(self, ev: Any) -> None:
        """A switch finished its handshake, or its connection ended."""
        with self._fatal():
            datapath = ev.datapath
            if ev.state == MAIN_DISPATCHER:
                self._connected(datapath)
            else:
                self._disconnected(datapath)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_port(self, ev: Any) -> None:
        """A port was added, removed or changed."""
        with self._fatal():
            if self._is_current(ev.msg.datapath):
                port = codec.read_port_description(ev.msg.desc)
                present = ev.msg.reason != ofp.OFPPR_DELETE
                LOG.info(
                    "%s: port %s (%s) %s",
                    self._name(ev.msg.datapath.id),
                    port.number,
                    port.name,
                    "removed" if not present else "up" if port.up else "down",
                )
                self._handle(PortChanged(ev.msg.datapath.id, port, present))

    @set_ev_cls(  # type: ignore[untyped-decorator]
        [
            ofp_event.EventOFPFlowStatsReply,
            ofp_event.EventOFPPortStatsReply,
            ofp_event.EventOFPDescStatsReply,
            ofp_event.EventOFPGroupDescStatsReply,
            ofp_event.EventOFPGroupStatsReply,
            ofp_event.EventOFPMeterConfigStatsReply,
            ofp_event.EventOFPBarrierReply,
        ],
        MAIN_DISPATCHER,
    )
    def on_reply(self, ev: Any) -> None:
        """An answer, or a part of one, to a request of ours."""
        with self._fatal():
            more = bool(getattr(ev.msg, "flags", 0) & ofp.OFPMPF_REPLY_MORE)
            self._pending.answered(ev.msg.datapath, ev.msg, more=more)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_error(self, ev: Any) -> None:
        """A switch refused something."""
        with self._fatal():
            text = codec.error_text(ev.msg)
            LOG.warning("%s answers with an error: %s", self._name(ev.msg.datapath.id), text)
            self._handle(Refused(ev.msg.datapath.id, text))

    # --- what the REST interface asks ---------------------------------------------------------------------------

    def flows(self, dpid: int) -> list[FlowStat]:
        """All flow entries of a switch, fresh. Raises: NotConnected, Silent."""
        datapath = self._datapath(dpid)
        parts = self._pending.send(datapath, codec.flows_request(datapath))
        return [codec.read_flow(dpid, entry) for part in parts for entry in part.body]

    def ports(self, dpid: int) -> list[PortStat]:
        """The counters of all ports of a switch, fresh. Raises: NotConnected, Silent."""
        datapath = self._datapath(dpid)
        parts = self._pending.send(datapath, codec.ports_request(datapath))
        return [codec.read_port(entry) for part in parts for entry in part.body]

    def groups(self, dpid: int) -> list[GroupStat]:
        """The counters of all groups of a switch, fresh. Raises: NotConnected, Silent."""
        datapath = self._datapath(dpid)
        parts = self._pending.send(datapath, codec.group_counters_request(datapath))
        return [codec.read_group_counters(entry) for part in parts for entry in part.body]

    def description(self, dpid: int) -> dict[str, Any]:
        """A switch's description of itself. Raises: NotConnected, Silent."""
        datapath = self._datapath(dpid)
        return codec.read_description(self._pending.send(datapath, codec.description_request(datapath))[0].body)

    def connected(self) -> list[int]:
        """Datapath ids of all connected switches of the fabric."""
        return sorted(dpid for dpid in self._datapaths if dpid in self.core.sessions)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the core is ready; false if it is not in time."""
        with contextlib.suppress(eventlet.Timeout), eventlet.Timeout(timeout_s):
            while not self.core.ready:
                self._changed.wait()
        return self.core.ready

    # --- inside -------------------------------------------------------------------------------------------------

    def _connected(self, datapath: Any) -> None:
        older = self._datapaths.get(datapath.id)
        if older is not None:
            LOG.warning("%s connected a second time: the older connection is closed", self._name(datapath.id))
            self._pending.abandon(older)
            older.close()
        self._datapaths[datapath.id] = datapath
        known = datapath.id in self.core.sessions
        if known:
            LOG.info("%s connected", self._name(datapath.id))
        else:
            LOG.warning("a switch with the unknown datapath id %#x connected: it is ignored", datapath.id)
        ports = (codec.read_port_description(port) for port in datapath.ports.values())
        self._queues[datapath.id] = waiting = eventlet.queue.LightQueue()
        eventlet.spawn_n(self._execute, datapath, waiting)
        self._handle(Connected(datapath.id, tuple(port for port in ports if not codec.is_reserved(port.number))))

    def _disconnected(self, datapath: Any) -> None:
        self._pending.abandon(datapath)
        if self._is_current(datapath):
            del self._datapaths[datapath.id]
            self._queues.pop(datapath.id).put(None)
            LOG.warning("%s disconnected", self._name(datapath.id))
            self._handle(Disconnected(datapath.id))

    def _is_current(self, datapath: Any) -> bool:
        return self._datapaths.get(datapath.id) is datapath

    def _name(self, dpid: int) -> str:
        session = self.core.sessions.get(dpid)
        return session.name if session else f"unknown switch {dpid:#x}"

    def _datapath(self, dpid: int) -> Any:
        try:
            return self._datapaths[dpid]
        except KeyError:
            raise NotConnected(dpid) from None

    def _handle(self, event: Event) -> None:
        ready = self.core.ready
        session = self.core.sessions.get(event.dpid)
        before = session.state if session else None
        self._dispatch(self.core.handle(event, time.monotonic_ns()))
        if session and session.state is not before:
            LOG.info("%s: %s%s", session.name, session.state.value, f": {session.failure}" if session.failure else "")
        if self.core.ready and not ready:
            LOG.info("ready: %d switches, %d rules", len(self.core.sessions), len(self.core.plan.rules))
        changed, self._changed = self._changed, eventlet.event.Event()
        changed.send(None)

    def _dispatch(self, commands: Iterable[Command]) -> None:
        """Hand commands to the switches' threads, and call the core again when it wants to be called."""
        for command in commands:
            waiting = self._queues.get(command.dpid)
            if waiting is not None:
                waiting.put(command)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ns = self.core.next_ns()
        if next_ns is not None:
            self._timer = eventlet.spawn_after(max(0, next_ns - time.monotonic_ns()) / 1e9, self._look)

    def _look(self) -> None:
        with self._fatal():
            self._timer = None
            self._dispatch(self.core.look(time.monotonic_ns()))

    def _execute(self, datapath: Any, waiting: Any) -> None:
        """Run a switch's commands in order, until its connection ends."""
        with self._fatal():
            while self._is_current(datapath):
                command = waiting.get()
                if command is None:
                    return
                try:
                    if isinstance(command, Make):
                        self._make(datapath, command.change)
                        if command.step is not None:
                            self._handle(Changed(datapath.id, command.step))
                    elif isinstance(command, Close):
                        datapath.close()
                    else:
                        self._handle(self._read(datapath))
                except (NotConnected, Silent) as error:
                    if self._is_current(datapath):
                        LOG.warning("%s: %s", self._name(datapath.id), error)
                        self._handle(Failed(datapath.id, str(error)))

    def _read(self, datapath: Any) -> ProgramRead:
        dpid = datapath.id
        entries = self._parts(datapath, codec.flows_request(datapath))
        rules = [ryu_rules.read_rule(dpid, entry) for entry in entries]
        groups = [ryu_rules.read_group(dpid, entry) for entry in self._parts(datapath, codec.groups_request(datapath))]
        meters = [ryu_rules.read_meter(dpid, entry) for entry in self._parts(datapath, codec.meters_request(datapath))]
        program = Program(
            tuple(rule for rule in rules if rule is not None),
            tuple(group for group in groups if group is not None),
            tuple(meter for meter in meters if meter is not None),
        )
        return ProgramRead(dpid, program, foreign=sum(item is None for item in (*rules, *groups, *meters)))

    def _parts(self, datapath: Any, request: Any) -> list[Any]:
        return [entry for part in self._pending.send(datapath, request) for entry in part.body]

    def _make(self, datapath: Any, change: Change) -> None:
        """Change a switch: what rules use before the rules, and gone after them."""
        if change.clear:
            for message in codec.clear_all(datapath):
                datapath.send_msg(message)
        put, delete = change.put, change.delete
        for meter in put.meters:
            datapath.send_msg(codec.meter_mod(datapath, meter, "add"))
        for group in put.groups:
            datapath.send_msg(codec.group_mod(datapath, group, "put"))
        for rule in put.rules:
            datapath.send_msg(codec.flow_mod(datapath, rule))
        for rule in delete.rules:
            datapath.send_msg(codec.flow_mod(datapath, rule, delete=True))
        for group in delete.groups:
            datapath.send_msg(codec.group_mod(datapath, group, "delete"))
        for meter in delete.meters:
            datapath.send_msg(codec.meter_mod(datapath, meter, "delete"))
        self._pending.send(datapath, codec.barrier(datapath))

    @contextlib.contextmanager
    def _fatal(self) -> Any:
        try:
            yield
        except Exception as error:
            LOG.debug("unexpected error", exc_info=True)
            self._crashed(error)
