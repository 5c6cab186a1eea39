"""Changes of what a switch holds, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from controller.flows import Program

NOTHING = Program()


@dataclass(frozen=True)
class Change:
    """A change of one switch, made in this order: meters and groups before the rules that use them, and gone after.

    Attributes:
        dpid: Datapath id of the switch.
        clear: Delete everything first.
        put: Meters, groups, then rules to add, or to replace those with the same numbers and keys.
        delete: Rules, groups, then meters to delete.
    """

    dpid: int
    clear: bool = False
    put: Program = NOTHING
    delete: Program = NOTHING

    def __bool__(self) -> bool:
        return self.clear or self.put != NOTHING or self.delete != NOTHING


def difference(dpid: int, have: Program, want: Program) -> Change:
    """The change that turns what one switch has into what it should have."""
    rules, groups, meters = (
        {rule.key: rule for rule in have.rules},
        {group.number: group for group in have.groups},
        {meter.number: meter for meter in have.meters},
    )
    put = Program(
        tuple(rule for rule in want.rules if rules.get(rule.key) != rule),
        tuple(group for group in want.groups if groups.get(group.number) != group),
        tuple(meter for meter in want.meters if meters.get(meter.number) != meter),
    )
    keys = {rule.key for rule in want.rules}
    numbers = {group.number for group in want.groups}
    limits = {meter.number for meter in want.meters}
    delete = Program(
        tuple(rule for key, rule in rules.items() if key not in keys),
        tuple(group for number, group in groups.items() if number not in numbers),
        tuple(meter for number, meter in meters.items() if number not in limits),
    )
    return Change(dpid, put=put, delete=delete)
