"""The forwarder: frames from a port through pipeline and station and back to the port. No clock and no waiting here.

A frame is decided on and enters the station when it is received, with the time at which the kernel stamped it, and is
held in the port's memory until it is due. Because the station is first in first out, frames that have not been looked
at yet are due after all that are held; so nothing is lost or late if the forwarder looks at arrivals only when it
sends, and a frame costs one wake-up, not two.
"""

from __future__ import annotations

from collections import deque

from gateway.counters import Counters, Reason
from gateway.pipeline import ForwardingTable, decide, rewrite
from gateway.port import Frame, Port, Sent
from gateway.station import Station

BATCH = 64
"""Frames received at a time, so that one burst does not delay what is due."""

_LOSS = {Sent.NO_ROOM: Reason.EGRESS_FULL, Sent.REFUSED: Reason.SEND_FAILED}


class Forwarder:
    """Moves frames of one port.

    Attributes:
        counters: What happened so far.
        station: The service station that all forwarded frames pass.
    """

    def __init__(self, port: Port, table: ForwardingTable, station: Station) -> None:
        self._port = port
        self._table = table
        self._held: deque[tuple[int, Frame]] = deque()
        self._draining = False
        self.counters = Counters()
        self.station = station

    @property
    def next_due_ns(self) -> int | None:
        """When the next held frame is to be sent; None: none is held."""
        return self._held[0][0] if self._held else None

    @property
    def held_frames(self) -> int:
        """Frames that wait in the port's memory for their time."""
        return len(self._held)

    def accept(self) -> None:
        """Take in everything that arrived: hold what is forwarded, give back the rest."""
        port = self._port
        while frames := port.receive(BATCH):
            for frame in frames:
                self._take(frame)
            if len(frames) < BATCH:
                return

    def _take(self, frame: Frame) -> None:
        counters = self.counters
        size = frame.end - frame.start
        counters.rx_frames += 1
        counters.rx_bytes += size
        verdict: bytes | Reason
        if self._draining:
            verdict = Reason.DRAINING
        elif frame.tagged:
            verdict = Reason.VLAN
        elif not frame.whole:
            verdict = Reason.TRUNCATED
        else:
            verdict = decide(frame.buffer, frame.start, frame.end, self._table)
            if verdict.__class__ is bytes:
                due_ns = self.station.arrive(frame.arrival_ns, size, frame.packets)
                if due_ns is not None:
                    rewrite(frame.buffer, frame.start, verdict)
                    self._held.append((due_ns, frame))
                    return
                verdict = Reason.STATION_FULL
        counters.not_forwarded[verdict] += 1  # type: ignore[index]  # not bytes: those returned or were replaced
        self._port.release(frame)

    def depart(self, now_ns: int) -> None:
        """Send every held frame that is due by *now_ns*."""
        held, port, counters = self._held, self._port, self.counters
        while held and held[0][0] <= now_ns:
            frame = held.popleft()[1]
            sent = port.send(frame)
            if sent is Sent.DONE:
                counters.tx_frames += 1
                counters.tx_bytes += frame.end - frame.start
            else:
                counters.count(_LOSS[sent])
            port.release(frame)

    def clock_was_set(self) -> None:
        """Times of arrival and departure lost their meaning: send all that is held, begin anew."""
        self.counters.clock_steps += 1
        if self._held:
            self.depart(self._held[-1][0])
        self.station.reset_clock()

    def drain(self) -> None:
        """Forward what is held, and from now on count what arrives instead of forwarding it."""
        self.accept()
        self._draining = True

    @property
    def drained(self) -> bool:
        """Whether `drain` was called and nothing is held any more."""
        return self._draining and not self._held

    def as_json(self) -> dict[str, object]:
        """Counters, station and port as plain data."""
        self.counters.not_forwarded[Reason.RING_FULL] = self._port.lost_frames()
        return {
            "mode": "forward",
            "draining": self._draining,
            "held_frames": len(self._held),
            "counters": self.counters.as_json(),
            "station": self.station.as_json(),
            "port": self._port.as_json(),
        }
