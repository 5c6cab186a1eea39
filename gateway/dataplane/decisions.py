"""What was decided about flows' first packets, with all that those that follow need."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.dataplane.edits import Deltas, Edits
from gateway.dataplane.memory import Bytes, Ints

OUTSIDE = -1
"""Instead of a rule: the flow was decided from outside."""


@dataclass(slots=True)
class Decisions:
    """What was decided about some flows, one entry each.

    Attributes:
        reason: What becomes of their frames.
        edits, deltas: What these leave with.
        rule: The rule that decided.
        service: The `Service` that they belong to.
    """

    reason: Bytes
    edits: Edits
    deltas: Deltas
    rule: Ints
    service: Ints

    def take(self, rows: Ints) -> Decisions:
        """Some of them."""
        return Decisions(
            self.reason[rows], self.edits.take(rows), self.deltas.take(rows), self.rule[rows], self.service[rows]
        )
