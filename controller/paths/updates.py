"""The order in which groups change, so that no packet ever loops on the way from old paths to new ones.

Take one target, and call a group *done* when it is in its new state and so is every group that its new ports lead to.
All ports of done groups lead to done groups, and nearer in the new order, so a packet that meets one never meets the
same twice; until then it only meets groups in their old state, whose ports led nearer in the old order, so it does not
there either. The steps keep every group that has its new state done at every moment, because a group changes only
after all groups that its new ports lead to, whatever the order inside a step.

The groups of switches that can no longer reach the target become empty last, when none that still reaches it sends to
them. This is the rule behind ordered updates of forwarding tables (RFC 6976, section 4: routers update after those that
they are going to use); there ranks are times, here each step is confirmed before the next one begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from controller.flows import Group
from controller.paths.paths import Paths
from emulator.errors import ControllerError


def phases(before: Paths, after: Paths) -> tuple[tuple[Group, ...], ...]:
    """The groups that differ, in their new state, step by step; see `steps`.

    Raises:
        ControllerError: The two are of different fabrics, or spread differently: then there is more to change than
            groups.
    """
    if before.layout is not after.layout and before.fabric != after.fabric:
        raise ControllerError(f"paths of {before.fabric.name!r} cannot be changed to paths of {after.fabric.name!r}")
    if before.spread is not after.spread:
        raise ControllerError("paths that are spread differently differ in rules, not only in groups")
    return steps(after, before.groups(), after.groups())


def steps(paths: Paths, before: Iterable[Group], after: Iterable[Group]) -> tuple[tuple[Group, ...], ...]:
    """The groups that differ, in their new state, step by step.

    A step may begin when all switches have confirmed the one before; inside a step any order will do.

    Args:
        paths: Any paths of the fabric: they say where ports and groups lead.
        before: What switches have, free of loops: paths, or what is left of an update that was broken off.
        after: All groups as they should be, free of loops.
    """
    have = {(group.dpid, group.number): group for group in before}
    names = {node.dpid: node.name for node in paths.fabric.switches}
    changed: dict[str, dict[str, list[Group]]] = defaultdict(lambda: defaultdict(list))
    onward: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for group in after:
        switch, target = names[group.dpid], paths.target_of(group.number)
        onward[target][switch].update(paths.peers[switch, bucket.port] for bucket in group.buckets)
        if have.get((group.dpid, group.number)) != group:
            changed[target][switch].append(group)
    found: dict[int, list[Group]] = defaultdict(list)
    emptied: list[Group] = []
    for target, switches in changed.items():
        step_of = _steps(onward[target], switches)
        for switch, groups in switches.items():
            for group in groups:
                (found[step_of[switch]] if group.buckets else emptied).append(group)
    ordered = [found[step] for step in sorted(found)] + ([emptied] if emptied else [])
    return tuple(tuple(sorted(groups, key=lambda group: (group.dpid, group.number))) for groups in ordered)


def _steps(onward: Mapping[str, Collection[str]], changed: Collection[str]) -> dict[str, int]:
    """For each switch of one target: how many changed ones, at most, its packets may meet after it."""
    found: dict[str, int] = {}
    for start in onward:
        waiting = [start]
        while waiting:
            switch = waiting[-1]
            missing = [peer for peer in onward.get(switch, ()) if peer not in found]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            found[switch] = max((found[peer] + (peer in changed) for peer in onward.get(switch, ())), default=0)
    return found
