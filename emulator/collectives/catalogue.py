"""All schedules by collective and name, and which of them can be had for how many ranks and which shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

from emulator.collectives.exchange import shifted_exchange, torus_exchange
from emulator.collectives.halving import doubling_all_gather, halving_doubling, halving_reduce_scatter
from emulator.collectives.ring import (
    bidirectional_ring,
    chain_broadcast,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from emulator.collectives.schedule import Collective, Schedule, need_ranks, striped
from emulator.collectives.torus import torus_buckets, torus_hamiltonian, torus_rings
from emulator.collectives.trees import binomial_all_reduce, binomial_broadcast, binomial_reduce, double_binary_tree
from emulator.errors import ScenarioError

Shape = tuple[int, ...]

_PLANES = re.compile(r"[1-8]")
_CHAIN_PIECES = 4
"""Pieces for each rank of a chain."""


def _in_torus(make: Callable[[Collective, Sequence[int]], Schedule], kind: Collective) -> Callable[[Shape], Schedule]:
    return lambda shape: make(kind, shape)


def _of_ranks(make: Callable[[int], Schedule]) -> Callable[[Shape], Schedule]:
    return lambda shape: make(prod(shape))


SCHEDULES: Mapping[Collective, Mapping[str, Callable[[Shape], Schedule]]] = {
    Collective.ALL_REDUCE: {
        "ring": _of_ranks(ring_all_reduce),
        "bidirectional-ring": _of_ranks(lambda ranks: bidirectional_ring(Collective.ALL_REDUCE, ranks)),
        "halving-doubling": _of_ranks(halving_doubling),
        "binomial": _of_ranks(binomial_all_reduce),
        "double-binary-tree": _of_ranks(double_binary_tree),
        "torus-rings": _in_torus(torus_rings, Collective.ALL_REDUCE),
        "torus-buckets": _in_torus(torus_buckets, Collective.ALL_REDUCE),
        "torus-hamiltonian": _in_torus(torus_hamiltonian, Collective.ALL_REDUCE),
    },
    Collective.REDUCE_SCATTER: {
        "ring": _of_ranks(ring_reduce_scatter),
        "bidirectional-ring": _of_ranks(lambda ranks: bidirectional_ring(Collective.REDUCE_SCATTER, ranks)),
        "halving": _of_ranks(halving_reduce_scatter),
        "torus-rings": _in_torus(torus_rings, Collective.REDUCE_SCATTER),
        "torus-buckets": _in_torus(torus_buckets, Collective.REDUCE_SCATTER),
        "torus-hamiltonian": _in_torus(torus_hamiltonian, Collective.REDUCE_SCATTER),
    },
    Collective.ALL_GATHER: {
        "ring": _of_ranks(ring_all_gather),
        "bidirectional-ring": _of_ranks(lambda ranks: bidirectional_ring(Collective.ALL_GATHER, ranks)),
        "doubling": _of_ranks(doubling_all_gather),
        "torus-rings": _in_torus(torus_rings, Collective.ALL_GATHER),
        "torus-buckets": _in_torus(torus_buckets, Collective.ALL_GATHER),
        "torus-hamiltonian": _in_torus(torus_hamiltonian, Collective.ALL_GATHER),
    },
    Collective.ALL_TO_ALL: {
        "shift": _of_ranks(shifted_exchange),
        "torus-exchange": torus_exchange,
    },
    Collective.BROADCAST: {
        "binomial": _of_ranks(binomial_broadcast),
        "chain": _of_ranks(lambda ranks: chain_broadcast(ranks, _CHAIN_PIECES * ranks)),
    },
    Collective.REDUCE: {"binomial": _of_ranks(binomial_reduce)},
}
"""How to make each schedule from the shape of a torus, or from ``(ranks,)``."""


def build(collective: Collective, name: str, shape: Sequence[int]) -> Schedule:
    """Make a schedule.

    Args:
        collective: What it is to compute.
        name: Of the algorithm; ``ring@2`` is a ring for each of two planes.
        shape: Ranks in each dimension; ``(ranks,)`` where they are not a torus.

    Raises:
        ScenarioError: There is no such algorithm for this collective, or not for so many ranks.
    """
    known = SCHEDULES[collective]
    algorithm, at, planes = name.partition("@")
    if algorithm not in known or (at and not _PLANES.fullmatch(planes)):
        raise ScenarioError(f"{name!r} does no {collective.value}: {', '.join(known)}", key="algorithm")
    if at and collective is Collective.ALL_TO_ALL:
        raise ScenarioError(f"{collective.value} has no stripes for planes", key="algorithm")
    need_ranks(prod(shape))
    made = known[algorithm](tuple(shape))
    return striped(made, int(planes)) if at else made


def fits(collective: Collective, shape: Sequence[int]) -> dict[str, Schedule]:
    """All schedules of a collective that can be had for so many ranks, by name."""
    found = {}
    for name in SCHEDULES[collective]:
        try:
            found[name] = build(collective, name, shape)
        except ScenarioError:
            continue
    return found
