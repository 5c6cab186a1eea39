"""Two switches with the same datapath id: the newer connection wins, unless that happens again and again. Pure.

A switch that starts anew, or whose old connection is dead without anybody having noticed, must get in. Two that are
both alive would throw each other out for ever; so after some changes the one that is in stays.
"""

from __future__ import annotations

from collections import deque

MOST_CHANGES = 3
PERIOD_NS = 30 * 10**9


class Rivals:
    """Replaced connections of the last half minute."""

    def __init__(self) -> None:
        self._changes: dict[int, deque[int]] = {}

    def admit(self, dpid: int, now_ns: int) -> bool:
        """Whether a new connection replaces the one that is there."""
        changes = self._changes.setdefault(dpid, deque())
        while changes and not 0 <= now_ns - changes[0] < PERIOD_NS:
            changes.popleft()
        if len(changes) >= MOST_CHANGES:
            return False
        changes.append(now_ns)
        return True
