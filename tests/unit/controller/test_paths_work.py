"""How much work paths are, counted instead of timed: what would take ten times as long fails here on any machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from controller.paths import compute, nexthops
from emulator.model.fabric import Fabric
from tests.support.controller_fabrics import random_regular

SWITCHES, DEGREE, HOSTS = 200, 8, 400
PAIRS = SWITCHES * SWITCHES * DEGREE
"""Of target and directed link: each has to be looked at once."""


class CountingNumpy:
    """Stands for numpy in a module: counts passes over arrays, and elements that come out of them."""

    def __init__(self) -> None:
        self.passes = 0
        self.elements = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return CountingFunction(self, found)


class CountingFunction:
    """One function of numpy, and what hangs on it, such as ``minimum.at``."""

    def __init__(self, counter: CountingNumpy, function: Callable[..., Any]) -> None:
        self._counter = counter
        self._function = function

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        result = self._function(*arguments, **more)
        self._counter.passes += 1
        self._counter.elements += max(np.size(one) for one in (result, *arguments))
        return result

    def __getattr__(self, name: str) -> Any:
        return CountingFunction(self._counter, getattr(self._function, name))


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return random_regular(switches=SWITCHES, degree=DEGREE, hosts=HOSTS)


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions, Python's and others', that some work makes."""
    count = 0

    def note(_frame: FrameType, event: str, _what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_every_pair_of_target_and_link_is_looked_at_a_few_times(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep is some dozen passes for each ring of a block of targets, over arrays as long as the pairs in it."""
    counting = CountingNumpy()
    monkeypatch.setattr(nexthops, "np", counting)
    paths = compute(fabric)
    rings = int(paths.next_hops.hops.max()) + 1
    assert PAIRS < counting.elements < 18 * PAIRS
    assert 0 < counting.passes < 32 * rings


def test_calls_grow_with_nodes_and_links(fabric: Fabric) -> None:
    """Not with pairs of them: what is done for each pair is done by passes over arrays."""
    links = len(fabric.links)
    assert calls_of(lambda: compute(fabric)) < 25 * links
    made = compute(fabric)
    # A digest for each host and plane.
    assert calls_of(lambda: made.colours) < 24 * HOSTS * made.planes
    made.groups_of("s0")  # what all switches share is worked out with the first one
    assert calls_of(lambda: made.groups_of("s1")) < 20 * SWITCHES


def test_what_planes_need_grows_with_targets_and_links(fabric: Fabric) -> None:
    """A digest for each link and plane, and passes over arrays for each target."""
    made = compute(fabric)
    assert calls_of(lambda: made.groups_of("s0")) < 12 * len(fabric.links) * made.planes + 400 * SWITCHES
