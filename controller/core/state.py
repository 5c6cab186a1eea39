"""Where a switch can be; see the drawing in `controller.core.session`."""

from __future__ import annotations

from enum import Enum


class State(str, Enum):
    """Where a switch is, see the drawing in `controller.core.session`."""

    ABSENT = "absent"
    CLAIMING = "claiming"
    STANDBY = "standby"
    READING = "reading"
    VERIFYING = "verifying"
    READY = "ready"
    UPDATING = "updating"
    FAILED = "failed"


BUSY = (State.CLAIMING, State.READING, State.VERIFYING, State.UPDATING)
"""States in which an answer of the switch is awaited."""
