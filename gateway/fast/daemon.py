"""The fast gateway's daemon: ports, pipeline and offload, its control socket and signals, from start to clean end."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError
from gateway.control import ControlServer
from gateway.dataplane.pipeline import Pipeline
from gateway.fast.config import FastConfig, PortKind
from gateway.fast.forwarder import Forwarder
from gateway.fast.links import LinkWatch
from gateway.fast.offloader import Offloader
from gateway.fast.ports import Ports
from gateway.fast.standby import Standby
from gateway.fast.told import Told
from gateway.loop import Handler, Loop, StopSignals
from gateway.offload.flows import wait_for_processors
from gateway.rings.port import Port
from gateway.timer import CLOCK_MONOTONIC, Timer

_OFFER_AGAIN_S = 0.001
_LONGEST_DRAIN_NS = 1_000_000_000
"""How long what was sent may take to leave; an interface that is down would keep it for ever."""
_FLUSHES = 10_000
"""How often what was sent is looked after before the ports are given up."""
_TURNS = 64
"""Turns between two looks at control socket and signals while frames keep coming."""
_STEPS_PER_IDLE_TIME = 4
_LONGEST_STEP_NS = 1_000_000_000


class FastDaemon:
    """Forwards until it is told to stop.

    Args:
        path: The file of the configuration.
        config: What it says.
        ports: What was opened for it.
        pipeline: Decides.
        control: Path of the control socket.
        listener: The control socket of the daemon whose place this one takes.
        started: Is called with the clock as soon as everything is ready.

    Attributes:
        handed_over: Whether a successor has taken everything.
        began: Whether it was ready.
        handed: What was offered to a successor; None: nothing.
    """

    mode = "fast"

    def __init__(
        self,
        path: Path,
        config: FastConfig,
        ports: Ports,
        pipeline: Pipeline,
        control: Path,
        listener: socket.socket | None = None,
        started: Callable[[FastDaemon], None] = lambda _daemon: None,
    ) -> None:
        self._listener = listener
        self._started = started
        self._final: dict[str, Any] | None = None
        self.handed_over = self.began = False
        self.handed: dict[str, Any] | None = None
        self._ports = ports
        self._control_path = control
        self._offloader = None
        if ports.offload is not None:
            self._offloader = Offloader(ports.offload, pipeline, [port.interface for port in config.ports])
        decided = None if self._offloader is None else self._offloader.flows_began
        self._pipeline = pipeline
        self._now_ns = 0
        told = self._told = Told(path, config, ports, pipeline, self._offloader, lambda: self._now_ns)
        # What can be asked of it, as `Reloadable` and `Steered`.
        self.reload, self.policies, self.set_policies = told.reload, told.policies, told.set_policies
        self.list_flows, self.install_flows = told.list_flows, told.install_flows
        self.delete_flows = told.delete_flows
        self._forwarder = Forwarder(ports.queues, pipeline, config.batch_frames, decided)
        self._step_ns = min(_LONGEST_STEP_NS, config.idle_ns // _STEPS_PER_IDLE_TIME)
        self._stopping = False
        self._answered = False
        self._drain_until_ns = 0

    @property
    def config(self) -> FastConfig:
        """What is in force of the file."""
        return self._told.config

    def stats(self) -> dict[str, Any]:
        """See `Controlled`."""
        ports = self._ports
        figures = {
            "mode": self.mode,
            "kind": self.config.kind.value,
            **self._forwarder.as_json(),
            "copies": ports.copies.as_json(),
        }
        if ports.umem is not None:
            pool = ports.umem.pool
            figures["frames"] = {"all": pool.count, "free": pool.free, "lent": pool.lent}
        if self._offloader is not None and ports.offload is not None:
            audit = ports.offload.flows.audit(repair=True)
            figures["offload"] = {
                **self._offloader.as_json(),
                "rejected": self._told.rejected,
                "audit": audit.as_json(),
            }
        return figures

    def drain(self) -> None:
        """See `Controlled`."""
        self._answered = False
        self._drain_until_ns = self._time_ns() + _LONGEST_DRAIN_NS
        self._forwarder.draining = True
        if self._ports.offload is not None and not self._stays():
            self._ports.offload.flows.clear()

    def hand_over(self) -> tuple[dict[str, Any], list[int]]:
        """See `Upgradable`: closes the ports, since a queue has one owner; what comes meanwhile the successor collects.

        Raises:
            GatewayError: The daemon is about to end, or its ports cannot change hands.
        """
        if self._forwarder.draining:
            raise GatewayError("the daemon is about to end: there is nothing to take over")
        if self.config.kind is not PortKind.AF_XDP:
            raise GatewayError(f"ports of kind {self.config.kind.value} do not change hands: only af_xdp does")
        for unsteer in self._ports.unsteer:
            unsteer()
        # No program gives a packet to the sockets any more; what it gave them before is forwarded.
        wait_for_processors()
        while self._forwarder.turn(self._time_ns()):
            pass
        for _ in range(_FLUSHES):
            if self._forwarder.flush():
                break
        if self._offloader is not None:
            self._offloader.step(self._time_ns(), self.config.idle_ns)
        state = {
            "kind": self.mode,
            "interfaces": [port.interface for port in self.config.ports],
            "steering": self._told.export(),
            "counters": self._pipeline.counters.export(),
        }
        self.handed = state
        self._final = self.stats()
        if self._ports.offload is not None:
            self._ports.offload.leave()
        self._ports.close()
        return state, []

    def _was_taken(self, taken: bool) -> None:
        self.handed_over = taken

    @property
    def gave_up_ports(self) -> bool:
        """Whether the ports were closed for a successor."""
        return self._final is not None

    def adopt(self, state: Mapping[str, Any]) -> None:
        """Go on with what a predecessor counted and was told from outside.

        Raises:
            GatewayError: That does not fit this daemon.
        """
        self._pipeline.counters.restore(state["counters"])
        self._told.adopt(state["steering"])

    def forward(self, standby: Standby) -> None:
        """Forward what was collected while nobody served the ports, and collect no more."""
        wait_for_processors()
        standby.forward(self._pipeline, self.config.batch_frames, self._time_ns)
        standby.close()

    def _stays(self) -> bool:
        return self._stopping and self.config.offload is not None and self.config.offload.stay

    def stop(self) -> None:
        """See `Controlled`."""
        self._stopping = True
        self.drain()

    def run(self) -> dict[str, Any]:
        """Forward until stopped by the control socket or a signal.

        Returns:
            The final figures.
        """
        with contextlib.ExitStack() as stack:
            loop = Loop()
            stack.callback(loop.close)
            timer = Timer(CLOCK_MONOTONIC)
            stack.callback(timer.close)
            stack.enter_context(StopSignals(loop, self.stop))
            links = LinkWatch()
            stack.callback(links.close)
            loop.add(links.fileno(), lambda _events: self._links_changed(links))
            for _, port in self._ports.all():
                loop.add(port.fileno(), _watcher(port), select.EPOLLIN)
            loop.add(timer.fileno(), lambda _events: self._step(timer))
            self._step(timer)
            control = ControlServer(self._control_path, loop, self, self._was_taken, self._listener)
            stack.callback(control.close)
            self._started(self)
            self.began = True
            self._loop(loop, control)
            if self._final is not None:
                return {**self._final, "handed_over": True}
            return self.stats()

    def _links_changed(self, links: LinkWatch) -> None:
        """See that all interfaces are still there."""
        links.empty()
        if self._final is None:
            self._ports.check()
            self._told.interfaces_changed()

    def _step(self, timer: Timer) -> None:
        now_ns = self._time_ns()
        if self._offloader is not None:
            self._offloader.step(now_ns, self.config.idle_ns)
        self._pipeline.flows.expire(now_ns - self.config.idle_ns)
        timer.arm(now_ns + self._step_ns)

    def _time_ns(self) -> int:
        """The time, later each time than before."""
        self._now_ns = max(self._now_ns + 1, time.monotonic_ns())
        return self._now_ns

    def _loop(self, loop: Loop, control: ControlServer) -> None:
        """The hot loop. While frames keep coming it does not sleep; the kernel is asked for events now and then."""
        forwarder = self._forwarder
        while True:
            for _ in range(_TURNS):
                if not forwarder.turn(self._time_ns()):
                    break
            else:
                loop.dispatch(loop.wait_idle(0))
                if self._final is not None:
                    return
                continue
            left = forwarder.flush()
            if forwarder.draining and not self._answered and (left or self._time_ns() >= self._drain_until_ns):
                self._answered = True
                control.finished()
                if self._stopping:
                    return
            # What the kernel did not take yet is offered again soon: nothing tells when it would.
            loop.dispatch(loop.wait_idle(-1 if left else _OFFER_AGAIN_S))
            if self._final is not None:
                return


def _watcher(port: Port) -> Handler:
    """What is done on an event of a port: frames are received from all ports anyway, so only errors are looked at."""

    def watch(events: int) -> None:
        if events & select.EPOLLERR:
            port.check()

    return watch
