"""A scenario and its cells as plain frozen data, after validation: nothing here depends on how files are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.errors import ScenarioError
from emulator.model.fault import Fault
from emulator.model.profile import Profile
from emulator.model.workload import Workload

Parameters = Mapping[str, "int | float | str | bool"]
"""Keyword arguments of a topology's function, in bit/s, ns, bytes, packets and counts."""


@dataclass(frozen=True)
class Limits:
    """When a cell is ended: emulated time in ns, real time in ns, memory in bytes."""

    virtual_ns: int = 60 * 10**9
    wall_ns: int = 120 * 10**9
    memory_bytes: int = 2 << 30


@dataclass(frozen=True)
class Bound:
    """A number and its unit: ``ns``, ``bit/s``, ``B``, ``1`` or ``%`` (of a reference, or of one)."""

    value: float
    unit: str


@dataclass(frozen=True)
class Expectation:
    """What a figure must be for the scenario to succeed.

    Attributes:
        workload, metric: Which records.
        variant: Shell pattern of the variants that are looked at.
        at_least, at_most: Bounds of the figure, or of its ratio to the reference if the unit is ``%``.
        within: Largest distance from the reference, either way.
        of: Kind of the reference record with the same variant, workload and metric.
        line: Where it stands in the file.
    """

    workload: str
    metric: str
    variant: str = "*"
    at_least: Bound | None = None
    at_most: Bound | None = None
    within: Bound | None = None
    of: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Origin:
    """Where a cell's values stand in the scenario file, for errors that are found later.

    Attributes:
        file: Path of the file as the user wrote it.
        lines: 1-based lines by dotted key, for example ``workloads[0].source``.
    """

    file: str
    lines: Mapping[str, int]

    def error(self, reason: str, key: str) -> ScenarioError:
        """An error at a dotted key, with the line of that key or of what is around it."""
        place = key
        while place and place not in self.lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return ScenarioError(reason, file=self.file, line=self.lines.get(place), key=key)


@dataclass(frozen=True)
class Control:
    """How the controller is run.

    Attributes:
        spread: How it spreads packets over equal paths: ``hosts`` or ``flows``.
        balance_ns: Time between looks at the links' loads; 0: large flows are not moved.
        lldp_interval_ns: Time between rounds of discovery; 0: no discovery.
        detection_ns: Where nodes route, time from a fault until its detours are entered; None: nobody enters any.
    """

    spread: str = "hosts"
    balance_ns: int = 0
    lldp_interval_ns: int = 10 * 10**9
    detection_ns: int | None = None


@dataclass(frozen=True)
class Variant:
    """One combination of the scenario's matrix.

    Attributes:
        label: What is varied, for example ``rate=100 Gbit/s,hops=3``; empty without a matrix.
        seed: The scenario's seed in this combination.
        kind: Kind of topology.
        parameters: Its parameters, as given.
        workloads: In the order in which they run.
        limits: When it is ended.
        sampling_ns: Interval of the series; None: no series.
        origin: Where its values stand.
        faults: In the order in which they happen.
        control: How the controller is run.
    """

    label: str
    seed: int
    kind: str
    parameters: Parameters
    workloads: tuple[Workload, ...]
    limits: Limits
    sampling_ns: int | None
    origin: Origin = field(compare=False)
    faults: tuple[Fault, ...] = ()
    control: Control = Control()


@dataclass(frozen=True)
class Scenario:
    """A validated scenario file.

    Attributes:
        name: Of the scenario and of its results folder.
        question: What it answers.
        designs, profiles: All of which are run.
        variants: The combinations of its matrix; one without a label if there is no matrix.
        capture: Interfaces whose packets are written to pcaps.
        expectations: Its own verdict.
        file: Path of the file as the user wrote it.
        text: Text of the file, for the manifest.
    """

    name: str
    question: str
    designs: tuple[str, ...]
    profiles: tuple[str, ...]
    variants: tuple[Variant, ...]
    capture: tuple[str, ...]
    expectations: tuple[Expectation, ...]
    file: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Cell:
    """One emulation: a variant under one design and one profile.

    Attributes:
        scenario: Name of the scenario.
        variant: Name of the variant, unique in the scenario, as its records carry it.
        kind: Kind of topology.
        parameters: Keyword arguments of the topology's function, as given.
        design: ``shortest-path``, ``conventional`` or ``gateway``.
        profile: Name of the cost model.
        costs: The cost model.
        workloads: In the order in which they run.
        seed: Seed of this cell; the same for all designs and profiles of a variant, so that they face the same traffic.
        limits: When it is ended.
        sampling_ns: Interval of the series; None: no series.
        capture: Interfaces whose packets are written to pcaps.
        origin: Where its values stand in the scenario file.
        faults: In the order in which they happen within each workload.
        control: How the controller is run.
    """

    scenario: str
    variant: str
    kind: str
    parameters: Parameters
    design: str
    profile: str
    costs: Profile
    workloads: tuple[Workload, ...]
    seed: int
    limits: Limits
    sampling_ns: int | None
    capture: tuple[str, ...]
    origin: Origin = field(compare=False)
    faults: tuple[Fault, ...] = ()
    control: Control = Control()
