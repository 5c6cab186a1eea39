"""The controller's core with a large fabric of switches in memory: start, a link fails and returns, a switch is lost.

Seconds of CPU until every switch has done all that it was told, the switches' own time included. The fabric has its
groups, one or more for each pair of switches, and the rules that all switches have; the rules of single hosts are left
out, as failures do not touch them. A switch is lost when its control connection ends: it is avoided a second later.
"""

from __future__ import annotations

import time
from collections import deque

from controller.core import Core, Options
from controller.designs import Design, Plan
from controller.events import (
    Applied,
    Apply,
    Command,
    Connected,
    Disconnected,
    Event,
    Port,
    PortChanged,
    Read,
    TablesRead,
    Tick,
)
from controller.flows import Program
from controller.flowtable import Switch
from controller.paths import Paths
from controller.paths.graph import fabric_links
from controller.pipeline import discovery
from emulator.errors import EngineError
from tests.bench.apart import MEMORY, Figures, apart, main
from tests.bench.table import Row, spread
from tests.support.controller_fabrics import random_regular

SIZES = (250, 1000)
"""Switches; ten hosts for each. The larger one has sixteen times as many groups."""
_DEGREE = 16
_QUIET = Options(lldp_interval_ns=0)
_MAC = "02:00:00:00:00:01"


class _Network:
    """Switches that do at once what they are told."""

    def __init__(self, plan: Plan) -> None:
        self.core = Core(plan, _QUIET)
        self.switches = {dpid: Switch() for dpid in self.core.sessions}
        self.now_ns = 0
        self.changed = 0

    def handle(self, *events: Event) -> None:
        """Tell the core, and do what it says until it has nothing more to say."""
        waiting: deque[Command] = deque()
        for event in events:
            waiting += self.core.handle(event, self.now_ns)
        while waiting:
            command = waiting.popleft()
            dpid, switch = command.dpid, self.switches[command.dpid]
            if isinstance(command, Read):
                waiting += self.core.handle(TablesRead(dpid, command.token, switch.program), self.now_ns)
            elif isinstance(command, Apply):
                self.changed += len(command.change.put.groups)
                switch.apply(command.change)
                waiting += self.core.handle(Applied(dpid, command.token), self.now_ns)

    def port(self, dpid: int, number: int, *, up: bool) -> Port:
        """A port's description."""
        return Port(number, self.core.sessions[dpid].expected_ports[number], _MAC, up)

    def connected(self, dpid: int) -> Connected:
        """A switch with all its ports up."""
        return Connected(dpid, tuple(self.port(dpid, one, up=True) for one in self.core.sessions[dpid].expected_ports))


def run(switches: str) -> Figures:
    """Everything in turn, for a fabric of so many switches."""
    fabric = random_regular(switches=int(switches), degree=_DEGREE, hosts=10 * int(switches))
    figures: Figures = {}
    since = [time.process_time()]

    def lap(name: str) -> None:
        now = time.process_time()
        figures[name], since[0] = now - since[0], now

    routes = Paths(fabric)
    program = Program(tuple(discovery(fabric)), routes.groups())
    lap("groups")
    network = _Network(Plan(fabric, Design.SHORTEST_PATH, (), program, routes, {}, {}))
    core = network.core
    network.handle(*map(network.connected, network.switches))
    lap("start")
    if not core.ready:
        raise EngineError(f"the core is not ready: {core.problems()[0]}")
    figures["count"] = len(routes.groups())
    link = fabric_links(fabric)[0]
    ends = [(fabric.by_name[link.a].dpid or 0, link.a_port), (fabric.by_name[link.b].dpid or 0, link.b_port)]
    for name, up in (("cut", False), ("back", True)):
        network.changed = 0
        network.handle(*(PortChanged(dpid, network.port(dpid, port, up=up), True) for dpid, port in ends))
        lap(name)
        figures[f"{name} groups"] = network.changed
    victim = fabric.by_name[fabric_links(fabric)[-1].a].dpid or 0
    network.changed = 0
    network.handle(Disconnected(victim))
    network.now_ns += _QUIET.grace_ns
    network.handle(Tick())
    lap("lost")
    figures["lost groups"] = network.changed
    network.handle(network.connected(victim))
    lap("returned")
    if not core.ready or any(
        set(switch.groups.values()) != set(core.sessions[dpid].program.groups)
        for dpid, switch in network.switches.items()
    ):
        raise EngineError("the switches do not hold what they should")
    return figures


def measure(rounds: int) -> list[Row]:
    """Both sizes, each in a process of its own; the larger one once."""
    rows: list[Row] = []
    for size in SIZES:
        runs = [apart(__name__, "run", str(size)) for _ in range(rounds if size < max(SIZES) else 1)]
        first = runs[0]
        for what, name, note in (
            ("all groups", "groups", f"{first['count']:.0f} groups"),
            ("start", "start", f"{max(one[MEMORY] for one in runs):.2f} GiB at most"),
            ("a link fails", "cut", f"{first['cut groups']:.0f} groups change"),
            ("it returns", "back", f"{first['back groups']:.0f} groups change"),
            ("a switch is lost", "lost", f"{first['lost groups']:.0f} groups change"),
            ("it returns", "returned", ""),
        ):
            rows.append(Row(f"{size} switches, {what}: CPU s", spread([one[name] for one in runs]), note))
    return rows


if __name__ == "__main__":
    main({"run": run})
