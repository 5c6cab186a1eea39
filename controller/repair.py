"""The groups that fit what is usable now, and the steps in which switches get them."""

from __future__ import annotations

from collections.abc import Iterable

from controller.flows import Group
from controller.linkstate import Usable
from controller.paths.nexthops import UNREACHED
from controller.paths.paths import Paths
from controller.paths.updates import steps


class Repair:
    """Recomputes groups of one fabric.

    For each switch that packets go to, links that are to be shunned are left out if everybody who could reach it still
    can; otherwise only links that are down are. As each target has paths of its own, that mixes without loops.

    Args:
        whole: Paths of the whole fabric.
    """

    def __init__(self, whole: Paths) -> None:
        self._whole = whole

    def groups(self, usable: Usable) -> tuple[Group, ...]:
        """All groups of all switches for what is usable."""
        plain = self._whole.without(usable.down) if usable.down else self._whole
        if not usable.shunned:
            return plain.groups()
        careful = self._whole.without(usable.down | usable.shunned)
        kept = [place for name, place in plain.layout.graph.index.items() if name not in usable.avoided]
        lost = (careful.next_hops.hops[:, kept] == UNREACHED) & (plain.next_hops.hops[:, kept] != UNREACHED)
        worse = {target for target, row in plain.layout.rows.items() if lost[row].any()}
        return tuple(
            one if plain.target_of(one.number) in worse else other
            for one, other in zip(plain.groups(), careful.groups(), strict=True)
        )

    def steps(self, before: Iterable[Group], after: Iterable[Group]) -> list[list[Group]]:
        """The groups that change, in steps, so that no packet loops at any moment in between.

        Args:
            before: What switches have now.
            after: What they are to have, as `groups` said.
        """
        return [list(step) for step in steps(self._whole, before, after)]
