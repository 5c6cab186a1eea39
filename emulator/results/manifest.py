"""The manifest of a results folder: under which conditions its figures came about, and how to get them again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from emulator.errors import ScenarioError

FORMAT = 1
"""Version of the results folder's format; docs/formats.md describes it."""


@dataclass(frozen=True)
class Revision:
    """State of the source tree: commit (None: not a git tree) and whether files differ from it."""

    commit: str | None = None
    dirty: bool = False


@dataclass(frozen=True)
class CellInfo:
    """One cell of the run.

    Attributes:
        variant: Name that its records carry.
        design, profile: Under which it ran.
        topology: Kind of topology.
        parameters: The topology's parameters, as given in the scenario.
        workloads: Its workloads as JSON objects, in the order in which they ran.
        seed: Its seed.
        wall_s: Real time that it took.
        virtual_ns: Emulated time that passed.
        peak_memory_bytes: Largest memory of the emulated machine.
    """

    variant: str
    design: str
    profile: str
    topology: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    workloads: Sequence[Mapping[str, Any]] = ()
    seed: int = 1
    wall_s: float = 0.0
    virtual_ns: int = 0
    peak_memory_bytes: int = 0


@dataclass(frozen=True)
class Manifest:
    """Conditions of a run.

    Attributes:
        scenario: Name of the scenario.
        question: What it asks.
        scenario_file: Path of its file, as given.
        scenario_text: Text of its file.
        seed: Its seed.
        engine: ``virtual`` or ``native``.
        cells: In order; the n-th cell's files are in ``cells/<n>``.
        profiles: The cost models that were used, by name, as JSON objects.
        revision: Of the source tree.
        kernel: Version and configuration key of the kernel, clock step and so on, as text.
        tools: Versions of programs and packages that took part.
        host: What the figures of time and memory depend on.
        warnings: What to check before trusting the figures.
        expectations: Outcomes of the scenario's expectations, as JSON objects.
        command: How it was started.
    """

    scenario: str
    question: str
    scenario_file: str
    scenario_text: str
    seed: int
    engine: str
    cells: tuple[CellInfo, ...]
    profiles: Mapping[str, Any] = field(default_factory=dict)
    revision: Revision = field(default_factory=Revision)
    kernel: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    expectations: tuple[Mapping[str, Any], ...] = ()
    command: tuple[str, ...] = ()

    @property
    def scenario_sha256(self) -> str:
        """Digest of the scenario's text."""
        return hashlib.sha256(self.scenario_text.encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """The manifest as a JSON object."""
        return {"format": FORMAT, "scenario_sha256": self.scenario_sha256, **asdict(self)}

    @classmethod
    def from_json(cls, data: Any, file: str) -> Manifest:
        """Read back what `as_json` wrote.

        Raises:
            ScenarioError: It is not a manifest of this format; names file and key.
        """
        if not isinstance(data, dict) or "format" not in data:
            raise ScenarioError("is not the manifest of a results folder", file=file)
        if data["format"] != FORMAT:
            raise ScenarioError(
                f"is of format {data['format']!r}, this program reads format {FORMAT}", file=file, key="format"
            )
        names = set(cls.__dataclass_fields__)
        if missing := sorted(names - set(data)):
            raise ScenarioError(f"has no {missing[0]!r}", file=file)
        try:
            manifest = cls(
                **{
                    **{key: value for key, value in data.items() if key in names},
                    "cells": tuple(CellInfo(**cell) for cell in data["cells"]),
                    "revision": Revision(**data["revision"]),
                    "warnings": tuple(str(text) for text in data["warnings"]),
                    "expectations": tuple(dict(entry) for entry in data["expectations"]),
                    "command": tuple(str(word) for word in data["command"]),
                }
            )
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"does not describe a run: {error}", file=file) from None
        _check_types(manifest, file)
        return manifest


_STATION = ("latency_ns", "packet_rate", "bit_rate_bps", "queue_packets", "source")
_MEDIA = ("latency_ns", "rate_bytes_per_s", "source")
_PROFILE = {"gateway": _STATION, "router": _STATION, "compute": _STATION, "media": _MEDIA}
"""What a cost model in a manifest has: the parts of `emulator.model.profile.Profile`."""


def _check_profile(costs: object, file: str, key: str) -> None:
    if not isinstance(costs, dict) or not isinstance(costs.get("title"), str):
        raise ScenarioError("is not a cost model", file=file, key=key)
    for part, names in _PROFILE.items():
        model = costs.get(part)
        if not isinstance(model, dict) or not set(names) <= set(model):
            raise ScenarioError(f"has no {part!r} with {', '.join(names)}", file=file, key=key)
        for name in names[:-1]:
            value = model[name]
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise ScenarioError("is not a number", file=file, key=f"{key}.{part}.{name}")
        if model["latency_ns"] is None:
            raise ScenarioError("is not a number", file=file, key=f"{key}.{part}.latency_ns")


def _check_types(manifest: Manifest, file: str) -> None:
    for name, costs in manifest.profiles.items() if isinstance(manifest.profiles, dict) else ():
        _check_profile(costs, file, f"profiles.{name}")
    for index, outcome in enumerate(manifest.expectations):
        if not {"variant", "reason", "passed"} <= set(outcome):
            raise ScenarioError("has no variant, reason or passed", file=file, key=f"expectations[{index}]")
    for name in ("scenario", "question", "scenario_file", "scenario_text", "engine"):
        if not isinstance(getattr(manifest, name), str):
            raise ScenarioError("is not text", file=file, key=name)
    for name in ("profiles", "kernel", "tools", "host"):
        if not isinstance(getattr(manifest, name), dict):
            raise ScenarioError("is not a JSON object", file=file, key=name)
    for index, cell in enumerate(manifest.cells):
        for name in ("variant", "design", "profile", "topology"):
            if not isinstance(getattr(cell, name), str):
                raise ScenarioError("is not text", file=file, key=f"cells[{index}].{name}")
        if not isinstance(cell.workloads, list) or not all(isinstance(entry, dict) for entry in cell.workloads):
            raise ScenarioError("is not a list of JSON objects", file=file, key=f"cells[{index}].workloads")
        for name in ("seed", "wall_s", "virtual_ns", "peak_memory_bytes"):
            if isinstance(getattr(cell, name), bool) or not isinstance(getattr(cell, name), (int, float)):
                raise ScenarioError("is not a number", file=file, key=f"cells[{index}].{name}")


def tree_revision(tree: Path) -> Revision:
    """Revision of the source tree that the program runs from; without git or a git tree, an unknown one."""
    commit = _output(("git", "-C", str(tree), "rev-parse", "HEAD"))
    if commit is None:
        return Revision()
    changes = _output(("git", "-C", str(tree), "status", "--porcelain"))
    return Revision(commit.strip(), bool(changes))


def package_versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of installed Python packages, Python itself included; those not installed are left out."""
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def program_versions(commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """First line of what each command prints, by name, for example ``{"fio": ("fio", "--version")}``."""
    versions = {}
    for name, argv in commands.items():
        text = _output(argv)
        if text and text.strip():
            versions[name] = text.strip().splitlines()[0].strip()
    return versions


def _output(argv: Sequence[str]) -> str | None:
    try:
        result = subprocess.run(list(argv), capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (result.stdout or result.stderr) if result.returncode == 0 else None
