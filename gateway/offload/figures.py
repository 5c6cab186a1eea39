"""What is told about the table of offloaded flows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Audit:
    """How table and maps agree.

    Attributes:
        flows: Flows in the table.
        missing: In the table, not in the map.
        foreign: In the map, not in the table.
        different: In both, with different content.
        repaired: Whether the map was put right.
        examples: Some of those, as text.
    """

    flows: int
    missing: int
    foreign: int
    different: int
    repaired: bool
    examples: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether nothing was found."""
        return not (self.missing or self.foreign or self.different)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**asdict(self), "agrees": self.agrees}


@dataclass
class TableCounters:
    """What happened to the table.

    Attributes:
        installed, expired, evicted, removed: Flows that came, and that went for each reason.
        refused: Flows that could not be installed.
        adopted: Flows that another daemon had installed.
        ended_packets, ended_bytes: What flows that went had counted.
    """

    installed: int = 0
    expired: int = 0
    evicted: int = 0
    removed: int = 0
    refused: int = 0
    adopted: int = 0
    ended_packets: int = 0
    ended_bytes: int = 0
