"""What all workloads have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Workload:
    """Base: a name, unique in its scenario.

    Attributes:
        name: The name.
        alongside: Name of an earlier workload that it starts together with; empty: it waits for the earlier ones' end.
    """

    kind: ClassVar[str]
    name: str
    alongside: str = field(default="", kw_only=True)

    @property
    def length_ns(self) -> int | None:
        """How long it lasts from its start, if that is stated; None: it lasts until it is done."""
        return None


def grouped(workloads: Sequence[Workload]) -> list[list[Workload]]:
    """Workloads that run at the same time, group after group, in the order in which they run."""
    groups: list[list[Workload]] = []
    for workload in workloads:
        group = next((one for one in groups if workload.alongside in [other.name for other in one]), None)
        if group is None:
            groups.append([workload])
        else:
            group.append(workload)
    return groups
