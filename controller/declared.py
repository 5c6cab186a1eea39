"""Carries what tenants declare from the store to the core: compiled, and with a note of what was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from controller.compose import Composer
from controller.designs import Plan
from controller.flows import FlowRule, Program
from controller.tenancy.groups import unfilled
from controller.tenancy.kinds import Kind
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import go_on

_MOST_NAMED = 3
_PIECE = 500
"""About how many rules are given to the taker at once."""
_TAKING = 5
"""Taking a rule is so much work, compared to making it."""


class Resources(Protocol):
    """The store, as far as it matters here."""

    @property
    def state(self) -> TenancyState:
        """All resources."""

    def subscribe(self, callback: Callable[[TenancyState, TenancyState], None]) -> None:
        """Have a function called with the states before and after each change."""


class Takes(Protocol):
    """What takes the outcome."""

    def declare(self, plan: Plan, layers: dict[str, Program], note: str) -> None:
        """Take other layers, and what was changed."""

    def warn(self, message: str) -> None:
        """Take a warning for people."""


class Declared:
    """Follows a store.

    A change of many rules is compiled and taken in pieces, with pauses in between in which others go on. Meanwhile
    further changes wait, and those that waited together are compiled together.

    Args:
        store: Has the resources.
        composer: Compiles them.
        taker: Takes what comes out, now and after each change.
        pause: Called now and then with a measure of what was done since.
        turn: Held by one change after the other.
    """

    def __init__(
        self,
        store: Resources,
        composer: Composer,
        taker: Takes,
        pause: Callable[[int], None] = go_on,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        self._store = store
        self._composer = composer
        self._taker = taker
        self._pause = pause
        self._turn = turn or nullcontext()
        self._state = store.state
        self._plan, self._layers = composer.layers(store.state)
        taker.declare(self._plan, self._layers, "")
        store.subscribe(self._changed)

    def _changed(self, before: TenancyState, after: TenancyState) -> None:
        note = describe(before, after)
        with self._turn:
            state = self._store.state
            if state is not self._state:
                self._plan, layers = self._composer.layers(state, self._pause)
                self._take(layers)
                self._state = state
            self._taker.declare(self._plan, self._layers, note)
            for problem in empty_groups(before, after):
                self._taker.warn(problem)

    def _take(self, layers: dict[str, Program]) -> None:
        """Have all but the last piece of a change taken."""
        size = 0
        for name, program in layers.items():
            old = self._layers.get(name)
            if old is program:
                continue
            if size > _PIECE:
                self._taker.declare(self._plan, self._layers, "")
                self._pause(_TAKING * _PIECE)
                size = 0
            self._layers = {**self._layers, name: program}
            size += changes(old.rules if old else (), program.rules)
        if self._layers.keys() != layers.keys() and size > _PIECE:
            self._taker.declare(self._plan, self._layers, "")
            self._pause(_TAKING * _PIECE)
        self._layers = layers


def changes(before: tuple[FlowRule, ...], after: tuple[FlowRule, ...]) -> int:
    """About how many rules are others now."""
    return len({id(rule) for rule in before} ^ {id(rule) for rule in after})


def empty_groups(before: TenancyState, after: TenancyState) -> Iterator[str]:
    """Of each policy that came or changed: which groups it names that nobody is in, a sentence."""
    for kind, key in after.versions:
        if kind is Kind.POLICIES and before.versions.get((kind, key)) != after.versions[kind, key]:
            policy = after.policies[key[0]]
            if groups := unfilled(after, policy):
                where = f"VPC {policy.vpc}" if policy.vpc else f"tenant {policy.tenant}"
                yield f"policy {key[0]} names groups that no node of {where} is in: {', '.join(groups)}"


def describe(before: TenancyState, after: TenancyState) -> str:
    """What was changed, in words."""
    changed = []
    for kind, key in {**before.versions, **after.versions}:
        old, new = before.versions.get((kind, key)), after.versions.get((kind, key))
        if old != new:
            what = "declared" if old is None else "taken back" if new is None else "changed"
            changed.append(f"{kind.noun} {'/'.join(key)} {what}")
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    return ", ".join(sorted(changed)[:_MOST_NAMED]) + more
