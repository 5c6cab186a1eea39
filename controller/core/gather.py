"""Holds the first commands back until all switches are there, so that all that they know is known before."""

from __future__ import annotations

from controller.events import Command


class Gathering:
    """The time after the start.

    Args:
        limit_ns: How long to wait after the first switch; 0: not at all.

    Attributes:
        waiting: Whether commands are held back.
    """

    def __init__(self, limit_ns: int) -> None:
        self.waiting = limit_ns > 0
        self._limit_ns = limit_ns
        self._until_ns: int | None = None
        self._held: list[Command] = []

    def take(self, commands: list[Command], now_ns: int) -> list[Command]:
        """Hold commands back, or return them."""
        if not self.waiting:
            return commands
        if self._until_ns is None:
            self._until_ns = now_ns + self._limit_ns
        self.drop(*(command.dpid for command in commands))
        self._held += commands
        return []

    def drop(self, *dpids: int) -> None:
        """Forget what was held back for some switches."""
        self._held = [command for command in self._held if command.dpid not in dpids]

    def look(self, now_ns: int, *, complete: bool) -> list[Command]:
        """What was held back, if all are there or the time is over."""
        if self._until_ns is None or not (complete or now_ns >= self._until_ns):
            return []
        held = self._held
        self.end()
        return held

    def end(self) -> None:
        """Hold nothing back any more; what was held back is forgotten."""
        self.waiting = False
        self._held = []
        self._until_ns = None

    def next_ns(self) -> int | None:
        """When `look` should be called; None: only after a switch came."""
        return self._until_ns
