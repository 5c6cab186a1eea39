"""The ``bisection`` workload as it stands in a scenario file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from emulator.model import workload as model
from emulator.scenario.fields import Flag, Index, Time, refuse
from emulator.scenario.workload_base import Congestion, WorkloadSection, choice_field, time_field


class BisectionSection(WorkloadSection):
    """Cards on one side of a supernode's narrowest cut send to the other, all at once, as much as they can."""

    noun = model.Bisection
    kind: Literal["bisection"]
    partners: Index = Field(
        default=model.Bisection.partners,
        description="Cards of the other half that each card sends to, from the one at its own position on; 0: all.",
    )
    both_ways: Flag = Field(default=model.Bisection.both_ways, description="Both sides send at the same time.")
    duration_ns: Time = time_field("duration", model.Bisection.duration_ns, "Time for which they send.")
    warm_up_ns: Time = time_field("warm_up", model.Bisection.warm_up_ns, "Time at the start that does not count.")
    congestion: Congestion = choice_field(model.Bisection.congestion, "Linux congestion control.")

    @model_validator(mode="after")
    def _amount(self) -> BisectionSection:
        if self.warm_up_ns >= self.duration_ns:
            raise refuse("'warm_up' is not shorter than 'duration'")
        return self
