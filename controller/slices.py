"""Long work in slices, so that switches, the lease and other requests never wait long for it."""

from __future__ import annotations

from controller.green import eventlet

_SLICE = 2000
"""Of the units that the compiler counts in: 20 ms or so. It is no time, as reading a clock may move a virtual one."""


class Slices:
    """Lets others go on after every so much work."""

    def __init__(self) -> None:
        self._done = 0

    def __call__(self, work: int) -> None:
        """Say that so much was done."""
        self._done += work
        if self._done >= _SLICE:
            self._done = 0
            eventlet.sleep(0)
