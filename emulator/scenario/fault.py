"""Faults as they stand in a scenario file: one entry each, a flap being several in one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from emulator.model.fault import Action, Fault
from emulator.scenario.fields import Count, Text, Time, at_least, refuse
from emulator.scenario.topology import Strict

MOST_FAULTS = 1000


class FlapSection(Strict):
    """A link that is cut and restored over and over."""

    link: Text = Field(description="Which link.", examples=["la1-spa1"])
    times: Annotated[Count, Field(le=MOST_FAULTS // 2)] = Field(description="How often it is cut.")
    every_ns: Annotated[Time, at_least(2, "2 ns")] = Field(
        alias="every", description="From one cut to the next; it is restored half-way.", examples=["1 ms"]
    )


class FaultEntry(Strict):
    """Something that goes wrong, or comes right again, at a moment of a workload."""

    at_ns: Time = Field(alias="at", description="When, counted from the workload's start.", examples=["5 ms"])
    during: Text | None = Field(
        default=None,
        description="Name of the workload whose start counts; may be left out where all workloads start together.",
    )
    cut: Text | None = Field(
        default=None,
        description="Link that is pulled: both ends lose carrier, what is on the line is lost.",
        examples=["la1-spa1"],
    )
    silence: Text | None = Field(default=None, description="Link that loses everything while both ends notice nothing.")
    restore: Text | None = Field(default=None, description="Link, cut or silenced before, that is whole again.")
    stop: Text | None = Field(
        default=None, description="Switch, or card that forwards, that loses its power.", examples=["spa1"]
    )
    start: Text | None = Field(default=None, description="Switch or card, stopped before, that comes back.")
    flap: FlapSection | None = Field(default=None, description="Link that is cut and restored over and over.")

    @model_validator(mode="after")
    def _one_action(self) -> FaultEntry:
        given = [name for name in KEYS if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse(f"give one of {', '.join(KEYS)}" + (f", not {' and '.join(given)}" if given else ""))
        return self

    def faults(self, during: str, entry: int) -> list[Fault]:
        """What happens, in order.

        Args:
            during: Workload whose start counts.
            entry: Number of this entry in the file.
        """
        if self.flap is None:
            action = next(one for one in Action if getattr(self, one.value) is not None)
            return [Fault(self.at_ns, action, getattr(self, action.value), during, entry)]
        flap = self.flap
        return [
            Fault(self.at_ns + number * flap.every_ns + wait_ns, action, flap.link, during, entry)
            for number in range(flap.times)
            for wait_ns, action in ((0, Action.CUT), (flap.every_ns // 2, Action.RESTORE))
        ]


KEYS = (*(action.value for action in Action), "flap")
"""The keys of which an entry has exactly one."""
