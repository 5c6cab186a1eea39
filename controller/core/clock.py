"""A time that only goes forward, made of one that may jump."""

from __future__ import annotations


class Steady:
    """Follows another clock, and goes on from where it was when that one is set back."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._ahead_ns = 0

    def at(self, now_ns: int) -> int:
        """The steady time at a time of the other clock."""
        steady_ns = now_ns + self._ahead_ns
        if self._last_ns is not None and steady_ns < self._last_ns:
            self._ahead_ns = self._last_ns - now_ns
            steady_ns = self._last_ns
        self._last_ns = steady_ns
        return steady_ns

    @property
    def now_ns(self) -> int:
        """The other clock at the last steady time."""
        return self.back(self._last_ns or 0)

    def back(self, steady_ns: int) -> int:
        """The time of the other clock at a steady time."""
        return steady_ns - self._ahead_ns
