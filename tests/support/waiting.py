"""Waits until something is so, without sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LEAST_LOOKS, LEAST_S = 5000, 10
T = TypeVar("T")


def until(look: Callable[[], T], what: str) -> T:
    """The first true value, looked for at least 5000 times and 10 s: a quick machine is done with looks too soon."""
    end_s = time.monotonic() + LEAST_S
    looks = 1
    while not (value := look()):
        assert looks < LEAST_LOOKS or time.monotonic() < end_s, f"{what}: {value}"
        looks += 1
    return value
