"""Payload that each flow has delivered, sampled over time, and the rates and shares that follow from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from emulator.errors import WorkloadError
from emulator.units import NS_PER_S


@dataclass
class FlowSamples:
    """What one flow had delivered at several moments.

    Attributes:
        times_ns: When, ascending.
        received_bytes: Payload received in order by then.
    """

    times_ns: list[int] = field(default_factory=list)
    received_bytes: list[int] = field(default_factory=list)

    def add(self, time_ns: int, received_bytes: int) -> None:
        """Add a reading; one that goes back (a new connection on the port) is ignored."""
        if not self.received_bytes or received_bytes >= self.received_bytes[-1]:
            self.times_ns.append(time_ns)
            self.received_bytes.append(received_bytes)

    def at(self, time_ns: int) -> float:
        """Payload delivered by a time between two readings, by linear interpolation."""
        times, received = self.times_ns, self.received_bytes
        if time_ns <= times[0]:
            return float(received[0])
        for index in range(1, len(times)):
            if time_ns <= times[index]:
                share = (time_ns - times[index - 1]) / (times[index] - times[index - 1])
                return received[index - 1] + share * (received[index] - received[index - 1])
        return float(received[-1])

    def start_ns(self, beyond_bytes: int) -> int | None:
        """The first reading with more than *beyond_bytes*."""
        for time_ns, received in zip(self.times_ns, self.received_bytes, strict=True):
            if received > beyond_bytes:
                return time_ns
        return None

    def end_ns(self) -> int:
        """The last reading at which payload still came in."""
        for index in range(len(self.times_ns) - 1, 0, -1):
            if self.received_bytes[index] > self.received_bytes[index - 1]:
                return self.times_ns[index]
        return self.times_ns[0]


CONTROL_BYTES = 16 << 10
"""Less than this has nothing to say: iperf3's own control messages are about this small."""


def window_ns(flows: Sequence[FlowSamples], warm_up_ns: int) -> tuple[int, int]:
    """The time in which all flows send: from *warm_up_ns* after the last has started until the first has ended.

    Raises:
        WorkloadError: There is no such time.
    """
    starts = [flow.start_ns(CONTROL_BYTES) for flow in flows]
    silent = [index for index, start in enumerate(starts) if start is None]
    if silent:
        raise WorkloadError(f"flow {silent[0]} delivered nothing")
    begin_ns = max(start for start in starts if start is not None) + warm_up_ns
    end_ns = min(flow.end_ns() for flow in flows)
    if end_ns <= begin_ns:
        raise WorkloadError(
            f"the first flow ended {begin_ns - end_ns} ns before all had started and warmed up for {warm_up_ns} ns: "
            "send for longer"
        )
    return begin_ns, end_ns


def goodputs_bps(flows: Sequence[FlowSamples], window: tuple[int, int]) -> list[float]:
    """Payload rate of each flow within the window."""
    begin_ns, end_ns = window
    return [(flow.at(end_ns) - flow.at(begin_ns)) * 8 * NS_PER_S / (end_ns - begin_ns) for flow in flows]
