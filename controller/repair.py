"""The groups that fit what is usable now, and the steps in which switches get them."""

from __future__ import annotations

from collections.abc import Iterable

from controller.flows import Group
from controller.groups import Groups
from controller.linkstate import Usable
from controller.nexthops import UNREACHABLE
from controller.routing import Routes


class Repair:
    """Recomputes groups of one fabric.

    For each switch that packets go to, links that are to be shunned are left out if everybody who could reach it still
    can; otherwise only links that are down are. As each target has paths of its own, that mixes without loops.

    Args:
        whole: Routes of the whole fabric.
    """

    def __init__(self, whole: Routes) -> None:
        self._whole = whole
        self._groups = Groups(whole)
        self._chosen: dict[str, Routes] = dict.fromkeys(whole.targets, whole)

    def groups(self, usable: Usable) -> tuple[Group, ...]:
        """All groups of all switches for what is usable; remembered for `steps`."""
        plain = self._whole.without(usable.down) if usable.down else self._whole
        careful = self._whole.without(usable.down | usable.shunned) if usable.shunned else plain
        rows = [row for name, row in plain.next_hops.index.items() if name not in usable.avoided]
        lost = (careful.next_hops.hops[rows] == UNREACHABLE) & (plain.next_hops.hops[rows] != UNREACHABLE)
        for name, column in plain.next_hops.column.items():
            self._chosen[name] = plain if lost[:, column].any() else careful
        return self._groups.of(self._chosen)

    def steps(self, before: Iterable[Group], after: Iterable[Group]) -> list[list[Group]]:
        """The groups that change, in steps, so that no packet loops at any moment in between.

        Groups go in order of their new distance to the target, nearest first; a step begins when all switches have done
        the one before. A switch that was changed then only sends to switches that are in their new state too and
        nearer, and one that was not still follows the old paths, which lead nearer as well, until a changed one: so
        every packet makes finitely many steps in either state and none returns. (The rule of ordered updates, RFC 6976,
        section 4.)

        Args:
            before: What switches have now.
            after: What they are to have, as `groups` said last.
        """
        names = {node.dpid: node.name for node in self._whole.fabric.switches}
        have = {(group.dpid, group.number): group for group in before}
        steps: dict[int, list[Group]] = {}
        for group in after:
            if have.get((group.dpid, group.number)) != group:
                target = self._groups.target(group.number)
                distance = self._chosen[target].next_hops.distance(names[group.dpid], target)
                steps.setdefault(distance or 0, []).append(group)
        return [steps[distance] for distance in sorted(steps)]
