"""The side inside the emulated machine: builds a cell's network, runs its workloads, leaves its figures in the folder.

Started by an engine as ``python -m emulator.experiment.cell``; see `emulator.engine.job` for the contract.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from controller.client import ControllerClient, wait_ready
from emulator.engine import progress
from emulator.errors import EmulatorError, EngineError, InternalError
from emulator.experiment import control
from emulator.experiment.crossing import FABRIC_WORKLOAD, ComputeCrossings
from emulator.experiment.dataplane import DataPlane, data_plane
from emulator.experiment.faults import FaultDriver
from emulator.experiment.moves import balance_records
from emulator.experiment.observe import observing
from emulator.experiment.repair import Manager
from emulator.experiment.routes import Routes
from emulator.experiment.run import CELL_FILE, FABRIC_FILE, WARNINGS_FILE
from emulator.experiment.together import run_together
from emulator.experiment.warn import WarningCollector
from emulator.model.codec import fabric_from_json
from emulator.model.fabric import Fabric
from emulator.model.workload import grouped
from emulator.network import Network, build
from emulator.results import (
    ClassCounters,
    Counters,
    Kind,
    PortCounters,
    Record,
    counters_to_json,
    write_part,
    write_side_file,
)
from emulator.results.events import EVENTS_FILE, Happenings
from emulator.scenario import Cell, cell_from_json
from emulator.units import NS_PER_S
from emulator.workloads import Context
from topologies import antipodes

READY_NS = 60 * NS_PER_S
"""Emulated time until all switches must be connected and programmed."""


def run_cell(folder: Path) -> None:
    """Run the cell that is described in a folder.

    Raises:
        EmulatorError: Something failed; everything that was made is removed.
    """
    cell = cell_from_json(_read(folder / CELL_FILE))
    fabric = fabric_from_json(_read(folder / FABRIC_FILE))
    with WarningCollector() as warnings:
        records, counters = _run(cell, fabric, folder)
    write_side_file(folder, "counters.json", counters_to_json(counters))
    write_side_file(folder, WARNINGS_FILE, warnings.texts)
    write_part(folder, records)


def _run(cell: Cell, fabric: Fabric, folder: Path) -> tuple[list[Record], Counters]:
    costs = cell.costs
    routes = Routes(fabric, cell.design, cell.control.spread)
    with ExitStack() as stack:
        client: ControllerClient | None = None
        if fabric.switches:
            progress.report("starting the controller")
            stack.enter_context(control.start_controller(fabric, cell.design, cell.control, folder))
        progress.report(f"building {len(fabric.nodes)} nodes and {len(fabric.links)} links")
        network = stack.enter_context(
            build(
                fabric,
                controller=f"tcp:{control.OPENFLOW}" if fabric.switches else None,
                seed=cell.seed,
                routing=routes.routing,
            )
        )
        manager = Manager(network, routes.routing) if routes.routing else None
        hosts = {node.name: network.host(node.name) for node in fabric.hosts}
        if routes.routing is not None:
            progress.report("asking cards for each other")
            network.verify(far=antipodes(fabric))
        if fabric.switches:
            progress.report("installing routes")
            client = wait_ready(f"http://{control.REST}", len(fabric.switches), READY_NS)
        plane = stack.enter_context(data_plane(fabric, hosts, cell.design, costs, folder))
        crossings = ComputeCrossings(cell, fabric, client)
        context = stack.enter_context(
            Context(
                scenario=cell.scenario,
                variant=cell.variant,
                hosts=hosts,
                path=routes.path,
                profile=costs,
                seed=cell.seed,
                work_dir=folder,
                progress=progress.report,
                stations=lambda source, target: routes.stations(source, target, costs),
                ways=routes.ways,
                repair=manager.repair if manager else None,
            )
        )
        records: list[Record] = []
        happenings = Happenings()
        with observing(cell, fabric, network, folder):
            done = 0
            for group in grouped(cell.workloads):
                progress.report(f"running {' and '.join(one.name for one in group)}", done, len(cell.workloads))
                names = [workload.name for workload in group]
                faults = [fault for fault in cell.faults if fault.during in names]
                driver = FaultDriver(network, faults, context.repair, cell.control.detection_ns)
                with crossings.during(group), driver:
                    found, spans = run_together(group, context, driver)
                records += found
                happenings.add(spans, driver.happened())
                done += len(group)
                plane.check()
        progress.report("reading counters", len(cell.workloads), len(cell.workloads))
        records += crossings.records()
        records += balance_records(cell, client, happenings.workloads)
        _keep_data_plane_figures(plane, folder)
        write_side_file(folder, EVENTS_FILE, happenings.as_json())
        ports = _port_counters(fabric, network)
        records += _drops(cell, ports) + (_reroutings(cell, manager) if manager else [])
        return records, Counters(ports, crossings.crossed_bytes)


def _port_counters(fabric: Fabric, network: Network) -> tuple[PortCounters, ...]:
    found = network.counters()
    with network.queue_reader() as reader:
        queues = {sample.interface: sample for sample in reader.read()}
    ends = [end for link in fabric.links for end in ((link.a, link.a_interface), (link.b, link.b_interface))]
    return tuple(
        PortCounters(
            node=node,
            interface=name,
            tx_bytes=found[name].tx_bytes,
            rx_bytes=found[name].rx_bytes,
            tx_packets=found[name].tx_packets,
            rx_packets=found[name].rx_packets,
            # The interface's own count does not know what its queue and the line lost.
            drops=(queues[name].dropped if name in queues else 0) + found[name].tx_dropped + found[name].rx_dropped,
            classes=tuple(
                ClassCounters(one.name, one.tx_bytes, one.tx_packets, one.dropped)
                for one in (queues[name].classes if name in queues else ())
            ),
        )
        for node, name in ends
    )


def _drops(cell: Cell, ports: tuple[PortCounters, ...]) -> list[Record]:
    def record(metric: str, packets: int, source: str) -> Record:
        return Record(cell.scenario, cell.variant, FABRIC_WORKLOAD, metric, packets, "1", Kind.MEASURED, source)

    total = sum(port.drops for port in ports)
    records = [record("packets_dropped", total, "queues and interfaces of all ports, whole cell")]
    by_class: dict[str, int] = {}
    for port in ports:
        for one in port.classes:
            by_class[one.name] = by_class.get(one.name, 0) + one.drops
    for name, packets in by_class.items():
        records.append(record(f"{name}_packets_dropped", packets, f"queues of {name} of all switches, whole cell"))
    return records


def _reroutings(cell: Cell, manager: Manager) -> list[Record]:
    def record(metric: str, count: int, source: str) -> Record:
        return Record(cell.scenario, cell.variant, FABRIC_WORKLOAD, metric, count, "1", Kind.MEASURED, source)

    if not cell.faults:
        return []
    lines = sum(one.routes for one in manager.rerouted)
    return [
        record("reroutings", len(manager.rerouted), "the fabric's manager: times that it changed routes"),
        record("routes_changed", lines, "the fabric's manager: lines of all nodes' tables, whole cell"),
    ]


def _keep_data_plane_figures(plane: DataPlane, folder: Path) -> None:
    write_side_file(folder, "dataplane.json", plane.counters())


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"the cell's {path.name} cannot be read: {error}") from None


def main() -> int:
    """Run the cell in the job's folder; errors are left there for the engine to show."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        run_cell(progress.out_folder())
    except EmulatorError as error:
        traceback.print_exc()
        progress.report_error(error.exit_code, type(error).__name__, str(error))
        return error.exit_code
    except OSError as error:
        traceback.print_exc()
        text = f"{error.filename or 'a system call'} in the emulated machine: {error.strerror or error}"
        progress.report_error(EngineError.exit_code, EngineError.__name__, text)
        return EngineError.exit_code
    except Exception as error:  # noqa: BLE001 - the last line of defence: said in one line, details in the log
        traceback.print_exc()
        text = f"unexpected {type(error).__name__} in the emulated machine: {error}"
        progress.report_error(InternalError.exit_code, InternalError.__name__, text)
        return InternalError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
