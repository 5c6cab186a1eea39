"""How rounds of a collective end, well or not."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.errors import WorkloadError
from emulator.units import NS_PER_S, format_time

PATIENCE_NS = 20 * NS_PER_S
"""For how long nothing may happen."""


@dataclass(frozen=True)
class Outcome:
    """What some rounds of a collective came to.

    Attributes:
        start_ns: When all ranks began, CLOCK_MONOTONIC.
        ends_ns: When each rank had the last round's result, CLOCK_MONOTONIC.
        wrong: Numbers that were not what they should be, in all rounds and of all ranks.
    """

    start_ns: int
    ends_ns: tuple[int, ...]
    wrong: int


def broken(what: str, source: str, target: str, error: OSError | None) -> WorkloadError:
    """A connection broke, with an error or because the other end closed it."""
    reason = "the connection ended" if error is None else str(error.strerror or error)
    return WorkloadError(f"workload {what}: {source} to {target}: {reason}")


def stalled(what: str, waiting: str, connections: int, patience_ns: int) -> WorkloadError:
    """Nothing happens any more; *waiting* says who waits for whom."""
    if not waiting:
        return WorkloadError(f"workload {what}: nothing happens any more, and nobody waits for a message")
    return WorkloadError(
        f"workload {what}: for {format_time(patience_ns)} nothing came; {waiting} ({connections} connections wait)"
    )
