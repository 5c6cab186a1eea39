"""From a scenario file to cells with their fabrics, checked against each other: everything before something runs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import TopologyError
from emulator.experiment.halves import with_halves
from emulator.model.fabric import Fabric
from emulator.scenario import Cell, Scenario, check_against, expand, load, resolve
from emulator.units import format_rate
from topologies import FABRICS

# Where the words of a scenario differ from the functions' parameter names.
_KEYS = {
    "rate_bps": "rate",
    "delay_ns": "delay",
    "mtu_bytes": "mtu",
    "queue_packets": "queue",
    "queue_bdp": "queue",
    "loss_ppm": "loss",
    "edge_rate_bps": "edge_rate",
    "slow_rate_bps": "slow_rate",
    "zone_delay_ns": "zone_delay",
    "uplink_rate_bps": "uplink_rate",
    "uplink_delay_ns": "uplink_delay",
    "bdp_rtt_ns": "bdp_rtt",
    "ecn_threshold_packets": "ecn_threshold",
}


@dataclass(frozen=True)
class PreparedCell:
    """A cell and the fabric that it runs on."""

    cell: Cell
    fabric: Fabric


def build_fabric(cell: Cell) -> Fabric:
    """Make the fabric that a cell asks for.

    Raises:
        ScenarioError: The topology refuses a parameter; names file, line and key.
    """
    try:
        fabric = FABRICS[cell.kind](**cell.parameters)
    except TopologyError as error:
        key = _KEYS.get(error.key or "", error.key or "")
        raise cell.origin.error(error.reason, f"topology.{key}" if key else "topology") from None
    _check_rates(cell, fabric)
    return fabric


def _check_rates(cell: Cell, fabric: Fabric) -> None:
    for rate_bps in {link.spec.rate_bps: None for link in fabric.links}:
        if rate_bps % 8:
            keys = [_KEYS[name] for name, value in cell.parameters.items() if value == rate_bps and name in _KEYS]
            reason = f"{format_rate(rate_bps)} are no whole number of bytes a second, in which the kernel counts"
            raise cell.origin.error(reason, f"topology.{keys[0]}" if keys else "topology")


def topology_parameters(kind: str) -> tuple[str, ...]:
    """Names of the parameters that a topology's function takes."""
    return tuple(inspect.signature(FABRICS[kind]).parameters)


def prepare(path: str | Path) -> tuple[Scenario, list[PreparedCell]]:
    """Read a scenario and make everything that can be checked without running it.

    Raises:
        ScenarioError: The file, a value in it, or how its parts fit together is wrong.
    """
    scenario = load(path)
    return scenario, prepare_all(scenario)


def prepare_all(scenario: Scenario) -> list[PreparedCell]:
    """The cells of a scenario with their fabrics.

    Raises:
        ScenarioError: A value in it, or how its parts fit together, is wrong.
    """
    prepared = []
    for cell in resolve(scenario):
        fabric = build_fabric(cell)
        whole = with_halves(fabric, expand(fabric, cell))
        check_against(fabric, whole)
        prepared.append(PreparedCell(whole, fabric))
    return prepared
