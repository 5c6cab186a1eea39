"""Trees: few steps, for small messages; and two trees at once, which keep every rank busy for large ones.

The double binary tree is that of Sanders, Speck and Träff (Two-tree algorithms for full bandwidth broadcast, reduction
and scan, 2009), which NCCL uses too. Half of the buffer goes through each of two binary trees in which the ranks that
have children in one are leaves in the other, all but one or two. Edges have two colours so that a rank's edges to its
two parents differ, and so do the edges to the two children of a rank: with edges of one colour active in even steps
and of the other in odd ones, no rank has to send twice, or receive twice, in a step of the way up, or of the way down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emulator.collectives.schedule import Collective, Integers, Schedule, Step, after, merged, need_ranks, step
from emulator.errors import ScenarioError


def binomial_reduce(ranks: int, root: int = 0) -> Schedule:
    """The whole buffer up a binomial tree.

    Raises:
        ScenarioError: There is no such root.
    """
    levels = _levels(ranks, root)
    here = np.arange(ranks)

    def make(number: int) -> Step:
        senders = here[here % (2 << number) == 1 << number]
        return step((senders + root) % ranks, (senders - (1 << number) + root) % ranks, 0, 1, True)

    return Schedule("binomial", Collective.REDUCE, ranks, 1, levels, make, root=root)


def binomial_broadcast(ranks: int, root: int = 0) -> Schedule:
    """The whole buffer down a binomial tree.

    Raises:
        ScenarioError: There is no such root.
    """
    levels = _levels(ranks, root)
    here = np.arange(ranks)

    def make(number: int) -> Step:
        distance = 1 << (levels - 1 - number)
        receivers = here[here % (2 * distance) == distance]
        return step((receivers - distance + root) % ranks, (receivers + root) % ranks, 0, 1, False)

    return Schedule("binomial", Collective.BROADCAST, ranks, 1, levels, make, root=root)


def binomial_all_reduce(ranks: int) -> Schedule:
    """Up a binomial tree, and down again: 2·log2(n) steps with the whole buffer each."""
    return after(binomial_reduce(ranks), binomial_broadcast(ranks), Collective.ALL_REDUCE, "binomial")


def _levels(ranks: int, root: int) -> int:
    if not 0 <= root < need_ranks(ranks):
        raise ScenarioError(f"there is no rank {root} among {ranks}", key="root")
    return (ranks - 1).bit_length()


@dataclass(frozen=True)
class _Tree:
    """One of the two trees.

    Attributes:
        parent: Of each rank; the root's is -1.
        up: Step in which each rank first sends to its parent.
        down: Step in which it first receives from it.
    """

    parent: Integers
    up: Integers
    down: Integers


def double_binary_tree(ranks: int, pieces: int = 8) -> Schedule:
    """All-reduce through two binary trees.

    Args:
        ranks: How many.
        pieces: Into how many each half of the buffer is cut: more of them fill the trees better and cost more steps.

    Raises:
        ScenarioError: There are no ranks or no pieces.
    """
    need_ranks(ranks)
    if pieces < 1:
        raise ScenarioError(f"{pieces} pieces: at least 1", key="pieces")
    trees = _trees(ranks)
    last = max(int(tree.down.max()) for tree in trees) if ranks > 1 else -1

    def make(number: int) -> Step:
        parts = []
        for half, tree in enumerate(trees):
            for begins, upwards in ((tree.up, True), (tree.down, False)):
                since = number - begins
                child = np.flatnonzero((tree.parent >= 0) & (since >= 0) & (since % 2 == 0) & (since < 2 * pieces))
                above = tree.parent[child]
                source, target = (child, above) if upwards else (above, child)
                parts.append(step(source, target, half * pieces + since[child] // 2, 1, upwards))
        return merged(parts)

    length = 2 * (pieces - 1) + last + 1 if ranks > 1 else 0
    return Schedule("double-binary-tree", Collective.ALL_REDUCE, ranks, 2 * pieces, length, make)


def _trees(ranks: int) -> tuple[_Tree, _Tree]:
    first = _parents(ranks)
    # Mirrored or shifted, ranks with even numbers, which have children, take the places of odd ones, which have none.
    moved = np.arange(ranks)[::-1] if ranks % 2 == 0 else np.roll(np.arange(ranks), 1)
    second = np.full(ranks, -1, dtype=np.int64)
    second[np.argsort(moved)] = np.where(first >= 0, np.argsort(moved)[first], -1)
    colours = _colours((first, second))
    return _timed(first, colours[0]), _timed(second, colours[1])


def _parents(ranks: int) -> Integers:
    """A binary tree in which every odd number is a leaf: parents by the lowest bit that is set."""
    parents = np.full(ranks, -1, dtype=np.int64)
    for rank in range(1, ranks):
        lowest = rank & -rank
        above = (rank ^ lowest) | lowest << 1
        parents[rank] = above if above < ranks else rank ^ lowest
    return parents


def _colours(trees: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """Colours 0 and 1 of the edges to parents, one for each rank and tree.

    An edge must differ from its child's edge in the other tree and from its sibling's: such constraints form paths and
    cycles along which the two kinds alternate, so that two colours are enough.
    """
    ranks = len(trees[0])
    sibling: dict[tuple[int, int], tuple[int, int]] = {}
    for number, parents in enumerate(trees):
        for parent in range(ranks):
            children = np.flatnonzero(parents == parent).tolist()
            if len(children) == 2:
                sibling[number, children[0]] = (number, children[1])
                sibling[number, children[1]] = (number, children[0])
    colours = (np.full(ranks, -1, dtype=np.int64), np.full(ranks, -1, dtype=np.int64))
    for number in (0, 1):
        for rank in range(ranks):
            pending = [((number, rank), 0)]
            while pending:
                (tree, child), colour = pending.pop()
                if trees[tree][child] < 0 or colours[tree][child] >= 0:
                    continue
                colours[tree][child] = colour
                pending.append(((1 - tree, child), 1 - colour))
                if (tree, child) in sibling:
                    pending.append((sibling[tree, child], 1 - colour))
    return colours


def _timed(parents: Integers, colours: Integers) -> _Tree:
    """When each edge is first used: upwards after all below, downwards after those above, in steps of its colour."""
    ranks = len(parents)
    children = [np.flatnonzero(parents == rank).tolist() for rank in range(ranks)]
    root = int(np.flatnonzero(parents < 0)[0])
    order = [root]
    for rank in order:
        order += children[rank]
    up, down = np.full(ranks, -1, dtype=np.int64), np.full(ranks, -1, dtype=np.int64)
    for rank in reversed(order[1:]):
        up[rank] = _next(max((int(up[child]) for child in children[rank]), default=-1), int(colours[rank]))
    down[root] = max((int(up[child]) for child in children[root]), default=-1)
    for rank in order[1:]:
        down[rank] = _next(int(down[parents[rank]]), int(colours[rank]))
    return _Tree(parents, up, down)


def _next(before: int, colour: int) -> int:
    """The first step after another one that is even or odd like a colour."""
    return before + 1 + (before + 1 - colour) % 2
