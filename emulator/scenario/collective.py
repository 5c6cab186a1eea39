"""The ``collective`` workload as it stands in a scenario file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from emulator.collectives import SCHEDULES, Collective
from emulator.model import workload as model
from emulator.scenario.fields import Count, Index, Names, Rate, Size, Sizes, Text, Time, at_least, refuse
from emulator.scenario.workload_base import (
    Message,
    WorkloadSection,
    choice_field,
    size_field,
    time_field,
    with_unit,
)
from emulator.units import format_rate


class CollectiveSection(WorkloadSection):
    """A collective among cards over TCP, at one or more sizes, in the words of nccl-tests."""

    noun = model.CollectiveRun
    kind: Literal["collective"]
    collective: Literal["all_reduce", "reduce_scatter", "all_gather", "alltoall", "broadcast", "reduce"] = choice_field(
        model.CollectiveRun.collective, "What is computed."
    )
    algorithm: Text = Field(
        default=model.CollectiveRun.algorithm,
        description="Name of the schedule, with @2 one for each of two planes; auto: for each size the quickest "
        "one by prediction.",
        examples=["auto", "ring", "halving-doubling", "torus-buckets"],
    )
    ranks: Names = Field(
        default=model.CollectiveRun.ranks,
        description="Roles and hosts in the order of their ranks; left out: all cards, or all hosts.",
        examples=[["h0", "h1"], "gpu"],
        json_schema_extra={"default": None},
    )
    shape: Sizes = Field(
        default=model.CollectiveRun.shape,
        description="Ranks in each dimension of a grid, for schedules that go by dimensions; left out: as the cards' "
        "names tell.",
        json_schema_extra={"default": None},
    )
    begin_bytes: Message = size_field(
        "begin", model.CollectiveRun.begin_bytes, "Smallest size, as nccl-tests count it."
    )
    end_bytes: Message = size_field("end", model.CollectiveRun.end_bytes, "Largest size; left out: only the smallest.")
    factor: Annotated[Count, at_least(2, "2")] = Field(
        default=model.CollectiveRun.factor, description="From one size to the next."
    )
    foretell_bytes: Size = size_field(
        "foretell",
        model.CollectiveRun.foretell_bytes,
        "Up to here sizes are predicted only, each twice the one before; 0 B: none.",
    )
    iterations: Count = Field(
        default=model.CollectiveRun.iterations, description="How often each size is done; the mean counts."
    )
    warm_up: Index = Field(default=model.CollectiveRun.warm_up, description="How often before that without counting.")
    datatype: Literal["int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"] = choice_field(
        model.CollectiveRun.datatype, "Type of the numbers."
    )
    operation: Literal["sum", "min", "max"] = choice_field(model.CollectiveRun.operation, "How they are reduced.")
    congestion: Literal["cubic", "bbr", "dctcp", "reno"] = choice_field(
        model.CollectiveRun.congestion, "Linux congestion control."
    )
    buffer_bytes: Annotated[Size, at_least(65_536, "64 KiB")] = size_field(
        "buffer", model.CollectiveRun.buffer_bytes, "Buffer of each socket, for sending and for receiving."
    )
    reduce_bps: Rate = with_unit(
        "reduce_rate",
        model.CollectiveRun.reduce_bps,
        format_rate,
        "Rate at which a card adds up what arrives; 0 bit/s: it takes no time.",
    )
    message_ns: Time = time_field(
        "message", model.CollectiveRun.message_ns, "Time that a card takes before each message."
    )

    @model_validator(mode="after")
    def _known(self) -> CollectiveSection:
        known = SCHEDULES[Collective(self.collective)]
        if self.algorithm != "auto" and self.algorithm.partition("@")[0] not in known:
            raise refuse(f"{self.algorithm!r} does no {self.collective}: {', '.join(['auto', *known])}")
        if "end_bytes" in self.model_fields_set and self.end_bytes < self.begin_bytes:
            raise refuse("'end' is below 'begin'")
        return self

    def build(self) -> model.Workload:
        """As the base, but without an end there is one size."""
        given = {"end_bytes": self.begin_bytes, **self.model_dump(exclude_unset=True, exclude={"kind"})}
        return model.CollectiveRun(**given)
