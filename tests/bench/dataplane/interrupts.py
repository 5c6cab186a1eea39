"""Ctrl-C and SIGTERM as `KeyboardInterrupt`, once, and never while something is half made.

A namespace or process that exists but is in nobody's list yet would stay. So whoever makes or removes things does it
`shielded`: a signal waits until that is done. Once interrupted, further signals are ignored: cleaning up ends.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _State:
    depth = 0
    waiting = False


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if _State.depth:
        _State.waiting = True
        return
    raise KeyboardInterrupt


def watch_signals() -> None:
    """From now on."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)


@contextmanager
def shielded() -> Iterator[None]:
    """Hold signals back until the block ends."""
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
        if _State.waiting and not _State.depth:
            _State.waiting = False
            raise KeyboardInterrupt
