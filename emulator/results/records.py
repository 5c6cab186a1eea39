"""One figure of a result: what it is of, its value and unit, and above all where it comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum


class Kind(str, Enum):
    """Where a figure comes from; the four never blur."""

    MEASURED = "measured"
    """It came out of packets."""
    MODELLED = "modelled"
    """A stated input or a consequence of one; ``source`` names it."""
    CLAIMED = "claimed"
    """The source documents say so; ``source`` is the claim's number."""
    THEORY = "theory"
    """A closed form; ``source`` names it."""


@dataclass(frozen=True)
class Record:
    """One figure.

    Attributes:
        scenario: Name of the scenario.
        variant: Which of its variants, for example ``gateway/documents`` or ``rate=100 Gbit/s,hops=3``.
        workload: Name of the workload in the scenario; ``fabric`` for figures of links and ports.
        metric: What was looked at, for example ``rtt_mean`` or ``goodput``.
        value: The figure.
        unit: Its unit: ``ns``, ``bit/s``, ``B``, ``1`` (a ratio or count) and so on.
        kind: Where it comes from.
        source: Tool, counter, formula, profile parameter or claim that it came from.
    """

    scenario: str
    variant: str
    workload: str
    metric: str
    value: float | int
    unit: str
    kind: Kind
    source: str

    def as_json(self) -> dict[str, object]:
        """The record as a JSON object with the same keys."""
        return {**asdict(self), "kind": self.kind.value}

    @classmethod
    def from_json(cls, data: dict[str, object]) -> Record:
        """Read back what `as_json` wrote.

        Raises:
            ValueError: A key is missing, unknown, or of the wrong type.
        """
        if set(data) != set(cls.__dataclass_fields__):
            raise ValueError(
                f"a record has the keys {', '.join(cls.__dataclass_fields__)}, not {', '.join(sorted(data))}"
            )
        value = data["value"]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"a record's value is a number, not {value!r}")
        if isinstance(value, int) and abs(value) >= 2**1023:
            raise ValueError("a record's value is too large for a number")
        texts = {key: str(data[key]) for key in cls.__dataclass_fields__ if key not in ("value", "kind")}
        return cls(value=value, kind=Kind(data["kind"]), **texts)
