"""What the sections of all workloads share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictStr

from emulator.model import workload as model
from emulator.scenario.fields import AsText, Size, Text, at_least
from emulator.scenario.topology import Strict
from emulator.units import format_size, format_time

Message = Annotated[Size, at_least(1, "1 B")]
Congestion = Literal["cubic", "bbr", "dctcp", "reno"]

WorkloadName = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$"), AsText]


def with_unit(alias: str, default: int, write: Callable[[int], str], description: str) -> Any:
    """A quantity: its default is written with its unit."""
    return Field(default=default, alias=alias, description=description, json_schema_extra={"default": write(default)})


def choice_field(default: str, description: str) -> Any:
    """One of several words."""
    return Field(default=default, description=description)


def time_field(alias: str, default_ns: int, description: str) -> Any:
    """A duration."""
    return with_unit(alias, default_ns, format_time, description)


def size_field(alias: str, default_bytes: int, description: str) -> Any:
    """An amount of data."""
    return with_unit(alias, default_bytes, format_size, description)


class WorkloadSection(Strict):
    """Base: a name, unique in the scenario."""

    noun: ClassVar[type[model.Workload]]
    name: WorkloadName = Field(description="Unique in the scenario; records carry it.", examples=["rtt", "bulk"])
    alongside: Text = Field(
        default="",
        description="Name of an earlier workload that this one starts together with, instead of waiting for its end.",
        examples=["bulk"],
        json_schema_extra={"default": None},
    )

    def build(self) -> model.Workload:
        """The workload as plain data; what the file leaves out keeps the dataclass's default."""
        return self.noun(**self.model_dump(exclude_unset=True, exclude={"kind"}))
