"""What happened lately, numbered: what the log, the REST interface and the event stream read. Pure and bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

CAPACITY = 10_000
MOST_CHARACTERS = 500


class Severity(str, Enum):
    """How much an entry matters."""

    INFO = "info"
    WARNING = "warning"


class Kind(str, Enum):
    """What an entry is about."""

    CONTROLLER = "controller"
    """Start, roles, readiness."""
    SWITCH = "switch"
    """A switch's connection and state."""
    PORT = "port"
    LINK = "link"
    """A link is used, or avoided, from now on."""
    PATHS = "paths"
    """Packets take other paths."""
    DISCOVERY = "discovery"
    """What LLDP finds differs from the fabric, or no longer does."""
    VIOLATION = "violation"
    """A sender did what it must not."""
    TENANCY = "tenancy"
    """A tenant's change, and that it is installed."""
    BALANCE = "balance"
    """A large flow was moved."""
    GATEWAY = "gateway"
    """A gateway's daemon: connected, told, lost, or not to be told."""


@dataclass(frozen=True)
class Entry:
    """Something that happened.

    Attributes:
        number: From 1, without gaps.
        time_ns: When, in ns since 1970 on the controller's clock.
        kind: What it is about.
        severity: How much it matters.
        message: One line for people.
        fields: The same for programs, JSON-like.
    """

    number: int
    time_ns: int
    kind: Kind
    severity: Severity
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


class Journal:
    """The last entries.

    Args:
        capacity: How many are kept.

    Attributes:
        epoch_ns: Added to the times given to `add`, so that entries have times of day. Whoever owns the clock sets it.
        last: Number of the last entry, or 0.
        origin_ns: Time of the first entry ever; tells numbers of this journal from those of another controller's life.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: deque[Entry] = deque(maxlen=capacity)
        self._listeners: list[Callable[[Entry], None]] = []
        self.last = 0
        self.epoch_ns = 0
        self.origin_ns = 0

    @property
    def first(self) -> int:
        """Number of the oldest entry that is kept; one more than the last if there is none."""
        return self._entries[0].number if self._entries else self.last + 1

    def add(
        self, now_ns: int, kind: Kind, message: str, *, severity: Severity = Severity.INFO, **fields: object
    ) -> Entry:
        """Note something.

        Args:
            now_ns: When, on the clock of the events.
            kind: What it is about.
            message: One line for people; longer ones are cut.
            severity: How much it matters.
            fields: The same for programs.
        """
        self.last += 1
        text = " ".join(message.split())
        if len(text) > MOST_CHARACTERS:
            text = f"{text[: MOST_CHARACTERS - 1]}…"
        entry = Entry(self.last, now_ns + self.epoch_ns, kind, severity, text, fields)
        self._entries.append(entry)
        if self.last == 1:
            self.origin_ns = entry.time_ns
        for listener in self._listeners:
            listener(entry)
        return entry

    def since(
        self, number: int = 0, kinds: Collection[Kind] | None = None, limit: int | None = None
    ) -> tuple[Entry, ...]:
        """The entries after a number, oldest first.

        Args:
            number: Only entries with a greater one.
            kinds: Only these; None: all.
            limit: At most so many, the oldest ones.
        """
        found: list[Entry] = []
        # Entries are numbered without gaps, so where to begin need not be searched.
        start = max(0, number + 1 - self.first)
        for index in range(start, len(self._entries)):
            entry = self._entries[index]
            if kinds is None or entry.kind in kinds:
                found.append(entry)
                if limit is not None and len(found) >= limit:
                    break
        return tuple(found)

    def listen(self, listener: Callable[[Entry], None]) -> Callable[[], None]:
        """Have a function called with each new entry; returns a function that ends it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end
