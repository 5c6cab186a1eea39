"""Recursive halving and doubling (Thakur, Rabenseifner and Gropp, 2005): 2·log2(n) steps, as little data as a ring.

Partners are half of all ranks apart, then a quarter, and so on. Where the number of ranks is no power of two, those
beyond it hand their buffer to a partner first and get the result from it in the end.
"""

from __future__ import annotations

import numpy as np

from emulator.collectives.schedule import Collective, Schedule, Step, after, need_ranks, step
from emulator.errors import ScenarioError


def _power(ranks: int) -> int:
    """Exponent of the largest power of two that is not above."""
    return need_ranks(ranks).bit_length() - 1


def _need_power(ranks: int) -> int:
    power = _power(ranks)
    if ranks != 1 << power:
        raise ScenarioError(f"recursive halving needs a power of two, not {ranks} ranks", key="ranks")
    return power


def halving_reduce_scatter(ranks: int) -> Schedule:
    """Each rank keeps half of what it has and sends the other half to its partner, until one chunk is left.

    Raises:
        ScenarioError: The number of ranks is no power of two.
    """
    power = _need_power(ranks)
    here = np.arange(ranks)

    def make(number: int) -> Step:
        size = ranks >> (number + 1)
        partner = here ^ size
        return step(here, partner, partner // size * size, size, True)

    return Schedule("halving", Collective.REDUCE_SCATTER, ranks, ranks, power, make, owners=here)


def doubling_all_gather(ranks: int) -> Schedule:
    """Each rank sends all it has to its partner, beginning with one chunk.

    Raises:
        ScenarioError: The number of ranks is no power of two.
    """
    power = _need_power(ranks)
    here = np.arange(ranks)

    def make(number: int) -> Step:
        size = 1 << number
        return step(here, here ^ size, here // size * size, size, False)

    return Schedule("doubling", Collective.ALL_GATHER, ranks, ranks, power, make, owners=here)


def halving_doubling(ranks: int) -> Schedule:
    """All-reduce for any number of ranks."""
    inner = 1 << _power(ranks)
    core = after(halving_reduce_scatter(inner), doubling_all_gather(inner), Collective.ALL_REDUCE, "halving-doubling")
    extra = np.arange(inner, ranks)
    if not len(extra):
        return core

    def make(number: int) -> Step:
        if number == 0:
            return step(extra, extra - inner, 0, inner, True)
        if number <= core.length:
            return core.make(number - 1)
        return step(extra - inner, extra, 0, inner, False)

    return Schedule(core.name, core.collective, ranks, inner, core.length + 2, make)
