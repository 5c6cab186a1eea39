"""The forwarding daemon: a forwarder on a ring, its timer, control socket and signals, from start to clean end."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.errors import GatewayError
from emulator.model.profile import StationModel
from gateway.control import ControlServer
from gateway.filter import Instruction
from gateway.forward import Forwarder, Line
from gateway.interface import line_of, own_addresses, refuse_kernel_forwarding
from gateway.loop import HeldSignals, Loop, StopSignals, When
from gateway.pipeline import ForwardingTable
from gateway.port import BATCH
from gateway.ring import RingPort
from gateway.station import Station
from gateway.timer import CLOCK_REALTIME, Timer, use_exact_timers
from gateway.upgrade import Predecessor

if TYPE_CHECKING:
    from emulator.messages import gateway as messages

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


@dataclass(frozen=True)
class Inputs:
    """What the daemon's files say.

    Attributes:
        model: The station that frames pass.
        neighbours: Where each destination is.
    """

    model: StationModel
    neighbours: dict[IPv4Address, bytes]

    def table(self, mac: bytes) -> ForwardingTable:
        """The forwarding table of a port with this Ethernet address."""
        return ForwardingTable.build(mac, own_addresses(), self.neighbours)


class ForwardDaemon:
    """Forwards until it is told to stop.

    Args:
        port: The ring.
        forwarder: What moves the frames.
        control: Path of the control socket.
        read: Reads the daemon's files.
        listener: The control socket of the daemon whose place this one takes.
        started: Is called as soon as everything is ready, before the first frame is touched.
    """

    mode = "forward"

    def __init__(
        self,
        port: RingPort,
        forwarder: Forwarder,
        control: Path,
        read: Callable[[], Inputs],
        listener: socket.socket | None = None,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._port = port
        self._forwarder = forwarder
        self._control_path = control
        self._read = read
        self._listener = listener
        self._started = started
        self._stopping = False
        self._answered = False
        self._handed_over = False
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

    def reload(self) -> dict[str, Any]:
        """See `Reloadable`."""
        inputs = self._read()
        self._forwarder.replace_table(inputs.table(self._port.mac))
        self._forwarder.station.change(inputs.model)
        return {"neighbours": len(inputs.neighbours), "profile": self.profile()}

    def profile(self) -> dict[str, Any]:
        """See `Profiled`."""
        return asdict(self._forwarder.station.model)

    def set_profile(self, profile: messages.Profile) -> None:
        """See `Profiled`; the ring keeps its length, so a longer queue may end in it."""
        self._forwarder.station.change(StationModel(**profile.model_dump()))

    def hand_over(self) -> tuple[dict[str, Any], list[int]]:
        """See `Upgradable`: the ring with all that lies in it, and what was decided about it."""
        if self._forwarder.draining:
            raise GatewayError("the daemon is about to end: there is nothing to take over")
        state = {"kind": self.mode, "port": self._port.export(), "forwarder": self._forwarder.export()}
        return state, [self._port.fileno()]

    def _was_taken(self, taken: bool) -> None:
        self._handed_over = taken

    def run(self) -> dict[str, Any]:
        """Forward until stopped by the control socket or a signal, or replaced.

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
            control = ControlServer(self._control_path, loop, self, self._was_taken, self._listener)
            stack.callback(control.close)
            self._started()
            self._loop(loop, timer, control)
            return {**self.stats(), "handed_over": True} if self._handed_over else self.stats()

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
            if self._handed_over:
                return
            accept()


def run_forward(
    interface: str,
    read: Callable[[], Inputs],
    control: Path,
    *,
    ring_bytes: int,
    accept: tuple[Instruction, ...] = (),
    batch: bool = True,
    takes_over: bool = False,
) -> dict[str, Any]:
    """Set up a forwarding daemon on an interface and run it to its end.

    Args:
        interface: Where frames come in and go out.
        read: Reads the daemon's files.
        control: Path of the control socket.
        ring_bytes: Memory that the ring may take.
        accept: Classic BPF program for the ring.
        batch: Hand frames early to a line that is busy anyway (see `Line`), if the interface has one.
        takes_over: Take the place of the daemon that listens on *control*, with its ring, losing nothing.

    Returns:
        The final figures.

    Raises:
        GatewayError: The interface, the ring or the control socket cannot be had, or there is no one to replace.
    """
    refuse_kernel_forwarding()
    use_exact_timers()
    inputs = read()
    line = _line(interface) if batch else None
    with contextlib.ExitStack() as stack:
        stack.enter_context(HeldSignals())
        if not takes_over:
            port = RingPort(interface, held_frames_of(inputs.model, 9014), ring_bytes, accept)
            stack.callback(port.close)
            forwarder = Forwarder(port, inputs.table(port.mac), Station(inputs.model), line)
            return ForwardDaemon(port, forwarder, control, read).run()
        before = stack.enter_context(Predecessor(control, ForwardDaemon.mode))
        [descriptor] = before.descriptors
        if before.state["port"]["interface"] != interface:
            raise GatewayError(f"the daemon on {control} serves {before.state['port']['interface']}, not {interface}")
        port = RingPort.take_over(descriptor, before.state["port"])
        stack.callback(port.close)
        left = before.state["forwarder"]
        station = Station.restore(left["station"])
        station.change(inputs.model)
        forwarder = Forwarder(port, inputs.table(port.mac), station, line)
        forwarder.restore(left, [(due_ns, port.held(*frame)) for due_ns, *frame in left["held"]])
        return ForwardDaemon(port, forwarder, control, read, before.listener, before.taken).run()


def _line(interface: str) -> Line | None:
    known = line_of(interface)
    if known is None:
        return None
    ahead = min(BATCH, known.queue_frames // _SHARE_OF_QUEUE)
    return Line(known.rate_bps, known.overhead_bytes, ahead)
