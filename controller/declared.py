"""Carries what tenants declare from the store to the core: compiled, and with a note of what was changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controller.compose import Composer
from controller.designs import Plan
from controller.flows import Program
from controller.tenancy.state import TenancyState

_MOST_NAMED = 3


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


class Declared:
    """Follows a store.

    Args:
        store: Has the resources.
        composer: Compiles them.
        taker: Takes what comes out, now and after each change.
    """

    def __init__(self, store: Resources, composer: Composer, taker: Takes) -> None:
        self._composer = composer
        self._taker = taker
        plan, layers = composer.layers(store.state)
        taker.declare(plan, layers, "")
        store.subscribe(self._changed)

    def _changed(self, before: TenancyState, after: TenancyState) -> None:
        plan, layers = self._composer.layers(after)
        self._taker.declare(plan, layers, describe(before, after))


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
