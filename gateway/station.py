"""The service station: when a packet leaves a data plane, or that it is dropped. Pure: no clock, no I/O.

A `Station` is a single server with a first-in-first-out queue of finite length, followed by a fixed latency (see
`emulator.model.profile.StationModel`). Arrivals must be given in order of time; each answer is final, so the caller
needs no event at the start or the end of a service.

Times are kept as integers in a unit so fine that the service times of the model are whole multiples of it. Nothing is
rounded until a departure is told, hence the long-run rate is the stated one to the last packet (rounding 67.2 ns up to
68 ns would cost 1.2 %).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from math import gcd, lcm
from typing import Any

from emulator.model.profile import StationModel

_NS_PER_S = 10**9


class Station:
    """A running station.

    Attributes:
        model: Its parameters.
        served_packets: Packets accepted so far.
        dropped_packets: Packets refused because the queue was full.
        wait_ns: Sum of the waiting times of all accepted arrivals, in ns (rounded down).
        peak_waiting_packets: Most packets that waited at the same time.
    """

    __slots__ = (
        "_busy",
        "_free",
        "_last",
        "_latency",
        "_per_byte",
        "_per_packet",
        "_scale",
        "_starts",
        "_wait",
        "_waiting",
        "dropped_packets",
        "model",
        "peak_waiting_packets",
        "served_packets",
    )

    def __init__(self, model: StationModel) -> None:
        self._configure(model)
        self._free = 0
        self._last = 0
        self._starts: deque[tuple[int, int]] = deque()
        self._waiting = 0
        self._wait = 0
        self._busy = 0
        self.served_packets = 0
        self.dropped_packets = 0
        self.peak_waiting_packets = 0

    def _configure(self, model: StationModel) -> None:
        packet_rate, bit_rate = model.packet_rate, model.bit_rate_bps
        scale = 1
        if packet_rate:
            scale = lcm(scale, packet_rate // gcd(packet_rate, _NS_PER_S))
        if bit_rate:
            scale = lcm(scale, bit_rate // gcd(bit_rate, 8 * _NS_PER_S))
        self.model = model
        self._scale = scale
        self._per_packet = _NS_PER_S * scale // packet_rate if packet_rate else 0
        self._per_byte = 8 * _NS_PER_S * scale // bit_rate if bit_rate else 0
        self._latency = model.latency_ns * scale

    def arrive(self, now_ns: int, size_bytes: int, packets: int = 1) -> int | None:
        """Take an arrival and say when it leaves.

        Args:
            now_ns: Time of arrival; earlier than the arrival before counts as that one's time.
            size_bytes: Its length in bytes.
            packets: How many packets it stands for (a super-packet or a chunk of a byte stream).

        Returns:
            Time of departure in ns, never earlier than those told before; None: the queue is full, it is dropped.
        """
        now = now_ns * self._scale
        if now < self._last:
            now = self._last
        else:
            self._last = now
        start = self._free
        if start <= now:
            start = now
            if self._waiting:
                self._starts.clear()
                self._waiting = 0
        else:
            starts = self._starts
            while starts and starts[0][0] <= now:
                self._waiting -= starts.popleft()[1]
            waiting = self._waiting + packets
            if waiting > self.model.queue_packets:
                self.dropped_packets += packets
                return None
            starts.append((start, packets))
            self._waiting = waiting
            self._wait += start - now
            if waiting > self.peak_waiting_packets:
                self.peak_waiting_packets = waiting
        service = max(self._per_packet * packets, self._per_byte * size_bytes)
        self._free = start + service
        self._busy += service
        self.served_packets += packets
        return -(-(start + max(self._latency, service)) // self._scale)

    @property
    def free_at_ns(self) -> int:
        """Time at which the server has done all it accepted, in ns (rounded up)."""
        return -(-self._free // self._scale)

    @property
    def busy_ns(self) -> int:
        """Time for which the server has been and will be busy with all it accepted, in ns (rounded down)."""
        return self._busy // self._scale

    @property
    def wait_ns(self) -> int:
        """Sum of the waiting times of all accepted arrivals, in ns (rounded down)."""
        return self._wait // self._scale

    def reset_clock(self) -> None:
        """Forget all times (the clock was set): the next arrival finds an idle server. Counters stay."""
        self._free = self._last = self._waiting = 0
        self._starts.clear()

    def change(self, model: StationModel) -> None:
        """Go on with other parameters.

        Departures that were told stay as they are, and later ones are not earlier than they. Packets that wait keep
        their places, also if there are more of them than the new queue would take.
        """
        free, last, busy, wait, latency = self._free, self._last, self._busy, self._wait, self._latency
        old = self._scale
        self._configure(model)

        def converted(time: int) -> int:
            return -(-time * self._scale // old)

        # The latest departure that was told is at most the old latency after the server is free.
        self._free = max(converted(free), converted(free + latency) - self._latency) if free else 0
        self._last, self._busy, self._wait = converted(last), converted(busy), converted(wait)
        self._starts = deque((converted(start), packets) for start, packets in self._starts)

    def export(self) -> dict[str, Any]:
        """All state, for `restore` in another process; times are in units of this model."""
        return {
            "model": asdict(self.model),
            "free": self._free,
            "last": self._last,
            "starts": list(self._starts),
            "waiting": self._waiting,
            "wait": self._wait,
            "busy": self._busy,
            "counted": [self.served_packets, self.dropped_packets, self.peak_waiting_packets],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Station:
        """A station that goes on where another one was."""
        station = cls(StationModel(**state["model"]))
        station._free, station._last, station._waiting = state["free"], state["last"], state["waiting"]
        station._wait, station._busy = state["wait"], state["busy"]
        station._starts.extend((start, packets) for start, packets in state["starts"])
        station.served_packets, station.dropped_packets, station.peak_waiting_packets = state["counted"]
        return station

    def as_json(self) -> dict[str, int | str | None]:
        """Parameters and counters as plain data."""
        model = self.model
        return {
            "latency_ns": model.latency_ns,
            "packet_rate": model.packet_rate,
            "bit_rate_bps": model.bit_rate_bps,
            "queue_packets": model.queue_packets,
            "source": model.source,
            "served_packets": self.served_packets,
            "dropped_packets": self.dropped_packets,
            "busy_ns": self.busy_ns,
            "wait_ns": self.wait_ns,
            "peak_waiting_packets": self.peak_waiting_packets,
        }
