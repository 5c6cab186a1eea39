"""Every schedule, for any number of ranks and any torus, computes what it promises."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.collectives import SCHEDULES, Collective, Schedule, Step, build, check, fits
from emulator.collectives.cost import CostModel, bound_ns, schedule_edges
from emulator.collectives.halving import halving_doubling
from emulator.collectives.hamiltonian import torus_cycles
from emulator.collectives.leaves import leaves
from emulator.collectives.ring import chain_broadcast, ring_all_reduce, ring_reduce_scatter, rings
from emulator.collectives.schedule import chunk_edges
from emulator.collectives.trees import binomial_broadcast, binomial_reduce, double_binary_tree
from emulator.errors import WorkloadError
from topologies import routing_of, torus3d

KINDS = st.sampled_from(list(Collective))
TORI = st.lists(st.integers(1, 6), min_size=2, max_size=4).filter(
    lambda shape: prod(shape) <= 60 and sum(size > 1 for size in shape) >= 2
)


@settings(deadline=None, max_examples=40)
@given(KINDS, st.integers(1, 40))
def test_any_number_of_ranks(kind: Collective, ranks: int) -> None:
    """All schedules that are not for tori, powers of two or not."""
    for name, schedule in fits(kind, (ranks,)).items():
        assert schedule.name == name
        check(schedule)


@settings(deadline=None, max_examples=40)
@given(KINDS, TORI)
def test_any_torus(kind: Collective, shape: list[int]) -> None:
    """All schedules for tori of any shape, with dimensions of one and two."""
    for name in SCHEDULES[kind]:
        if not name.startswith("torus"):
            continue
        check(build(kind, name, shape))


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(9)), st.integers(1, 12))
def test_rings_in_any_order(order: list[int], pieces: int) -> None:
    """Ranks may stand around a ring, or along a chain, in any order."""
    check(ring_all_reduce(order))
    check(ring_reduce_scatter(order))
    check(chain_broadcast(order, pieces))
    check(rings(Collective.ALL_REDUCE, [order, sorted(order)], "two"))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 14), st.integers(1, 5), st.sampled_from([ring_all_reduce, halving_doubling]), st.data())
def test_slow_ranks_as_leaves(ranks: int, pieces: int, inner: Callable[[int], Schedule], data: st.DataObject) -> None:
    """Any ranks may be slow; each of them sends the buffer once and receives it once, and fast ones share them out."""
    slow = data.draw(st.lists(st.integers(0, ranks - 1), min_size=1, max_size=ranks - 1, unique=True))
    schedule = leaves(ranks, slow, inner, pieces)
    check(schedule)
    sent, received = np.zeros(ranks), np.zeros(ranks)
    for made in schedule:
        np.add.at(sent, made.source, made.count)
        np.add.at(received, made.target, made.count)
    assert (sent[slow] == schedule.chunks).all()
    assert (received[slow] == schedule.chunks).all()
    first = schedule.make(0)
    hanging = np.bincount(first.target, minlength=ranks)[[rank for rank in range(ranks) if rank not in slow]]
    assert hanging.sum() == len(slow)
    assert hanging.max() - hanging.min() <= 1


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 70), st.integers(1, 6), st.data())
def test_trees_of_any_size(ranks: int, pieces: int, data: st.DataObject) -> None:
    """Two trees for any number of ranks and pieces; binomial ones from any root."""
    check(double_binary_tree(ranks, pieces))
    root = data.draw(st.integers(0, ranks - 1))
    check(binomial_broadcast(ranks, root))
    check(binomial_reduce(ranks, root))


@settings(deadline=None, max_examples=40)
@given(TORI)
def test_rings_through_any_torus(shape: list[int]) -> None:
    """Rings through all cards with no link in common, as many as there are dimensions above two."""
    found = torus_cycles(tuple(shape))
    assert len(found) == max(1, sum(size > 2 for size in shape))
    links = set()
    for ring in found:
        assert sorted(ring) == list(range(prod(shape)))
        for here, there in zip(ring, ring[1:] + ring[:1], strict=True):
            places = (np.unravel_index(one, shape) for one in (here, there))
            apart = [min((a - b) % size, (b - a) % size) for a, b, size in zip(*places, shape, strict=True)]
            assert sum(apart) == 1
            links.add(frozenset((here, there)))
    assert len(links) == len(found) * prod(shape)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 9), st.data())
def test_a_lost_transfer_is_noticed(ranks: int, data: st.DataObject) -> None:
    """Whichever single transfer is left out of any schedule, the checker does not accept the rest."""
    kind = data.draw(KINDS)
    schedule = data.draw(st.sampled_from(list(fits(kind, (ranks,)).values())))
    number = data.draw(st.sampled_from([n for n, made in enumerate(schedule) if len(made)]))
    lost = data.draw(st.integers(0, len(schedule.make(number)) - 1))

    def make(at: int) -> Step:
        made = schedule.make(at)
        if at != number:
            return made
        kept = np.arange(len(made)) != lost
        return Step(made.source[kept], made.target[kept], made.first[kept], made.count[kept], made.reduce[kept])

    broken = Schedule(
        schedule.name, kind, ranks, schedule.chunks, schedule.length, make, schedule.owners, schedule.root
    )
    with pytest.raises(WorkloadError):
        check(broken)


@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from([1, 2, 4, 8]))
def test_chunks_cover_the_buffer(items: int, chunks: int, item_bytes: int) -> None:
    """Whole items, in order, none lost, sizes apart by one item at most."""
    edges = chunk_edges(items * item_bytes, chunks, item_bytes)
    sizes = np.diff(edges)
    assert (edges[0], edges[-1], len(edges)) == (0, items * item_bytes, chunks + 1)
    assert (sizes % item_bytes == 0).all()
    assert sizes.max() - sizes.min() <= item_bytes


@given(st.integers(1, 12), st.integers(0, 200))
def test_chunks_of_all_to_all(ranks: int, items: int) -> None:
    """Every rank has a buffer of the size, divided among all ranks."""
    schedule = build(Collective.ALL_TO_ALL, "shift", (ranks,))
    edges = schedule_edges(schedule, 4 * items)
    assert len(edges) == ranks * ranks + 1
    assert edges[::ranks].tolist() == [4 * items * rank for rank in range(ranks + 1)]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 4), min_size=3, max_size=3).filter(lambda one: prod(one) > 1), st.integers(1, 1 << 22))
def test_predictions_are_bounded(shape: list[int], items: int) -> None:
    """No schedule is predicted to be faster than a card's links, and larger buffers are not estimated to take less."""
    fabric = torus3d(*shape)
    routing = routing_of(fabric)
    assert routing is not None
    cost = CostModel(routing, [card.name for card in fabric.ends])
    ports = [link.spec for link in fabric.links_of(fabric.ends[0].name)]
    for name, schedule in fits(Collective.ALL_REDUCE, shape).items():
        size = 4 * items * schedule.chunks
        if size > 1 << 40:
            continue
        followed, estimated = cost.predict(schedule, size), cost.estimate(schedule, size)
        least = bound_ns(Collective.ALL_REDUCE, schedule.ranks, size, ports) * (1 - 1e-9)
        assert min(followed.time_ns, estimated.time_ns) >= least, name
        assert followed.time_ns >= followed.latency_ns * (1 - 1e-9)
        assert cost.estimate(schedule, 2 * size).time_ns > estimated.time_ns
