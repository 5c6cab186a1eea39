"""The shape of a scenario file: the models that validate it and that its JSON schema is generated from."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StrictStr, WithJsonSchema, model_validator

from emulator.errors import UnitError
from emulator.scenario.fault import FaultEntry
from emulator.scenario.fields import (
    AT_LEAST_ONE,
    AsText,
    AsTuple,
    Index,
    Interval,
    NotEmpty,
    Size,
    Text,
    Time,
    at_least,
    refuse,
    shorten,
)
from emulator.scenario.topology import Strict, Topology
from emulator.scenario.workload import WorkloadEntry
from emulator.units import parse_rate, parse_size, parse_time

ScenarioName = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$"), AsText]

Design = Literal["shortest-path", "conventional", "gateway"]


class LimitsSection(Strict):
    """When a cell of the scenario is ended."""

    virtual_ns: Annotated[Time, at_least(1_000_000, "1 ms")] = Field(
        default=60 * 10**9, alias="virtual", description="Emulated time.", json_schema_extra={"default": "60 s"}
    )
    wall_ns: Annotated[Time, at_least(1_000_000_000, "1 s")] = Field(
        default=120 * 10**9, alias="wall", description="Real time.", json_schema_extra={"default": "120 s"}
    )
    memory_bytes: Annotated[Size, at_least(256 << 20, "256 MiB")] = Field(
        default=2 << 30,
        alias="memory",
        description="Memory of the emulated machine.",
        json_schema_extra={"default": "2 GiB"},
    )


class SamplingSection(Strict):
    """Series over time of every link's bytes and queue."""

    interval_ns: Annotated[Time, at_least(1_000, "1 us")] = Field(
        alias="interval", description="From one sample to the next.", examples=["100 us"]
    )


class ControllerSection(Strict):
    """How the controller is run."""

    balance_ns: Interval = Field(
        default=0,
        alias="balance",
        description="From one look at the links' loads to the next; large flows move off full links. 0 s: never.",
        json_schema_extra={"default": "0 s"},
    )
    lldp_interval_ns: Interval = Field(
        default=10 * 10**9,
        alias="lldp_interval",
        description="From one look at what is connected, by LLDP, to the next. 0 s: never.",
        json_schema_extra={"default": "10 s"},
    )

    spread: Literal["hosts", "flows"] = Field(
        default="hosts",
        description="Over equal paths: each pair of hosts on one, the same there and back, or flow by flow.",
    )
    detection_ns: Time | None = Field(
        default=None,
        alias="detection",
        description="In supernodes that route: from a fault until their manager looks at all links and enters routes "
        "around broken ones. Not given: it does so only when a collective_job asks.",
        examples=["5 ms"],
    )


_NUMBER_WITH_UNIT = {
    "anyOf": [{"type": "number"}, {"type": "string"}],
    "examples": ["100 ns", "99 Gbit/s", "99 %", 0.95],
}

