"""What switches should hold, in layers that change independently: base, parts of tenants, pins."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.flows import Program

Change = tuple[Program, Program]
"""What to put and what to delete."""
EMPTY = Program()


class Layers:
    """Programs by layer and switch."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[Program, Mapping[int, Program]]] = {}

    def replace(self, name: str, program: Program) -> dict[int, Change]:
        """Have another layer of this name, and the others as before."""
        return self.set({name: program}, keep=tuple(self._layers))

    def set(self, layers: Mapping[str, Program], keep: Collection[str] = ()) -> dict[int, Change]:
        """Have these layers and, of the others, only those to keep; what changes, by datapath id.

        A layer that is the same object as before is not looked into.
        """
        gone = [name for name in self._layers if name not in layers and name not in keep]
        put: dict[int, list[Program]] = {}
        delete: dict[int, list[Program]] = {}
        for name in (*gone, *layers):
            program = layers.get(name, EMPTY)
            before = self._layers.get(name, (EMPTY, {}))
            if before[0] is program:
                continue
            after = program.by_switch()
            for dpid in {*before[1], *after}:
                old, new = before[1].get(dpid, EMPTY), after.get(dpid, EMPTY)
                gone_entries, new_entries = _difference(old, new)
                delete.setdefault(dpid, []).append(gone_entries)
                put.setdefault(dpid, []).append(new_entries)
            if name in layers:
                self._layers[name] = (program, after)
            else:
                del self._layers[name]
        found: dict[int, Change] = {}
        for dpid in put:
            change = (sum(put[dpid], EMPTY), sum(delete[dpid], EMPTY))
            if change != (EMPTY, EMPTY):
                found[dpid] = change
        return found


def _difference(old: Program, new: Program) -> tuple[Program, Program]:
    """What only the old one has, and what only the new one has; no rule is twice in one of them.

    Most rules are the same objects in both, which is seen sooner than that they are equal.
    """
    here, there = {id(rule) for rule in old.rules}, {id(rule) for rule in new.rules}
    older = Program(tuple(rule for rule in old.rules if id(rule) not in there), old.groups, old.meters)
    newer = Program(tuple(rule for rule in new.rules if id(rule) not in here), new.groups, new.meters)
    return _less(older, newer), _less(newer, older)


def _less(program: Program, other: Program) -> Program:
    """What the other one has not."""
    rules, groups, meters = set(other.rules), set(other.groups), set(other.meters)
    return Program(
        tuple(rule for rule in program.rules if rule not in rules),
        tuple(group for group in program.groups if group not in groups),
        tuple(meter for meter in program.meters if meter not in meters),
    )
