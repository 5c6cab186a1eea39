"""Cost models from files: what `make calibrate` measured, or what somebody wrote down, for a scenario to name.

A file says what each of several modes of carrying packets costs, and which mode each kind of node works in. Every
figure has the smallest and the largest value beside its median; the emulation uses the medians.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from emulator.model.profile import PROFILES, MediaModel, Profile, StationModel, profile
from emulator.scenario.document import ScenarioName
from emulator.scenario.fields import Count, Rate, Text, Time, refuse
from emulator.scenario.problems import hint, problems_of
from emulator.scenario.source import Source, read_source
from emulator.scenario.topology import Strict

SUFFIXES = (".yaml", ".yml")
"""Names of profiles that end so are files."""

_NODES = ("gateway", "router", "compute")


class _Spread(Strict):
    @model_validator(mode="before")
    @classmethod
    def _one_value(cls, data: Any) -> Any:
        return data if isinstance(data, dict) else {"median": data, "low": data, "high": data}

    @model_validator(mode="after")
    def _in_order(self) -> Any:
        low, median, high = self.low, self.median, self.high  # type: ignore[attr-defined]  # of every heir
        if not low <= median <= high:
            raise refuse("'low', 'median' and 'high' are not in this order")
        return self


class TimeSpread(_Spread):
    """A time with its spread, or a single one."""

    median: Time
    low: Time
    high: Time


class RateSpread(_Spread):
    """A data rate with its spread, or a single one."""

    median: Rate
    low: Rate
    high: Rate


class CountSpread(_Spread):
    """Packets a second with their spread, or a single number."""

    median: Count
    low: Count
    high: Count


class ModeSection(Strict):
    """What a way of carrying packets costs."""

    what: Text = Field(description="What it is, one line.")
    latency_ns: TimeSpread = Field(alias="latency", description="One traversal in one direction, without waiting.")
    packet_rate: CountSpread | None = Field(default=None, description="Packets/s at most; left out: not limited.")
    bit_rate_bps: RateSpread | None = Field(
        default=None, alias="bit_rate", description="Data rate at most; left out: not limited."
    )
    packet_cost_ns: float | None = Field(default=None, ge=0, description="CPU time for a packet, in ns.")
    byte_cost_ns: float | None = Field(default=None, ge=0, description="CPU time for each of its bytes, in ns.")


class MediaSection(Strict):
    """Storage media behind a target."""

    latency_ns: Time = Field(alias="latency", description="Time of a command.")
    source: Text = Field(description="Where that comes from.")


class StationsSection(Strict):
    """Which mode each kind of node works in."""

    gateway: Text
    router: Text
    compute: Text
    queue_packets: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=4096, alias="queue", description="Packets that may wait at each."
    )


class ProfileDocument(Strict):
    """A profile file."""

    profile: ScenarioName = Field(description="Its name in results: small letters, digits, - and _.")
    title: Text = Field(description="One line for the report.")
    measured: dict[str, Text] = Field(default={}, description="On what, with what, and how often.")
    modes: dict[str, ModeSection] = Field(min_length=1)
    stations: StationsSection
    media: MediaSection | None = Field(default=None, description="Left out: as in the profile `documents`.")


def load_profile(path: str | Path) -> Profile:
    """Read a profile file.

    Raises:
        ScenarioError: The first thing that is wrong with it, with file, line and key.
    """
    source = read_source(path)
    try:
        document = ProfileDocument.model_validate(source.data)
    except ValidationError as error:
        raise problems_of(error, source.file, source.lines)[0] from None
    if document.profile in PROFILES:
        raise source.error(("profile",), f"there is a profile {document.profile!r} already")
    measured = ", ".join(f"{key}: {value}" for key, value in document.measured.items())
    gateway, router, compute = (_station(document, source, node, measured) for node in _NODES)
    given = document.media
    media = PROFILES["documents"].media if given is None else MediaModel(given.latency_ns, None, given.source)
    return Profile(document.profile, document.title, gateway, router, compute, media)


def _station(document: ProfileDocument, source: Source, node: str, measured: str) -> StationModel:
    name = getattr(document.stations, node)
    if name not in document.modes:
        reason = f"there is no mode {name!r}{hint(name, document.modes)}"
        raise source.error(("stations", node), reason)
    mode = document.modes[name]
    return StationModel(
        mode.latency_ns.median,
        None if mode.packet_rate is None else mode.packet_rate.median,
        None if mode.bit_rate_bps is None else mode.bit_rate_bps.median,
        document.stations.queue_packets,
        f"{Path(source.file).name}: {name}, {mode.what}" + (f" ({measured})" if measured else ""),
    )


def find_profile(name: str, scenario_file: str) -> Profile:
    """The profile that a scenario names: one of the project's, or a file, looked for from the scenario's folder.

    Raises:
        ScenarioError: There is none of that name, or the file is wrong.
    """
    if not name.endswith(SUFFIXES):
        return profile(name)
    return load_profile(Path(scenario_file).parent / name)
