"""Schedules: what they cost by count, and that the checker finds every kind of mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from emulator.collectives import SCHEDULES, Collective, Schedule, Step, build, check, fits
from emulator.collectives.hamiltonian import torus_cycles
from emulator.collectives.ring import chain_broadcast, ring_all_reduce, ring_reduce_scatter
from emulator.collectives.schedule import chunk_edges, finer, step
from emulator.collectives.torus import torus_buckets
from emulator.collectives.trees import binomial_broadcast, binomial_reduce, double_binary_tree
from emulator.errors import ScenarioError, WorkloadError

CUBE = (4, 4, 4)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("ring", 2 * 63),
        ("bidirectional-ring", 2 * 63),
        ("halving-doubling", 2 * 6),
        ("binomial", 2 * 6),
        ("torus-rings", 2 * 9),
        ("torus-buckets", 2 * 9),
        ("torus-hamiltonian", 2 * 63),
    ],
)
def test_steps_of_all_reduce(name: str, steps: int) -> None:
    """The textbook number of steps of each algorithm for 64 ranks."""
    assert check(build(Collective.ALL_REDUCE, name, CUBE)).steps == steps


@pytest.mark.parametrize("name", [name for name in SCHEDULES[Collective.ALL_REDUCE] if name != "binomial"])
def test_all_reduce_moves_as_little_as_possible(name: str) -> None:
    """All but the binomial tree send 2(n-1) buffers in all, which is the least; so does each rank of a ring."""
    schedule = build(Collective.ALL_REDUCE, name, CUBE)
    assert check(schedule).chunks_moved == 2 * 63 * schedule.chunks
    if name in ("ring", "torus-rings", "torus-buckets", "torus-hamiltonian", "halving-doubling"):
        sent = np.zeros(64, dtype=np.int64)
        for made in schedule:
            np.add.at(sent, made.source, made.count)
        assert set(sent.tolist()) == {2 * 63 * schedule.chunks // 64}


def test_sixty_four_bits_are_not_a_limit() -> None:
    """512 ranks on a torus, flat and by dimensions: sets of more than one word, in 42 and in 1022 steps."""
    assert check(build(Collective.ALL_REDUCE, "torus-buckets", (8, 8, 8))).steps == 42
    assert check(build(Collective.REDUCE_SCATTER, "ring", (512,))).steps == 511
    assert check(build(Collective.ALL_REDUCE, "halving-doubling", (300,))).steps == 2 * 8 + 2


def links_used(schedule: Schedule, shape: tuple[int, ...]) -> list[list[tuple[int, int]]]:
    """Pairs of ranks by step, each checked to be neighbours in the torus."""
    found = []
    for made in schedule:
        pairs = []
        for source, target in zip(made.source.tolist(), made.target.tolist(), strict=True):
            apart = [
                min((a - b) % size, (b - a) % size)
                for a, b, size in zip(
                    np.unravel_index(source, shape), np.unravel_index(target, shape), shape, strict=True
                )
            ]
            assert sum(apart) == 1
            pairs.append((source, target))
        found.append(pairs)
    return found


@pytest.mark.parametrize("name", ["torus-rings", "torus-buckets", "torus-hamiltonian"])
def test_torus_schedules_never_leave_the_links(name: str) -> None:
    """Every transfer crosses one link, and no link carries two transfers of a step in one direction."""
    for pairs in links_used(build(Collective.ALL_REDUCE, name, CUBE), CUBE):
        assert len(set(pairs)) == len(pairs)
        if name != "torus-rings":
            assert len(pairs) == 6 * 64, "all links of all cards, both directions"


@pytest.mark.parametrize(
    "shape", [(3, 3), (3, 5), (4, 6), (5, 5, 3), (2, 3), (2, 4, 3), (2, 2, 5), (4, 4, 6), (3, 3, 3, 3)]
)
def test_hamiltonian_rings_share_no_link(shape: tuple[int, ...]) -> None:
    """As many rings through all cards as there are dimensions above two, without a link in common."""
    rings = torus_cycles(shape)
    assert len(rings) == sum(size > 2 for size in shape)
    used = set()
    for ring in rings:
        assert sorted(ring) == list(range(int(np.prod(shape))))
        used |= {frozenset(pair) for pair in zip(ring, ring[1:] + ring[:1], strict=True)}
    assert len(used) == len(rings) * int(np.prod(shape))
    links_used(build(Collective.ALL_GATHER, "torus-hamiltonian", shape), shape)


def test_double_tree_keeps_ports_single() -> None:
    """In the two trees, no rank sends twice, or receives twice, in a step on the way up, or on the way down."""
    for ranks in (2, 3, 8, 17, 64):
        for made in double_binary_tree(ranks, 4):
            for upwards in (True, False):
                for ends in (made.source, made.target):
                    chosen = ends[made.reduce == upwards]
                    assert len(set(chosen.tolist())) == len(chosen), (ranks, upwards)


@pytest.mark.parametrize("shape", [(2, 4), (3, 6), (4, 8, 8), (5, 4, 2)])
def test_buckets_load_all_links_alike_at_first(shape: tuple[int, ...]) -> None:
    """Whatever the sides, in the first step, which moves most, every link carries as much as any other."""
    made = build(Collective.ALL_REDUCE, "torus-buckets", shape).make(0)
    assert len(set(made.count.tolist())) == 1
    assert len(made) == 2 * len(shape) * int(np.prod(shape))


def test_double_tree_divides_the_work() -> None:
    """Hardly any rank has children in both trees: each sends and receives about the buffer twice."""
    schedule = double_binary_tree(64, 8)
    received = np.zeros(64, dtype=np.int64)
    for made in schedule:
        np.add.at(received, made.target, made.count)
    assert received.max() <= 2 * schedule.chunks
    assert np.median(received) >= 1.5 * schedule.chunks


@pytest.mark.parametrize("root", [0, 3, 6])
def test_roots(root: int) -> None:
    """Broadcast and reduce work from and to any rank."""
    check(binomial_broadcast(7, root))
    check(binomial_reduce(7, root))
    assert chain_broadcast([root, *(rank for rank in range(7) if rank != root)], 3).root == root
    check(chain_broadcast([root, *(rank for rank in range(7) if rank != root)], 3))


def with_step(schedule: Schedule, number: int, change: Callable[[Step], Step]) -> Schedule:
    """A schedule with one step changed."""
    return replace(schedule, make=lambda at: change(schedule.make(at)) if at == number else schedule.make(at))


def first_only(made: Step) -> Step:
    return step(made.source[:1], made.target[:1], made.first[:1], 1, True)


def turned(made: Step) -> Step:
    return replace(made, source=made.target, target=made.source)


RING = ring_all_reduce(4)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (with_step(RING, 1, lambda made: replace(made, source=made.source + 1)), "no source 4"),
        (with_step(RING, 1, lambda made: replace(made, first=made.first - 9)), "no chunk"),
        (with_step(RING, 1, lambda made: replace(made, count=made.count * 0)), "a transfer of nothing"),
        (with_step(RING, 1, lambda made: replace(made, count=made.count + 3)), "no last chunk"),
        (with_step(RING, 1, lambda made: replace(made, target=made.source)), "sends to itself"),
        (with_step(RING, 3, lambda made: replace(made, reduce=~made.reduce)), "adds to chunk"),
        (with_step(RING, 2, lambda made: replace(made, reduce=~made.reduce)), "at the end rank"),
        (replace(RING, length=5), "at the end rank"),
        (with_step(RING, 0, first_only), "at the end"),
        (with_step(RING, 4, lambda made: step([0, 1], [2, 2], 0, 1, False)), "replaces chunk 0, while"),
        (with_step(RING, 4, lambda made: step([0, 1], [2, 2], 0, 1, [True, False])), "while something else arrives"),
        (with_step(RING, 1, lambda made: step([0, 0], [1, 1], made.first[0], 1, True)), "adds to chunk"),
        (replace(ring_reduce_scatter(4), owners=np.array([1, 0, 2, 3])), "at the end rank"),
        (replace(ring_reduce_scatter(4), owners=None), "not said which rank has each chunk"),
        (replace(ring_reduce_scatter(4), owners=np.array([0, 1, 2, 9])), "not said which"),
        (replace(build(Collective.ALL_GATHER, "ring", (4,)), owners=np.array([1, 0, 2, 3])), "which it does not hold"),
        (with_step(binomial_broadcast(8), 0, turned), "does not hold"),
        (replace(binomial_reduce(5), root=1), "at the end rank 1"),
        (replace(RING, ranks=0), "0 ranks"),
    ],
)  # fmt: skip
def test_mistakes_are_found(broken: Schedule, said: str) -> None:
    """Whatever is wrong with a schedule is one clear line that says what, where and who."""
    with pytest.raises(WorkloadError, match=said) as caught:
        check(broken)
    assert str(caught.value).startswith(broken.name)


def test_all_to_all_must_reach_the_right_rank() -> None:
    """Sending everything to a neighbour instead is noticed."""
    right = build(Collective.ALL_TO_ALL, "shift", (5,))
    check(right)
    with pytest.raises(WorkloadError, match="nothing in chunk"):
        check(with_step(right, 2, lambda made: replace(made, target=(made.target + 1) % 5)))


@pytest.mark.parametrize("memory_bytes", [1, 100, 1000])
def test_portions_change_nothing(memory_bytes: int) -> None:
    """Checking chunk by chunk finds the same as checking all of them at once."""
    folded = build(Collective.ALL_REDUCE, "halving-doubling", (6,))
    for schedule in (folded, torus_buckets(Collective.ALL_REDUCE, (2, 3))):
        assert check(schedule, memory_bytes) == check(schedule)
    with pytest.raises(WorkloadError, match="at the end"):
        check(replace(RING, length=4), memory_bytes)


def test_chunks_are_whole_items() -> None:
    """As even as they go, in whole items, nothing lost; some are empty where there are more chunks than items."""
    edges = chunk_edges(40, 3, 4)
    assert edges.tolist() == [0, 12, 24, 40]
    assert chunk_edges(8, 5, 4).tolist() == [0, 0, 0, 4, 4, 8]
    assert chunk_edges(0, 2).tolist() == [0, 0, 0]
    for size, item in ((41, 4), (-4, 4), (4, 0)):
        with pytest.raises(ScenarioError, match="whole number of items"):
            chunk_edges(size, 3, item)


def test_finer_chunks_are_the_same_schedule() -> None:
    """Cutting chunks into three moves three times as many, and still proves."""
    assert check(finer(RING, 3)).chunks_moved == 3 * check(RING).chunks_moved
    check(finer(ring_reduce_scatter(5), 2))


@pytest.mark.parametrize(
    ("kind", "name", "shape", "said"),
    [
        (Collective.ALL_REDUCE, "magic", (4,), "'magic' does no all_reduce: ring, "),
        (Collective.BROADCAST, "ring", (4,), "'ring' does no broadcast"),
        (Collective.REDUCE_SCATTER, "halving", (6,), "a power of two, not 6"),
        (Collective.ALL_REDUCE, "torus-rings", (6,), "6 is no torus of two dimensions"),
        (Collective.ALL_REDUCE, "torus-hamiltonian", (2, 1), "no torus of two dimensions"),
        (Collective.ALL_REDUCE, "ring", (0,), "0 is no number of ranks"),
        (Collective.ALL_REDUCE, "double-binary-tree", (4, 0), "0 is no number of ranks"),
        (Collective.ALL_TO_ALL, "torus-exchange", (4, -1), "-4 is no number"),
    ],
)
def test_impossible_schedules_are_refused(kind: Collective, name: str, shape: tuple[int, ...], said: str) -> None:
    """One line that says what is wrong."""
    with pytest.raises(ScenarioError, match=said):
        build(kind, name, shape)


def test_wrong_arguments_of_single_makers() -> None:
    """Rings that miss a rank, roots that are not there, no pieces."""
    for make in (
        lambda: ring_all_reduce([0, 2]),
        lambda: ring_all_reduce([0, 0]),
        lambda: chain_broadcast(4, 0),
        lambda: binomial_reduce(4, 4),
        lambda: double_binary_tree(4, 0),
        lambda: ring_all_reduce(0),
        lambda: torus_buckets(Collective.BROADCAST, (2, 2)),
    ):
        with pytest.raises(ScenarioError):
            make()


def test_what_fits() -> None:
    """Everything for a cube of a power of two; less for a prime number of ranks."""
    assert set(fits(Collective.ALL_REDUCE, CUBE)) == set(SCHEDULES[Collective.ALL_REDUCE])
    assert set(fits(Collective.REDUCE_SCATTER, (7,))) == {"ring", "bidirectional-ring"}


def test_schedules_are_reproducible() -> None:
    """The same arguments give the same steps, every time they are asked for, whatever was asked before."""
    for name in SCHEDULES[Collective.ALL_REDUCE]:
        one, other = (build(Collective.ALL_REDUCE, name, (3, 4)) for _ in range(2))
        backwards = [other.make(number) for number in reversed(range(len(other)))][::-1]
        for made, again in zip(one, backwards, strict=True):
            for field in ("source", "target", "first", "count", "reduce"):
                assert np.array_equal(getattr(made, field), getattr(again, field))
