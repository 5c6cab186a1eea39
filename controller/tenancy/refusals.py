"""Changes that are not made, and why."""

from __future__ import annotations

from enum import Enum

from emulator.errors import ControllerError


class Why(str, Enum):
    """The kind of a refusal."""

    INVALID = "invalid"
    """A value that can never be right."""
    MISSING = "missing"
    """Names something that does not exist."""
    CONFLICT = "conflict"
    """Does not fit what is declared already, or is still in use."""
    STALE = "stale"
    """The caller knows another version than the one that is there."""
    ABSENT = "absent"
    """What is to be changed or read, or what it would be part of, does not exist."""
    FULL = "full"
    """A limit is reached."""


class Refused(ControllerError):
    """A change of the declared resources that was not made.

    Args:
        why: The kind of refusal.
        detail: One sentence without a full stop.
        field: Path of the field that it is about, like ``cidrs[1]``; None: the resource as a whole.
    """

    def __init__(self, why: Why, detail: str, field: str | None = None) -> None:
        super().__init__(why, detail, field)
        self.why = why
        self.detail = detail
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}" if self.field else self.detail
