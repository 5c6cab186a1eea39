"""The forwarder: frames from a port through pipeline and station and back to the port. No clock and no waiting here.

A frame is decided on and enters the station when it is received, with the time at which the kernel stamped it, and is
held in the port's memory until it is due. Because the station is first in first out, frames that have not been looked
at yet are due after all that are held; so nothing is lost or late if the forwarder looks at arrivals only when it
sends, and a frame costs one wake-up, not two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.counters import Counters, Reason
from gateway.pipeline import ForwardingTable, decide, rewrite
from gateway.port import BATCH, Frame, Port, Sent
from gateway.station import Station

_LOSS = {Sent.NO_ROOM: Reason.EGRESS_FULL, Sent.REFUSED: Reason.SEND_FAILED}


class Line:
    """The line behind a port, as far as the forwarder needs to know it: until when it is busy.

    A frame that is due while the line still carries those before it has to wait for the line in any case. So it may be
    handed to the interface's queue together with them: it is on the line at the same nanosecond, for one system call
    and one wake-up less. With a line of the same rate at the ingress, frames that come back to back leave in one batch.

    Args:
        rate_bps: Line rate in bit/s.
        overhead_bytes: Bytes on the line for each frame besides the frame itself.
        ahead_frames: Frames that may be handed over ahead of their time: few enough that the queue never overflows
            because of it.
    """

    def __init__(self, rate_bps: int, overhead_bytes: int, ahead_frames: int = BATCH) -> None:
        self.rate_bps = rate_bps
        self.overhead_bytes = overhead_bytes
        self.ahead_frames = ahead_frames
        self.free_at_ns = 0

    def occupy(self, start_ns: int, frame_bytes: int) -> None:
        """Account for a frame that is sent at *start_ns* or when the line is free, whichever is later.

        The time on the line is rounded down, as netem does: claiming too much would let the next frame leave early.
        """
        time_ns = (frame_bytes + self.overhead_bytes) * 8_000_000_000 // self.rate_bps
        free = self.free_at_ns
        self.free_at_ns = (start_ns if start_ns > free else free) + time_ns


class Forwarder:
    """Moves frames of one port.

    Attributes:
        counters: What happened so far.
        station: The service station that all forwarded frames pass.
    """

    def __init__(self, port: Port, table: ForwardingTable, station: Station, line: Line | None = None) -> None:
        self._port = port
        self._line = line
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
        """Send every held frame that is due by *now_ns*, and those that the busy line makes wait past their time."""
        held, line = self._held, self._line
        ahead = line.ahead_frames if line is not None else 0
        batch: list[Frame] = []
        while held:
            due_ns, frame = held[0]
            if due_ns > now_ns:
                if line is None or due_ns > line.free_at_ns or not ahead:
                    break
                ahead -= 1
            if len(batch) == BATCH:
                self._send(batch)
                batch = []
            held.popleft()
            batch.append(frame)
            if line is not None:
                line.occupy(due_ns, frame.end - frame.start)
        if batch:
            self._send(batch)

    def _send(self, batch: list[Frame]) -> None:
        """Send up to `BATCH` frames and give them back."""
        port, counters = self._port, self.counters
        rest = batch
        counters.tx_batches += 1
        while rest:
            done, outcome = port.send(rest)
            counters.tx_frames += done
            for frame in rest[:done]:
                counters.tx_bytes += frame.end - frame.start
            if outcome is not Sent.DONE:
                counters.count(_LOSS[outcome])
                done += 1
            rest = rest[done:]
        for frame in batch:
            port.release(frame)

    def clock_was_set(self) -> None:
        """Times of arrival and departure lost their meaning: send all that is held, begin anew."""
        self.counters.clock_steps += 1
        if self._held:
            self.depart(self._held[-1][0])
        self.station.reset_clock()
        if self._line is not None:
            self._line.free_at_ns = 0

    def drain(self) -> None:
        """Forward what is held, and from now on count what arrives instead of forwarding it."""
        self.accept()
        self._draining = True

    @property
    def drained(self) -> bool:
        """Whether `drain` was called and nothing is held any more."""
        return self._draining and not self._held

    def replace_table(self, table: ForwardingTable) -> None:
        """Decide by another table from now on; what is held leaves as was decided."""
        self._table = table

    def export(self) -> dict[str, Any]:
        """What a successor on the same port must know; frames that are held are named by their slots."""
        return {
            "held": [[due_ns, frame.slot, frame.start, frame.end, frame.packets] for due_ns, frame in self._held],
            "counters": self.counters.as_json(),
            "station": self.station.export(),
            "line_free_at_ns": self._line.free_at_ns if self._line is not None else 0,
        }

    def restore(self, state: Mapping[str, Any], held: Iterable[tuple[int, Frame]]) -> None:
        """Go on where a predecessor on the same port was.

        Args:
            state: What it exported; its station's state is for `Station.restore`.
            held: Its frames with their times, as this process sees them.
        """
        self._held.extend(held)
        self.counters.restore(state["counters"])
        if self._line is not None:
            self._line.free_at_ns = state["line_free_at_ns"]

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        return self._draining

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
