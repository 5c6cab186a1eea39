"""Randomness that is a pure function of the scenario's seed and of a name.

Streams are independent of each other and of the order in which they are asked for, so adding a workload never
changes what another one draws.
"""

from __future__ import annotations

import hashlib
import random


def derive(seed: int, *names: str | int) -> int:
    """Return a 64-bit seed for the stream called *names* under *seed*.

    Args:
        seed: The scenario's seed, any non-negative integer.
        names: What the stream is for, for example ``"poisson", "h0", 3``.
    """
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def stream(seed: int, *names: str | int) -> random.Random:
    """Return a generator for the stream called *names* under *seed*."""
    return random.Random(derive(seed, *names))  # noqa: S311 - experiments, not secrets
