"""What a cell will build and what can be foretold of it, before anything runs: data first, then its picture in text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emulator.model.fabric import Fabric
from emulator.model.profile import MediaModel, Profile, StationModel
from emulator.scenario.model import Cell
from emulator.scenario.predict import Flow, Prediction, Route, predict
from emulator.scenario.resolve import check_against
from emulator.units import format_rate, format_size, format_time

MOST_ROWS = 40
"""Of nodes and of links, in text."""


@dataclass(frozen=True)
class NodeLine:
    """One node of the plan."""

    name: str
    role: str
    zone: str
    address: str
    interfaces: tuple[str, ...]


@dataclass(frozen=True)
class LinkLine:
    """One link of the plan: its ends and properties, in bit/s, ns, bytes, packets and parts per million."""

    a: str
    b: str
    rate_bps: int
    delay_ns: int
    mtu_bytes: int
    queue_packets: int
    loss_ppm: int
    true_packets: bool


@dataclass(frozen=True)
class CellPlan:
    """Everything about a cell before it runs.

    Attributes:
        cell: What is planned.
        nodes, links: What will be built.
        profile: The cost model in force.
        predictions: Unloaded latency and capacity of each workload.
    """

    cell: Cell
    nodes: tuple[NodeLine, ...]
    links: tuple[LinkLine, ...]
    profile: Profile
    predictions: tuple[Prediction, ...]

    def as_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        return {
            "scenario": self.cell.scenario,
            "variant": self.cell.variant,
            "design": self.cell.design,
            "seed": self.cell.seed,
            "nodes": [asdict(node) for node in self.nodes],
            "links": [asdict(link) for link in self.links],
            "profile": asdict(self.profile),
            "predictions": [asdict(prediction) for prediction in self.predictions],
        }


def plan(cell: Cell, fabric: Fabric, routes: Mapping[Flow, Route]) -> CellPlan:
    """Plan a cell.

    Args:
        cell: The cell.
        fabric: What its topology makes.
        routes: Routes of the flows that `emulator.scenario.predict.needed_flows` names, in the cell's design.

    Raises:
        ScenarioError: The cell names what the fabric does not have, or a route is missing.
    """
    check_against(fabric, cell)
    costs = cell.costs
    nodes = tuple(
        NodeLine(
            node.name,
            node.role.value,
            node.zone,
            str(node.ip) if node.ip else "",
            tuple(link.a_interface if link.a == node.name else link.b_interface for link in fabric.links_of(node.name)),
        )
        for node in fabric.nodes
    )
    links = tuple(
        LinkLine(
            link.a_interface,
            link.b_interface,
            link.spec.rate_bps,
            link.spec.delay_ns,
            link.spec.mtu_bytes,
            link.spec.waiting_packets,
            link.spec.loss_ppm,
            link.spec.true_packets,
        )
        for link in fabric.links
    )
    predictions = tuple(predict(fabric, costs, routes, workload) for workload in cell.workloads)
    return CellPlan(cell, nodes, links, costs, predictions)


def render(cell_plan: CellPlan, console: Console) -> None:
    """Print a plan as tables."""
    cell = cell_plan.cell
    console.print(
        Text.assemble(
            (f"{cell.scenario}: {cell.variant}", "bold"),
            f"  ({cell.kind}, {cell.design}, profile {cell.profile}, seed {cell.seed})",
        )
    )
    console.print(_nodes_table(cell_plan))
    console.print(_links_table(cell_plan))
    if cell.design != "shortest-path":
        console.print(_profile_table(cell_plan.profile))
    console.print(_predictions_table(cell_plan))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=Text(title), title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _nodes_table(cell_plan: CellPlan) -> Table:
    table = _table("Nodes", "node", "role", "zone", "address", "interfaces")
    for node in cell_plan.nodes:
        table.add_row(node.name, node.role, node.zone, node.address, ", ".join(node.interfaces))
    return table


def _links_table(cell_plan: CellPlan) -> Table:
    """A line for each link; columns that would say of all links that there is nothing are left out."""
    lossy = any(link.loss_ppm for link in cell_plan.links)
    large = not all(link.true_packets for link in cell_plan.links)
    more = [*(["loss"] if lossy else []), *(["packets"] if large else [])]
    table = _table("Links", "from", "to", "rate", "delay", "MTU", "queue", *more)
    for link in cell_plan.links:
        values = [f"{link.loss_ppm} ppm"] if lossy else []
        values += ["true" if link.true_packets else "super-packets"] if large else []
        table.add_row(
            link.a,
            link.b,
            format_rate(link.rate_bps),
            format_time(link.delay_ns),
            f"{link.mtu_bytes} B",
            f"{link.queue_packets} packets",
            *values,
        )
    return table


def _profile_table(costs: Profile) -> Table:
    table = _table(f"Profile {costs.name}: {costs.title} (modelled)", "what", "latency", "capacity", "queue")
    sources = {}
    for name, model in (("gateway", costs.gateway), ("router", costs.router), ("compute", costs.compute)):
        table.add_row(
            name, format_time(model.latency_ns), _station_capacity(model), f"{model.queue_packets} packets"
        )  # fmt: skip
        sources[name] = model.source
    table.add_row("media", format_time(costs.media.latency_ns), _media_capacity(costs.media), "")
    sources["media"] = costs.media.source
    # Sentences, which columns would break into words.
    table.caption = Text("\n".join(f"{name}: {source}" for name, source in sources.items()))
    table.caption_justify = "left"
    return table


def _station_capacity(model: StationModel) -> str:
    parts = []
    if model.packet_rate:
        parts.append(f"{model.packet_rate:,} packets/s".replace(",", " "))
    if model.bit_rate_bps:
        parts.append(format_rate(model.bit_rate_bps))
    return ", ".join(parts) or "not limited"


def _media_capacity(media: MediaModel) -> str:
    return f"{format_size(media.rate_bytes_per_s)}/s" if media.rate_bytes_per_s else "not limited"


def _predictions_table(cell_plan: CellPlan) -> Table:
    """A line for each workload, and below the table the paths, which columns would break."""
    table = _table("Predicted, unloaded (theory)", "workload", "kind", "latency", "of", "capacity", "limited by")
    for entry in cell_plan.predictions:
        table.add_row(
            entry.workload,
            entry.kind,
            "" if entry.latency_ns is None else f"{entry.latency_ns / 1000:,.3f} us".replace(",", " "),
            entry.latency_of,
            "" if entry.capacity_bps is None else f"{entry.capacity_bps / 1e9:.4g} Gbit/s",
            entry.bottleneck,
        )
    paths = [
        f"{entry.workload}: {' → '.join(entry.route)}{f' ({entry.note})' if entry.note else ''}"
        for entry in cell_plan.predictions
        if entry.route or entry.note
    ]
    table.caption = Text("\n".join(paths))
    table.caption_justify = "left"
    return table
