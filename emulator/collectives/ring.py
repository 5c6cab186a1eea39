"""Rings (Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms, 2009): every rank talks to two others only.

Each rank sends (n-1)/n of the buffer to reduce-scatter and as much again to gather, which is the least that any
schedule can do; the price is 2(n-1) steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emulator.collectives.schedule import Collective, Schedule, Step, after, beside, need_ranks, step
from emulator.errors import ScenarioError


def _order(order: Sequence[int] | int) -> np.ndarray:
    ranks = range(need_ranks(order)) if isinstance(order, int) else order
    found = np.asarray(ranks, dtype=np.int64)
    if sorted(found.tolist()) != list(range(len(found))):
        raise ScenarioError("a ring names every rank once", key="ranks")
    return found


def ring_reduce_scatter(order: Sequence[int] | int) -> Schedule:
    """Each rank adds up its own chunk; chunks travel once around the ring.

    Args:
        order: Ranks around the ring, or how many there are.

    Raises:
        ScenarioError: A rank is missing or named twice.
    """
    ring = _order(order)
    ranks, here = len(ring), np.arange(len(ring))

    def make(number: int) -> Step:
        return step(ring, np.roll(ring, -1), ring[(here - 1 - number) % ranks], 1, True)

    return Schedule("ring", Collective.REDUCE_SCATTER, ranks, ranks, ranks - 1, make, owners=np.arange(ranks))


def ring_all_gather(order: Sequence[int] | int) -> Schedule:
    """Each rank's own chunk travels once around the ring (see `ring_reduce_scatter`)."""
    ring = _order(order)
    ranks, here = len(ring), np.arange(len(ring))

    def make(number: int) -> Step:
        return step(ring, np.roll(ring, -1), ring[(here - number) % ranks], 1, False)

    return Schedule("ring", Collective.ALL_GATHER, ranks, ranks, ranks - 1, make, owners=np.arange(ranks))


def ring_all_reduce(order: Sequence[int] | int) -> Schedule:
    """Reduce-scatter, then all-gather, on one ring (see `ring_reduce_scatter`)."""
    return after(ring_reduce_scatter(order), ring_all_gather(order), Collective.ALL_REDUCE, "ring")


def rings(collective: Collective, orders: Sequence[Sequence[int]], name: str) -> Schedule:
    """Several rings at once, each with an equal part of the buffer, in both directions.

    Args:
        collective: All-reduce, reduce-scatter or all-gather.
        orders: Ranks around each ring.
        name: Of the schedule.

    Raises:
        ScenarioError: Rings do not do this collective, or one misses a rank.
    """
    makers = {
        Collective.ALL_REDUCE: ring_all_reduce,
        Collective.REDUCE_SCATTER: ring_reduce_scatter,
        Collective.ALL_GATHER: ring_all_gather,
    }
    if collective not in makers:
        raise ScenarioError(f"rings do no {collective.value}", key="collective")
    both = [one for order in orders for one in (tuple(order), tuple(order)[::-1])]
    return beside([makers[collective](one) for one in both], name)


def bidirectional_ring(collective: Collective, order: Sequence[int] | int) -> Schedule:
    """One ring in both directions, each with half of the buffer: both directions of each link are used."""
    return rings(collective, [_order(order).tolist()], "bidirectional-ring")


def chain_broadcast(order: Sequence[int] | int, pieces: int) -> Schedule:
    """The buffer in pieces along a chain of ranks, one after the other; the first has it.

    Args:
        order: Ranks along the chain, or how many there are.
        pieces: Into how many the buffer is cut: more of them fill the chain better and cost more steps.

    Raises:
        ScenarioError: A rank is missing or named twice, or there are no pieces.
    """
    chain = _order(order)
    if pieces < 1:
        raise ScenarioError(f"{pieces} pieces: at least 1", key="pieces")

    def make(number: int) -> Step:
        links = np.arange(max(0, number - pieces + 1), min(len(chain) - 1, number + 1))
        return step(chain[links], chain[links + 1], number - links, 1, False)

    length = pieces + len(chain) - 2 if len(chain) > 1 else 0
    return Schedule("chain", Collective.BROADCAST, len(chain), pieces, length, make, root=int(chain[0]))
