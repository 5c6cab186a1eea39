"""What one switch holds or should hold, by what identifies each entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.changes import Change
from controller.events import Part
from controller.flows import FlowRule, Group, Meter, Program

Key = tuple[Part, object]
"""What identifies an entry in its switch."""


class Tables:
    """Rules, groups and meters of one switch."""

    def __init__(self, program: Program = Program()) -> None:  # noqa: B008 - it is frozen
        self.entries: dict[Key, FlowRule | Group | Meter] = dict(keyed(program))

    def get(self, key: Key) -> FlowRule | Group | Meter | None:
        """An entry, or None."""
        return self.entries.get(key)

    def put(self, program: Program) -> list[Key]:
        """Add or replace entries; the keys of those that differ now."""
        changed = [key for key, entry in keyed(program) if self.entries.get(key) != entry]
        # Notes do not make entries differ, but those of the latest are shown.
        self.entries.update(keyed(program))
        return changed

    def drop(self, program: Program) -> list[Key]:
        """Remove entries, if they are there as given; their keys."""
        gone = [key for key, entry in keyed(program) if self.entries.get(key) == entry]
        for key in gone:
            del self.entries[key]
        return gone

    @property
    def program(self) -> Program:
        """All entries."""
        return collect(self.entries.values())

    @property
    def groups(self) -> Iterator[Group]:
        """All groups."""
        return (entry for entry in self.entries.values() if isinstance(entry, Group))

    def numbers(self, part: Part) -> frozenset[int]:
        """Numbers of all groups or meters."""
        return frozenset(number for kind, number in self.entries if kind is part and isinstance(number, int))


def keyed(program: Program) -> Iterator[tuple[Key, FlowRule | Group | Meter]]:
    """The entries of one switch's program with their keys."""
    for meter in program.meters:
        yield (Part.METER, meter.number), meter
    for group in program.groups:
        yield (Part.GROUP, group.number), group
    for rule in program.rules:
        yield (Part.FLOW, rule.key), rule


def collect(entries: Iterable[FlowRule | Group | Meter]) -> Program:
    """Entries as a program."""
    rules: list[FlowRule] = []
    groups: list[Group] = []
    meters: list[Meter] = []
    for entry in entries:
        if isinstance(entry, FlowRule):
            rules.append(entry)
        elif isinstance(entry, Group):
            groups.append(entry)
        else:
            meters.append(entry)
    return Program(tuple(rules), tuple(groups), tuple(meters))


def turn(dpid: int, have: Tables, want: Tables, keys: Iterable[Key]) -> Change:
    """The change that makes some entries of a switch what they should be.

    Rules of later tables come first, so that a packet that meets a new rule finds the way on from there; they go last.
    """
    put: list[FlowRule | Group | Meter] = []
    delete: list[FlowRule | Group | Meter] = []
    for key in keys:
        old, new = have.get(key), want.get(key)
        if new is not None and new != old:
            put.append(new)
        elif new is None and old is not None:
            delete.append(old)
    added, removed = collect(put), collect(delete)
    return Change(
        dpid,
        put=Program(tuple(sorted(added.rules, key=lambda rule: -rule.table)), added.groups, added.meters),
        delete=Program(tuple(sorted(removed.rules, key=lambda rule: rule.table)), removed.groups, removed.meters),
    )
