"""Choices that spread a load evenly and stay put: rendezvous hashing with bounded loads.

The same names give the same choice on every machine and run. Taking one candidate away moves, besides what it held,
only what the new bounds push along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from emulator.rng import derive

T = TypeVar("T", str, int)


def assign(names: Sequence[str], candidates: Sequence[T], purpose: str) -> dict[str, T]:
    """Give every name one candidate, none more than its even share rounded up.

    Args:
        names: Who chooses, in order of precedence.
        candidates: What there is to choose from; at least one if there are names.
        purpose: Separates independent choices of the same names.
    """
    if not names:
        return {}
    bound = -(-len(names) // len(candidates))
    load: Counter[T] = Counter()
    chosen: dict[str, T] = {}
    for name in names:
        free = [candidate for candidate in candidates if load[candidate] < bound]
        chosen[name] = max(free, key=lambda candidate: derive(0, purpose, name, candidate))
        load[chosen[name]] += 1
    return chosen
