"""The ``collective`` workload as it stands in a scenario file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emulator.collectives import SCHEDULES, Collective
from emulator.model import workload as model
from emulator.scenario.fields import (
    AsTuple,
    Count,
    Index,
    Names,
    Rate,
    Size,
    Sizes,
    Text,
    Time,
    at_least,
    at_most,
    refuse,
)
from emulator.scenario.topology import Strict
from emulator.scenario.workload_base import (
    Congestion,
    Message,
    WorkloadSection,
    choice_field,
    size_field,
    time_field,
    with_unit,
)
from emulator.units import format_rate

LEAVES = ("leaves-ring", "leaves-halving-doubling")
"""Schedules in which cards with slower links are leaves."""
_REPETITIONS = at_most(1_000_000, "1 million")


class CardSection(Strict):
    """Cards of another kind."""

    ranks: Names = Field(description="Which hosts.")
    reduce_bps: Rate | None = Field(default=None, alias="reduce_rate", description="Instead of the workload's.")
    message_ns: Time | None = Field(default=None, alias="message", description="Instead of the workload's.")
    chunk_bytes: Size | None = Field(default=None, alias="chunk", description="Instead of the workload's.")


class CollectivesSection(WorkloadSection):
    """Base of workloads that do collectives."""

    collective: Literal["all_reduce", "reduce_scatter", "all_gather", "alltoall", "broadcast", "reduce"] = choice_field(
        model.Collectives.collective, "What is computed."
    )
    algorithm: Text = Field(
        default=model.Collectives.algorithm,
        description="Name of the schedule, with @2 one for each of two planes; auto: for each size the quickest "
        "one by prediction.",
        examples=["auto", "ring", "halving-doubling", "torus-buckets"],
    )
    ranks: Names = Field(
        default=model.Collectives.ranks,
        description="Roles and hosts in the order of their ranks; left out: all cards, or all hosts.",
        examples=[["h0", "h1"], "gpu"],
        json_schema_extra={"default": None},
    )
    shape: Sizes = Field(
        default=model.Collectives.shape,
        description="Ranks in each dimension of a grid, for schedules that go by dimensions; left out: as the cards' "
        "names tell.",
        json_schema_extra={"default": None},
    )
    datatype: Literal["int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"] = choice_field(
        model.Collectives.datatype, "Type of the numbers."
    )
    operation: Literal["sum", "min", "max"] = choice_field(model.Collectives.operation, "How they are reduced.")
    congestion: Congestion = choice_field(model.Collectives.congestion, "Linux congestion control.")
    buffer_bytes: Annotated[Size, at_least(65_536, "64 KiB"), at_most(1 << 30, "1 GiB")] = size_field(
        "buffer", model.Collectives.buffer_bytes, "Buffer of each socket, for sending and for receiving."
    )
    reduce_bps: Rate = with_unit(
        "reduce_rate",
        model.Collectives.reduce_bps,
        format_rate,
        "Rate at which a card adds up what arrives; 0 bit/s: it takes no time.",
    )
    message_ns: Time = time_field(
        "message", model.Collectives.message_ns, "Time that a card takes before each message."
    )
    chunk_bytes: Size = size_field(
        "chunk",
        model.Collectives.chunk_bytes,
        "A card handles a message in chunks of this size, each of which takes it `message`; 0 B: whole.",
    )
    cards: Annotated[tuple[CardSection, ...], AsTuple] = Field(default=(), description="Cards of other kinds.")

    @model_validator(mode="after")
    def _known(self) -> CollectivesSection:
        hanging = LEAVES if self.collective == Collective.ALL_REDUCE.value else ()
        known = ["auto", *SCHEDULES[Collective(self.collective)], *hanging]
        if self.algorithm not in known and self.algorithm.partition("@")[0] not in known[1:]:
            raise refuse(f"{self.algorithm!r} does no {self.collective}: {', '.join(known)}")
        return self

    def given(self, *without: str) -> dict[str, Any]:
        """What the file gives, but for some keys; cards as plain data."""
        given = self.model_dump(exclude_unset=True, exclude={"kind", "cards", *without})
        cards = [
            (
                card.ranks,
                self.reduce_bps if card.reduce_bps is None else card.reduce_bps,
                self.message_ns if card.message_ns is None else card.message_ns,
                self.chunk_bytes if card.chunk_bytes is None else card.chunk_bytes,
            )
            for card in self.cards
        ]
        return {**given, "cards": tuple(cards)}


class CollectiveSection(CollectivesSection):
    """A collective among cards over TCP, at one or more sizes, in the words of nccl-tests."""

    noun = model.CollectiveRun
    kind: Literal["collective"]
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
    iterations: Annotated[Count, _REPETITIONS] = Field(
        default=model.CollectiveRun.iterations, description="How often each size is done; the mean counts."
    )
    warm_up: Annotated[Index, _REPETITIONS] = Field(
        default=model.CollectiveRun.warm_up, description="How often before that without counting."
    )

    @model_validator(mode="after")
    def _ascending(self) -> CollectiveSection:
        if "end_bytes" in self.model_fields_set and self.end_bytes < self.begin_bytes:
            raise refuse("'end' is below 'begin'")
        return self

    def build(self) -> model.Workload:
        """As the base, but without an end there is one size."""
        return model.CollectiveRun(**{"end_bytes": self.begin_bytes, **self.given()})


class ChangeSection(Strict):
    """Cards that join or leave a job."""

    after: Count = Field(description="Rounds that are over by then.")
    join: Names = Field(default=(), description="Hosts that join.", json_schema_extra={"default": None})
    leave: Names = Field(default=(), description="Hosts that leave.", json_schema_extra={"default": None})

    @model_validator(mode="after")
    def _somebody(self) -> ChangeSection:
        if not self.join and not self.leave:
            raise refuse("give 'join', 'leave' or both")
        return self


class CollectiveJobSection(CollectivesSection):
    """A job that does a collective round after round, while links and cards fail, cards join and leave."""

    noun = model.CollectiveJob
    kind: Literal["collective_job"]
    size_bytes: Message = size_field("size", model.CollectiveJob.size_bytes, "Of the buffer.")
    rounds: Annotated[Count, _REPETITIONS] = Field(
        default=model.CollectiveJob.rounds, description="How often it is done."
    )
    detect_ns: Annotated[Time, at_least(1000, "1 us")] = time_field(
        "detect",
        model.CollectiveJob.detect_ns,
        "Nothing having arrived anywhere for so long, ranks believe that something is broken.",
    )
    react_ns: Time = time_field(
        "react",
        model.CollectiveJob.react_ns,
        "Time that the fabric's manager and the job take from then until the job goes on.",
    )
    changes: Annotated[tuple[ChangeSection, ...], AsTuple] = Field(
        default=(), description="Cards that join and leave; who joins is not there from the beginning."
    )

    @model_validator(mode="after")
    def _in_order(self) -> CollectiveJobSection:
        times = [change.after for change in self.changes]
        if times != sorted(set(times)) or (times and times[-1] >= self.rounds):
            raise refuse(f"changes come one after the other, before the {self.rounds} rounds are over")
        return self

    def build(self) -> model.Workload:
        """As the base, with changes as plain data."""
        changes = tuple((change.after, change.join, change.leave) for change in self.changes)
        return model.CollectiveJob(**self.given("changes"), changes=changes)
