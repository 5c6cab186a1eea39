"""Which of two controllers decides: the one that holds a lease in the store that they share. Pure.

::

    standby ──acquired──▶ active ──renewed every second──▶ active
       ▲                    │
       └── lost, or not renewed before its end ──┘

Times are those of one machine's monotonic clock, which all its processes share. It starts anew when the machine does,
so what was promised before may seem to lie far ahead; therefore a lease that nobody renews for its whole length counts
as ended, whatever is written in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

LENGTH_NS = 3 * 10**9
RENEW_NS = 10**9


class Lease(Protocol):
    """Who holds the lease, as the store says."""

    @property
    def holder(self) -> str:
        """Name of the controller."""

    @property
    def generation(self) -> int:
        """Grows with every change of holder."""

    @property
    def expires_ns(self) -> int:
        """When it ends, on the clock of whoever renewed it."""


class Attempt(str, Enum):
    """What to do with the lease in the store."""

    ACQUIRE = "acquire"
    RENEW = "renew"


@dataclass(frozen=True)
class Step:
    """Something to be done with the store.

    Attributes:
        attempt: What.
        now_ns: The time to give.
        generation: Of the lease that is to be renewed.
    """

    attempt: Attempt
    now_ns: int
    generation: int = 0


class Election:
    """One controller's part.

    Args:
        name: Which controller this is, unique among all that share the store.

    Attributes:
        active: Whether this controller decides.
        generation: Of the lease, as far as known.
        holder: Name of the controller that decides, as far as known; empty: none.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.active = False
        self.generation = 0
        self.holder = ""
        self._until_ns = 0
        self._next_ns: int | None = None
        self._seen: Lease | None = None
        self._seen_ns = 0
        self._skew_ns = 0

    def next_ns(self, now_ns: int) -> int:
        """When `step` should be called."""
        return now_ns if self._next_ns is None else min(self._next_ns, now_ns + RENEW_NS)

    def step(self, now_ns: int) -> Step:
        """What to do now; to be followed by `answered`."""
        if self.active:
            return Step(Attempt.RENEW, now_ns + self._skew_ns, self.generation)
        if self._seen is not None and now_ns - self._seen_ns >= LENGTH_NS:
            # Its holder has been silent for longer than it may, so its clock was another one. Go on from there: what
            # is renewed must change, or others would take it for silence.
            self._skew_ns = max(0, self._seen.expires_ns - now_ns)
        return Step(Attempt.ACQUIRE, now_ns + self._skew_ns)

    def answered(self, lease: Lease | None, now_ns: int) -> None:
        """What the store said: the lease as it is now; None: it is lost, or the store cannot be used."""
        if lease is None:
            if self.active and now_ns >= self._until_ns - RENEW_NS:
                self._lose()
            self._next_ns = now_ns + RENEW_NS // 4
            return
        if lease != self._seen or now_ns < self._seen_ns:
            self._seen, self._seen_ns = lease, now_ns
        self.holder, self.generation = lease.holder, lease.generation
        self.active = lease.holder == self.name
        if self.active:
            self._until_ns = now_ns + LENGTH_NS
            self._next_ns = now_ns + RENEW_NS
        else:
            left_ns = max(0, min(lease.expires_ns - now_ns - self._skew_ns, RENEW_NS))
            self._next_ns = now_ns + max(left_ns, RENEW_NS // 100)

    def lost(self, now_ns: int) -> None:
        """Somebody else took the lease, or a switch knows a later generation."""
        self._lose()
        self._next_ns = now_ns + RENEW_NS // 4

    def _lose(self) -> None:
        self.active = False
        self.holder = ""
        self._seen = None
