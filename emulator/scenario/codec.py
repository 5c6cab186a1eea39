"""Cells as JSON: how one travels into the machine that runs it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from emulator.errors import ScenarioError
from emulator.model.fault import Action, Fault
from emulator.model.profile import profile_from_json
from emulator.model.workload import WORKLOADS, Workload
from emulator.scenario.model import Cell, Control, Limits, Origin


def workload_to_json(workload: Workload) -> dict[str, Any]:
    """A workload as a JSON object, with its kind."""
    return {"kind": workload.kind, **asdict(workload)}


def workload_from_json(data: dict[str, Any]) -> Workload:
    """Read back what `workload_to_json` wrote."""
    given: dict[str, Any] = {key: _frozen(value) for key, value in data.items() if key != "kind"}
    return WORKLOADS[data["kind"]](**given)


def _frozen(value: Any) -> Any:
    """JSON's lists as tuples, at any depth."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def cell_to_json(cell: Cell) -> dict[str, Any]:
    """A cell as a JSON object that `cell_from_json` reads back to an equal cell."""
    return {
        "scenario": cell.scenario,
        "variant": cell.variant,
        "kind": cell.kind,
        "parameters": dict(cell.parameters),
        "design": cell.design,
        "profile": cell.profile,
        "costs": asdict(cell.costs),
        "workloads": [workload_to_json(workload) for workload in cell.workloads],
        "seed": cell.seed,
        "limits": asdict(cell.limits),
        "sampling_ns": cell.sampling_ns,
        "capture": list(cell.capture),
        "control": asdict(cell.control),
        "faults": [{**asdict(fault), "action": fault.action.value} for fault in cell.faults],
        "origin": {"file": cell.origin.file, "lines": dict(cell.origin.lines)},
    }


def cell_from_json(data: dict[str, Any]) -> Cell:
    """Read a cell back.

    Raises:
        ScenarioError: The object does not describe a cell.
    """
    try:
        return Cell(
            scenario=data["scenario"],
            variant=data["variant"],
            kind=data["kind"],
            parameters=dict(data["parameters"]),
            design=data["design"],
            profile=data["profile"],
            costs=profile_from_json(data["costs"]),
            workloads=tuple(workload_from_json(entry) for entry in data["workloads"]),
            seed=data["seed"],
            limits=Limits(**data["limits"]),
            sampling_ns=data["sampling_ns"],
            capture=tuple(data["capture"]),
            control=Control(**data["control"]),
            faults=tuple(Fault(**{**entry, "action": Action(entry["action"])}) for entry in data["faults"]),
            origin=Origin(data["origin"]["file"], dict(data["origin"]["lines"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ScenarioError(f"not a cell description: {error!r}") from None
