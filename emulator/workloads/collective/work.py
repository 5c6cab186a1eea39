"""What ranks compute: a model of the time that cards take, put in as waiting, for computing is free otherwise."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CardModel:
    """The computing of one rank's card.

    Attributes:
        reduce_rate: Bytes that arrived and are added to a rank's own, in bytes/s; None: it takes no time.
        message_ns: From when a chunk could be sent until the card hands it to the network.
        chunk_bytes: Size of a chunk; 0: messages are whole.
    """

    reduce_rate: int | None = None
    message_ns: int = 0
    chunk_bytes: int = 0

    def prepare_ns(self, size_bytes: int) -> int:
        """Time to prepare a message."""
        return self.message_ns * (-(-size_bytes // self.chunk_bytes) if self.chunk_bytes else 1)

    def reduce_ns(self, size_bytes: int) -> int:
        """Time to add up this much."""
        return 0 if self.reduce_rate is None else -(-size_bytes * 10**9 // self.reduce_rate)


class Work:
    """Jobs that end at a time; a card adds up one message after the other.

    Args:
        cards: Of each rank.
    """

    def __init__(self, cards: Sequence[CardModel]) -> None:
        self._cards = cards
        self._computes = any(card.reduce_rate or card.message_ns for card in cards)
        self._busy_ns = [0] * len(cards)
        self._ends: list[tuple[int, int, int, bool]] = []
        self._order = 0

    @property
    def computes(self) -> bool:
        """Whether anything takes time."""
        return self._computes

    @property
    def next_ns(self) -> int | None:
        """When the next job ends; None: there is none."""
        return self._ends[0][0] if self._ends else None

    def reduce(self, rank: int, message: int, size_bytes: int, now_ns: int) -> bool:
        """Begin to add up a message that came; False: that takes no time."""
        takes_ns = self._cards[rank].reduce_ns(size_bytes)
        if not takes_ns:
            return False
        end_ns = max(now_ns, self._busy_ns[rank]) + takes_ns
        self._busy_ns[rank] = end_ns
        self._push(end_ns, message, received=True)
        return True

    def prepare(self, rank: int, message: int, size_bytes: int, now_ns: int) -> bool:
        """Begin to prepare a message for sending; False: that takes no time."""
        if not self._cards[rank].message_ns:
            return False
        self._push(now_ns + self._cards[rank].prepare_ns(size_bytes), message, received=False)
        return True

    def _push(self, end_ns: int, message: int, *, received: bool) -> None:
        self._order += 1
        heapq.heappush(self._ends, (end_ns, self._order, message, received))

    def ended(self, now_ns: int) -> list[tuple[int, bool]]:
        """Messages whose jobs have ended, and whether they came in."""
        found = []
        while self._ends and self._ends[0][0] <= now_ns:
            _, _, message, received = heapq.heappop(self._ends)
            found.append((message, received))
        return found

    def clear(self) -> None:
        """Forget all jobs."""
        self._ends.clear()
        self._busy_ns = [0] * len(self._cards)
