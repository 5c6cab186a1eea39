"""Fills in what a bisection workload leaves to the topology: who is on which side, and what the formula says."""

from __future__ import annotations

from dataclasses import replace

from emulator.errors import TopologyError
from emulator.model.fabric import Fabric
from emulator.model.workload import Bisection, Workload
from emulator.scenario import Cell
from topologies.analysis import figures
from topologies.halves import partners

MOST_FLOWS = 20_000


def with_halves(fabric: Fabric, cell: Cell) -> Cell:
    """Say for each bisection workload of a cell which cards send to which.

    Raises:
        ScenarioError: The topology's halves are not known, or they would be more flows than one process can have.
    """
    return replace(cell, workloads=tuple(_filled(fabric, cell, *entry) for entry in enumerate(cell.workloads)))


def _filled(fabric: Fabric, cell: Cell, index: int, workload: Workload) -> Workload:
    if not isinstance(workload, Bisection) or workload.pairs:
        return workload
    key = f"workloads[{index}]"
    try:
        pairs = tuple(partners(fabric, workload.partners))
        known = figures(fabric).bisection
    except TopologyError as error:
        raise cell.origin.error(error.reason, f"{key}.kind") from None
    whole = replace(workload, pairs=pairs, least_bps=known.at_least_bps, most_bps=known.at_most_bps)
    if len(whole.flows) > MOST_FLOWS:
        raise cell.origin.error(f"these are {len(whole.flows)} flows, {MOST_FLOWS} at most", f"{key}.partners")
    return whole
