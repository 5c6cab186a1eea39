"""The forwarding daemon: a forwarder on a ring, its timer, control socket and signals, from start to clean end."""

from __future__ import annotations

import contextlib
import select
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from emulator.model.profile import StationModel
from gateway.control import ControlServer
from gateway.filter import Instruction
from gateway.forward import Forwarder, Line
from gateway.interface import line_of, own_addresses, refuse_kernel_forwarding
from gateway.loop import Loop, StopSignals, When
from gateway.pipeline import ForwardingTable
from gateway.port import BATCH
from gateway.ring import RingPort
from gateway.station import Station
from gateway.timer import CLOCK_REALTIME, Timer, use_exact_timers

_SHARE_OF_QUEUE = 8
"""One part in so many of the line's queue may be filled ahead of time."""


def held_frames_of(model: StationModel, frame_bytes: int) -> int:
    """Frames that a station holds at most: its queue, and those that are in their latency.

    Args:
        model: The station.
        frame_bytes: Length of the frames of which a station that is limited by bytes alone gets most in.
    """
    rates = [rate for rate in (model.packet_rate, (model.bit_rate_bps or 0) // (8 * frame_bytes)) if rate]
    in_latency = model.latency_ns * min(rates) // 10**9 if rates else 0
    return model.queue_packets + in_latency + 1


class ForwardDaemon:
    """Forwards until it is told to stop.

    Args:
        port: The ring.
        forwarder: What moves the frames.
        control: Path of the control socket.
    """

    def __init__(self, port: RingPort, forwarder: Forwarder, control: Path) -> None:
        self._port = port
        self._forwarder = forwarder
        self._control_path = control
        self._stopping = False
        self._answered = False
        self._armed_ns = 0

    def stats(self) -> dict[str, Any]:
        """See `Controlled`."""
        return self._forwarder.as_json()

    def drain(self) -> None:
        """See `Controlled`."""
        self._answered = False
        self._forwarder.drain()

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
            timer = Timer(CLOCK_REALTIME)
            stack.callback(timer.close)
            stack.enter_context(StopSignals(loop, self.stop))
            loop.add(timer.fileno(), self._timer_went_off, when=When.HOLDING)
            loop.add(self._port.fileno(), self._ring_has_news, select.EPOLLIN | select.EPOLLET, when=When.IDLE)
            control = ControlServer(self._control_path, loop, self)
            stack.callback(control.close)
            self._loop(loop, timer, control)
            return self.stats()

    def _timer_went_off(self, _events: int) -> None:
        # It is at least as late as the timer was armed for: that is all one needs to know of the time.
        self._forwarder.depart(self._armed_ns)

    def _ring_has_news(self, events: int) -> None:
        if events & select.EPOLLERR:
            self._port.check()

    def _loop(self, loop: Loop, timer: Timer, control: ControlServer) -> None:
        """The hot loop: three system calls a batch of frames, and no reading of the clock."""
        forwarder = self._forwarder
        dispatch, accept = loop.dispatch, forwarder.accept
        while True:
            due = forwarder.next_due_ns
            if due is None:
                if forwarder.drained and not self._answered:
                    self._answered = True
                    control.finished()
                    if self._stopping:
                        return
                events = loop.wait_idle()
            else:
                if due != self._armed_ns:
                    self._armed_ns = due
                    if not timer.arm(due):
                        forwarder.clock_was_set()
                        self._armed_ns = 0
                        accept()
                        continue
                events = loop.wait_holding()
            dispatch(events)
            accept()


def run_forward(
    interface: str,
    neighbours: dict[IPv4Address, bytes],
    model: StationModel,
    control: Path,
    *,
    ring_bytes: int,
    accept: tuple[Instruction, ...] = (),
    batch: bool = True,
) -> dict[str, Any]:
    """Set up a forwarding daemon on an interface and run it to its end.

    Args:
        interface: Where frames come in and go out.
        neighbours: Where each destination is.
        model: The station that they pass.
        control: Path of the control socket.
        ring_bytes: Memory that the ring may take.
        accept: Classic BPF program for the ring.
        batch: Hand frames early to a line that is busy anyway (see `Line`), if the interface has one.

    Returns:
        The final figures.

    Raises:
        GatewayError: The interface, the ring or the control socket cannot be had.
    """
    refuse_kernel_forwarding()
    use_exact_timers()
    port = RingPort(interface, held_frames_of(model, 9014), ring_bytes, accept)
    try:
        table = ForwardingTable.build(port.mac, own_addresses(), neighbours)
        line = None
        if batch and (known := line_of(interface)):
            ahead = min(BATCH, known.queue_frames // _SHARE_OF_QUEUE)
            line = Line(known.rate_bps, known.overhead_bytes, ahead)
        return ForwardDaemon(port, Forwarder(port, table, Station(model), line), control).run()
    finally:
        port.close()
