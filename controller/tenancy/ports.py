"""Sets of port numbers: which of overlapping ranges decide, and as few masked matches as cover them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

LAST_PORT = 65_535
_BITS = 16

Ranges = tuple[tuple[int, int], ...]
"""A set of ports: ranges with both ends included, in order, with gaps in between."""

NONE: Ranges = ()
ALL: Ranges = ((0, LAST_PORT),)


def decide(ranked: Sequence[tuple[int, int, bool]]) -> Ranges:
    """The ports that are let through by ranges of which the earlier ones decide.

    Args:
        ranked: ``(first, last, allow)`` each; where several have a port, the first of them decides.
    """
    order = sorted(range(len(ranked)), key=lambda rank: ranked[rank][0])
    borders = sorted({0, *(first for first, _, _ in ranked), *(last + 1 for _, last, _ in ranked)})
    open_ranks: list[int] = []
    allowed: list[tuple[int, int]] = []
    next_one = 0
    for border, following in zip(borders, [*borders[1:], LAST_PORT + 1], strict=True):
        while next_one < len(order) and ranked[order[next_one]][0] <= border:
            heapq.heappush(open_ranks, order[next_one])
            next_one += 1
        while open_ranks and ranked[open_ranks[0]][1] < border:
            heapq.heappop(open_ranks)
        if open_ranks and ranked[open_ranks[0]][2]:
            allowed.append((border, following - 1))
    return _joined(allowed)


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, neighbours made one."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def blocks(ranges: Ranges) -> list[tuple[int, int]]:
    """The fewest prefixes of port numbers that cover exactly these ports, as values and masks.

    A mask of 0 means any port, one of 0xffff a single one.
    """
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        start = first
        while start <= last:
            # The largest block that begins here: aligned, and not beyond the end.
            bits = min((start & -start).bit_length() - 1 if start else _BITS, (last - start + 1).bit_length() - 1)
            found.append((start, LAST_PORT & ~((1 << bits) - 1)))
            start += 1 << bits
    return found
