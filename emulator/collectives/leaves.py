"""A schedule that spares slow ranks: they hang on fast ones, and only these do an AllReduce among each other.

In a ring every rank sends and receives nearly twice the buffer, so the slowest link sets the pace of all. Here a slow
rank sends the buffer once and receives the result once, in pieces, so that its link is busy in both directions at a
time, and the AllReduce of one piece goes on while the next one arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from emulator.collectives.schedule import Collective, Schedule, Step, merged, step
from emulator.errors import ScenarioError


def leaves(ranks: int, slow: Sequence[int], inner: Callable[[int], Schedule], pieces: int = 16) -> Schedule:
    """An AllReduce in which slow ranks are leaves.

    Args:
        ranks: How many, slow ones included.
        slow: Which are slow.
        inner: Makes the AllReduce of a number of fast ranks.
        pieces: Into how many the buffer is cut.

    Raises:
        ScenarioError: A rank does not exist or is named twice, nobody is slow or fast, or there are no pieces.
    """
    if len(set(slow)) != len(slow) or not set(slow) <= set(range(ranks)):
        raise ScenarioError(f"slow ranks are some of {ranks}, each once", key="ranks")
    fast = np.array([rank for rank in range(ranks) if rank not in set(slow)], dtype=np.int64)
    if not len(fast) or not slow or pieces < 1:
        raise ScenarioError("at least one slow rank, one fast rank and one piece are needed", key="ranks")
    leaf = np.array(list(slow), dtype=np.int64)
    stem = fast[np.arange(len(leaf)) % len(fast)]
    core = inner(len(fast))
    width = core.chunks

    def make(number: int) -> Step:
        steps = []
        for piece in range(max(0, number - len(core) - 1), min(pieces, number + 1)):
            at, first = number - piece, piece * width
            if at == 0:
                steps.append(step(leaf, stem, first, width, True))
            elif at <= len(core):
                made = core.make(at - 1)
                moved = replace(made, source=fast[made.source], target=fast[made.target], first=made.first + first)
                steps.append(moved)
            else:
                steps.append(step(stem, leaf, first, width, False))
        return merged(steps)

    return Schedule(f"leaves-{core.name}", Collective.ALL_REDUCE, ranks, pieces * width, pieces + len(core) + 1, make)
