"""Carries out changes of groups step by step: the next one begins when every switch has done the one before.

Rules that hold pairs of hosts on paths that are none of the best any more go first, while all groups are still as they
were: every port of a pin is one of its switch's groups too, so without these rules nothing leads where groups would
not, before the first of them changes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from controller.core.layers import Change
from controller.core.links import NOTHING_KNOWN, Usable
from controller.core.session import SwitchSession
from controller.core.state import BUSY
from controller.events import Command, Part
from controller.flows import Group, Program
from controller.paths.choice import Choice
from controller.paths.paths import Paths
from controller.paths.updates import steps


class Repair:
    """One fabric's groups, and the update that is under way.

    Args:
        whole: Paths of the whole fabric.
        sessions: By datapath id.
        limit_ns: A step waits this long for switches that do not answer.
        prepare: What has to change in rules before groups change for other paths, by datapath id.

    Attributes:
        usable: What the groups are, or are becoming, right for.
        paths: The same as paths: without what is down and shunned.
        count: How many updates have begun.
        begun_ns: When the last one began; None: there was none.
        ended_ns: When it was done; None: it is not, or there was none.
        slow: Names of the switches that did not do a step of the last update in time.
    """

    def __init__(
        self,
        whole: Paths,
        sessions: dict[int, SwitchSession],
        limit_ns: int,
        prepare: Callable[[Paths], Mapping[int, Change]],
    ) -> None:
        self.usable = NOTHING_KNOWN
        self.paths = whole
        self.count = 0
        self.begun_ns: int | None = None
        self.ended_ns: int | None = None
        self.slow: list[str] = []
        self._whole = whole
        self._sessions = sessions
        self._chosen = Choice(whole)
        self._limit_ns = limit_ns
        self._prepare = prepare
        self._steps: deque[Sequence[Group]] = deque()
        self._waiting: set[int] = set()
        self._until_ns = 0

    @property
    def under_way(self) -> bool:
        """Whether an update is not done yet."""
        return bool(self._steps or self._waiting)

    def next_ns(self) -> int | None:
        """When a step has waited long enough; None: none waits."""
        return self._until_ns if self._waiting else None

    def go_on(self, current: Callable[[], Usable], now_ns: int) -> list[Command]:
        """Begin an update if what is usable changed, and take the next step if the last one is done."""
        self._waiting = {dpid for dpid in self._waiting if self._sessions[dpid].state in BUSY}
        if self._waiting and now_ns >= self._until_ns:
            self.slow += sorted(self._sessions[dpid].name for dpid in self._waiting)
            self._waiting.clear()
        if self._waiting:
            return []
        usable = current()
        commands: list[Command] = []
        if (usable.down, usable.shunned) != (self.usable.down, self.usable.shunned):
            commands += self._begin(usable, now_ns)
        self.usable = usable
        while self._steps and not self._waiting:
            commands += self._step(self._steps.popleft(), now_ns)
        if not self.under_way and self.begun_ns is not None and self.ended_ns is None:
            self.ended_ns = now_ns
        return commands

    def adopt(self, usable: Usable) -> None:
        """Want what is right for this at once; for switches of which nothing is known yet."""
        if (usable.down, usable.shunned) != (self.usable.down, self.usable.shunned):
            for group in self._choose(usable):
                self._sessions[group.dpid].change(Program(groups=(group,)), Program())
            for dpid, (put, delete) in self._prepare(self.paths).items():
                self._sessions[dpid].change(put, delete)
        self.usable = usable

    def _begin(self, usable: Usable, now_ns: int) -> list[Command]:
        # What an update that is broken off has not come to yet is not there, although it was chosen.
        left = [group for step in self._steps for group in step]
        differ = {(group.dpid, group.number): group for group in self._choose(usable, left)}
        changed = [group for group in differ.values() if self._held(group) != group]
        self._steps = deque(steps(self._chosen, changed))
        prepared = self._prepare(self.paths)
        if not self._steps and not prepared:
            return []  # what failed was not in use, as a link that flaps
        self.count += 1
        self.begun_ns, self.ended_ns, self.slow = now_ns, None, []
        return self._change(prepared, now_ns)

    def _choose(self, usable: Usable, also: Iterable[Group] = ()) -> Iterator[Group]:
        """Choose the groups that fit; those that may differ from the ones chosen before, and those in place of others.

        Args:
            usable: What they have to fit.
            also: Groups in whose place one is wanted anyhow.
        """
        before, whole = self._chosen, self._whole
        plain = whole.without(usable.down) if usable.down else whole
        careful = whole.without(usable.down | usable.shunned) if usable.shunned else plain
        self.paths = careful
        self._chosen = Choice(plain, careful)
        yield from self._chosen.groups_that_differ(before)
        rows: dict[int, set[int]] = defaultdict(set)
        for group in also:
            rows[group.dpid].add(whole.layout.rows[whole.target_of(group.number)])
        for dpid, targets in rows.items():
            yield from self._chosen.groups_at(self._sessions[dpid].name, np.array(sorted(targets)))

    def _held(self, group: Group) -> object:
        return self._sessions[group.dpid].tables.get((Part.GROUP, group.number))

    def _step(self, groups: Iterable[Group], now_ns: int) -> list[Command]:
        by_switch: dict[int, list[Group]] = {}
        for group in groups:
            by_switch.setdefault(group.dpid, []).append(group)
        changes = {dpid: (Program(groups=tuple(changed)), Program()) for dpid, changed in by_switch.items()}
        return self._change(changes, now_ns)

    def _change(self, changes: Mapping[int, Change], now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for dpid, (put, delete) in changes.items():
            session = self._sessions[dpid]
            commands += session.change(put, delete)
            # One that is being read or verified gets its groups by that.
            if session.state in BUSY:
                self._waiting.add(dpid)
        self._until_ns = now_ns + self._limit_ns
        return commands
