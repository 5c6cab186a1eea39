"""Keeps links that flap from being used again too soon: penalties that decay, after RFC 2439.

Every time a link goes down it earns a penalty. A link whose penalty exceeds one threshold is not used until the penalty
has decayed below another one. The RFC's figures are for routes of the Internet and minutes; the proportions are
kept (a third failure in short order suppresses, RFC 2439 section 4.2), the half-life is one for links of a fabric.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2

PENALTY = 1000.0
SUPPRESS_ABOVE = 2000.0
REUSE_BELOW = 750.0
MOST_PENALTY = 6000.0
HALF_LIFE_NS = 2 * 10**9


@dataclass
class _History:
    penalty: float
    since_ns: int
    suppressed: bool = False


@dataclass
class Damper:
    """Penalties of links, by name.

    Attributes:
        half_life_ns: In this time a penalty halves. With the defaults a suppressed link waits 2.8 s to 6 s.
    """

    half_life_ns: int = HALF_LIFE_NS
    _links: dict[str, _History] = field(default_factory=dict)

    def failed(self, link: str, now_ns: int) -> None:
        """A link went down."""
        history = self._links.setdefault(link, _History(0.0, now_ns))
        self._decay(history, now_ns)
        history.penalty = min(history.penalty + PENALTY, MOST_PENALTY)
        history.suppressed = history.suppressed or history.penalty > SUPPRESS_ABOVE

    def suppressed(self, now_ns: int) -> frozenset[str]:
        """The links that are not to be used now."""
        found = set()
        for link, history in list(self._links.items()):
            self._decay(history, now_ns)
            if history.penalty < REUSE_BELOW:
                del self._links[link]
            elif history.suppressed:
                found.add(link)
        return frozenset(found)

    def next_ns(self) -> int | None:
        """When the first of the suppressed links may be used again; None: none is suppressed."""
        times = [
            history.since_ns + int(self.half_life_ns * log2(history.penalty / REUSE_BELOW)) + 1
            for history in self._links.values()
            if history.suppressed
        ]
        return min(times, default=None)

    def _decay(self, history: _History, now_ns: int) -> None:
        # A clock that was set back must not make penalties grow.
        elapsed_ns = max(0, now_ns - history.since_ns)
        history.penalty *= 0.5 ** (elapsed_ns / self.half_life_ns)
        history.since_ns = now_ns
