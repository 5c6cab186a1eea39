"""What a run found out, arranged for judging: for each profile the cell of either design, with its figures by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx

from emulator.model.fabric import Fabric, LinkSpec, Role
from emulator.model.theory import ping_rtt_ns
from emulator.results.reader import CellResults, Results
from emulator.results.records import Kind, Record

VISITED_ROLES: dict[str, tuple[Role, ...]] = {
    "conventional": (Role.ROUTER, Role.COMPUTE),
    "gateway": (Role.GATEWAY,),
}
"""Roles of the nodes that storage traffic visits in each design, in order."""


@dataclass(frozen=True)
class CellEvidence:
    """One cell and its records."""

    cell: CellResults
    records: tuple[Record, ...]

    @cached_property
    def _index(self) -> dict[tuple[str, str, Kind], Record]:
        return {(record.workload, record.metric, record.kind): record for record in self.records}

    def figure(self, workload: str, metric: str, *kinds: Kind) -> Record | None:
        """A figure: of the first of the kinds that there is, by default measured or else modelled."""
        found = (self._index.get((workload, metric, kind)) for kind in kinds or (Kind.MEASURED, Kind.MODELLED))
        return next((record for record in found if record is not None), None)

    def workload(self, name: str) -> dict[str, Any]:
        """A workload's parameters; empty if the cell has none of that name."""
        return next((dict(entry) for entry in self.cell.info.workloads if entry.get("name") == name), {})

    def links_only_rtt_ns(self, workload: str) -> int | None:
        """Round-trip time of a ping workload's way through the visited nodes, if these took no time themselves."""
        parameters, fabric = self.workload(workload), self.cell.fabric
        if fabric is None or not {"source", "target"} <= set(parameters):
            return None
        path = path_through(fabric, parameters["source"], parameters["target"], self.visits)
        return ping_rtt_ns(path, parameters.get("payload_bytes", 56)) if path else None

    @property
    def visits(self) -> tuple[Role, ...]:
        """Roles of the nodes that storage traffic visits on its way."""
        return VISITED_ROLES.get(self.cell.info.design, ())


@dataclass(frozen=True)
class Evidence:
    """What is known under one profile.

    Attributes:
        profile: Its name.
        cells: By design: the first cell of the run under that design and profile.
        variants: All cells under that profile, by the name of the variant.
    """

    profile: str
    cells: dict[str, CellEvidence] = field(default_factory=dict)
    variants: dict[str, CellEvidence] = field(default_factory=dict)

    @property
    def conventional(self) -> CellEvidence | None:
        """The conventional design's cell."""
        return self.cells.get("conventional")

    @property
    def gateway(self) -> CellEvidence | None:
        """The gateway design's cell."""
        return self.cells.get("gateway")


def evidence_of(results: Results) -> list[Evidence]:
    """Arrange a run's results by profile, in the order of its cells; where a matrix was run, its first variant."""
    found: dict[str, Evidence] = {}
    for cell in results.cells:
        evidence = found.setdefault(cell.info.profile, Evidence(cell.info.profile))
        one = CellEvidence(cell, tuple(results.by_variant.get(cell.info.variant, ())))
        evidence.cells.setdefault(cell.info.design, one)
        evidence.variants[cell.info.variant] = one
    return list(found.values())


def path_through(fabric: Fabric, source: str, target: str, visits: Sequence[Role]) -> list[LinkSpec]:
    """Links of the shortest way from one host to another through the nearest node of each role, in order.

    Empty if an end is unknown or there is no node of a role.
    """
    graph = fabric.graph()
    if source not in graph or target not in graph:
        return []
    stops = [source]
    for role in visits:
        distances = networkx.single_source_shortest_path_length(graph, stops[-1])
        nodes = [node.name for node in fabric.with_role(role)]
        if not nodes:
            return []
        stops.append(min(nodes, key=lambda name: (distances[name], name)))
    stops.append(target)
    specs: list[LinkSpec] = []
    for here, there in pairwise(stops):
        for left, right in pairwise(networkx.shortest_path(graph, here, there)):
            specs.append(min(graph[left][right].items())[1]["link"].spec)
    return specs
