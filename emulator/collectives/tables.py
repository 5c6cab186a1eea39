"""What messages and stages say, as lists: one entry of a list is had much quicker than one of an array."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from emulator.collectives.messages import Messages, Stages


class Tables:
    """Messages and stages by number; see `emulator.collectives.messages`.

    Args:
        messages: What is sent.
        stages: In which order.
    """

    def __init__(self, messages: Messages, stages: Stages) -> None:
        self._ranks = messages.ranks
        self._source: list[int] = messages.source.tolist()
        self._target: list[int] = messages.target.tolist()
        self._reduce: list[bool] = messages.reduce.tolist()
        self._last_use: list[bool] = messages.last_use.tolist()
        self._connection: list[int] = messages.connection.tolist()
        self._of_rank: list[int] = stages.of_rank.tolist()
        self._begins: list[int] = stages.messages.tolist()
        self._message: list[int] = stages.message.tolist()
        self._receives: list[bool] = stages.receives.tolist()
        self._following: list[int] = stages.following.tolist()
        self._sends_in: list[int] = stages.sends_in.tolist()
        self._arrives_in: list[int] = stages.arrives_in.tolist()
        opening = stages.opening.tolist()
        bounds = np.searchsorted(stages.opening, stages.of_rank).tolist()
        self._opening = [opening[a:b] for a, b in pairwise(bounds)]
        self._sizes: list[int] = np.diff(stages.messages).tolist()