Bound = tuple[float, str]
"""A number and its unit: ``ns``, ``bit/s``, ``B``, ``1`` for a plain number, ``%`` for a share of a reference."""

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def parse_bound(value: Any) -> Bound:
    """Read the bound of an expectation: a plain number, or text with a unit of time, rate, size or per cent.

    Raises:
        PydanticCustomError: It is neither.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value), "1"
    if isinstance(value, str) and len(value) <= 60:
        if percent := _PERCENT.fullmatch(value):
            return float(percent[1]), "%"
        for parse, unit in ((parse_time, "ns"), (parse_rate, "bit/s"), (parse_size, "B")):
            try:
                return float(parse(value)), unit
            except (UnitError, OverflowError):
                continue
    raise refuse(f"{shorten(value)} is not a bound: write a number, or text like '100 ns', '99 Gbit/s' or '2 %'")


BoundField = Annotated[Bound, PlainValidator(parse_bound), WithJsonSchema(_NUMBER_WITH_UNIT)]


class ExpectSection(Strict):
    """What a figure must be for the scenario to succeed."""

    workload: Text = Field(description="Name of a workload, or 'fabric' for figures of links and ports.")
    metric: Text = Field(description="Metric of the record, as in results.json.", examples=["rtt_mean", "goodput"])
    variant: Text = Field(
        default="*",
        description="Which variants are looked at: a name in which * stands for anything.",
        examples=["*", "gateway/*", "*hops=3*"],
    )
    at_least: BoundField | None = Field(default=None, description="The figure is at least this.")
    at_most: BoundField | None = Field(default=None, description="The figure is at most this.")
    within: BoundField | None = Field(
        default=None, description="The figure differs from the reference `of` by at most this, either way."
    )
    of: Annotated[Literal["theory", "modelled", "claimed"], Field()] | None = Field(
        default=None,
        description="Compare with the record of this kind that has the same variant, workload and metric.",
    )

    @model_validator(mode="after")
    def _one_bound(self) -> ExpectSection:
        given = [name for name in ("at_least", "at_most", "within") if getattr(self, name) is not None]
        if not given:
            raise refuse("give 'at_least', 'at_most' or 'within'")
        if self.within is not None and len(given) > 1:
            raise refuse("give either 'within' or 'at_least' and 'at_most'")
        if self.within is not None and self.of is None:
            raise refuse("'within' needs 'of', the kind of record to compare with")
        return self


_AXIS = {
    "anyOf": [
        {"type": "array", "minItems": 1, "description": "The values that the key takes."},
        {
            "type": "object",
            "minProperties": 1,
            "description": "Named choices; each sets several dotted keys together.",
            "additionalProperties": {"type": "object"},
        },
    ]
}


def _axes(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(f"{shorten(value)} is not a mapping from keys to lists of values")
    return value


class Document(Strict):
    """A question to an emulated network: what is built, what its hosts do, and what is varied."""

    scenario: ScenarioName = Field(
        description="Name of the scenario: small letters, digits, - and _; its results go to results/<name>.",
        examples=["line_rate"],
    )
    question: Text = Field(description="The question that it answers, one sentence.")
    seed: Index = Field(default=1, description="Seed of everything random.")
    topology: Topology = Field(description="What is built.")
    designs: Annotated[tuple[Design, ...], AsTuple, NotEmpty] = Field(
        default=("shortest-path",),
        description="How storage traffic is routed; every design is run.",
        json_schema_extra=AT_LEAST_ONE,
    )
    profiles: Annotated[tuple[Text, ...], AsTuple, NotEmpty] = Field(
        default=("documents",),
        description="Cost models of what processing costs, or files of such (.yaml, found from the scenario's folder);"
        " every profile is run.",
        examples=[["documents", "published"], ["documents", "calibrated.yaml"]],
        json_schema_extra=AT_LEAST_ONE,
    )
    matrix: Annotated[
        dict[str, Any],
        PlainValidator(_axes),
        WithJsonSchema({"type": "object", "additionalProperties": _AXIS, "examples": [{"topology.hops": [1, 3, 5]}]}),
    ] = Field(
        default={},
        description="What is varied: every combination is run. A dotted key such as topology.rate or "
        "workloads.<name>.flows has a list of values; any other name has choices that set several dotted keys.",
    )
    workloads: Annotated[tuple[WorkloadEntry, ...], AsTuple, NotEmpty] = Field(
        description="What the hosts do, one after the other unless they are `alongside` each other.",
        json_schema_extra=AT_LEAST_ONE,
    )
    faults: Annotated[tuple[FaultEntry, ...], AsTuple] = Field(
        default=(), description="What goes wrong while workloads run, and comes right again."
    )
    controller: ControllerSection = Field(
        default=ControllerSection(), description="Settings of the SDN controller.", json_schema_extra={"default": {}}
    )
    limits: LimitsSection = Field(
        default=LimitsSection(), description="When a cell is ended.", json_schema_extra={"default": {}}
    )
    sampling: SamplingSection | None = Field(default=None, description="Record series of links over time.")
    capture: Annotated[tuple[Text, ...], AsTuple] = Field(
        default=(), description="Interfaces whose packets are written to nanosecond pcaps.", examples=[["h0-eth0"]]
    )
    expect: Annotated[tuple[ExpectSection, ...], AsTuple] = Field(default=(), description="The scenario's own verdict.")
