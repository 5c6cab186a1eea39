"""A controller's core with in-memory switches: commands run in any possible order, links fail and heal."""

from __future__ import annotations

import random
from collections import deque

from controller.core import Core, State
from controller.designs import Plan
from controller.events import Changed, Command, Connected, Disconnected, Event, Make, Port, PortChanged, ProgramRead
from controller.flowtable import Switch
from controller.paths.graph import fabric_links
from emulator.model.fabric import Link

MS = 10**6


class Machine:
    """Switches that do what the core says.

    Args:
        plan: What the core is for.
        seed: Of the order in which switches carry out commands.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.core = Core(plan)
        self.now_ns = 0
        self.random = random.Random(seed)
        self.switches = {dpid: Switch() for dpid in self.core.sessions}
        self.down: set[str] = set()
        self.gone: set[int] = set()
        self.changes = 0
        self._queues: dict[int, deque[Command]] = {dpid: deque() for dpid in self.core.sessions}
        self._dpids = {node.name: node.dpid or 0 for node in plan.fabric.switches}
        self._links = {link.name: link for link in fabric_links(plan.fabric)}
        self._peers: dict[tuple[int, int], int] = {}
        for link in self._links.values():
            self._peers[self._dpids[link.a], link.a_port] = self._dpids[link.b]
            self._peers[self._dpids[link.b], link.b_port] = self._dpids[link.a]

    def connect(self, dpid: int) -> None:
        """A switch connects with the ports that are up now."""
        ports = tuple(
            Port(number, name, "02:aa:00:00:00:01", number not in self.down_ports(dpid))
            for number, name in self.core.sessions[dpid].expected_ports.items()
        )
        self.handle(Connected(dpid, ports))

    def lose(self, dpid: int, *, emptied: bool) -> None:
        """A switch's connection ends; its commands are lost, its tables perhaps too."""
        self._queues[dpid].clear()
        if emptied:
            self.switches[dpid] = Switch()
        self.handle(Disconnected(dpid))

    def set_link(self, name: str, *, up: bool) -> None:
        """Cut or heal a link; the switches at its ends say so, if they are connected."""
        (self.down.discard if up else self.down.add)(name)
        for dpid, number in self.ends(self._links[name]):
            session = self.core.sessions[dpid]
            if session.state is not State.ABSENT:
                port = Port(number, session.expected_ports[number], "02:aa:00:00:00:01", up)
                self.handle(PortChanged(dpid, port, True))

    def ends(self, link: Link) -> list[tuple[int, int]]:
        """Datapath id and port of both ends."""
        return [(self._dpids[link.a], link.a_port), (self._dpids[link.b], link.b_port)]

    def down_ports(self, dpid: int) -> set[int]:
        """Ports of a switch that carry nothing."""
        return {port for name in self.down for end, port in self.ends(self._links[name]) if end == dpid}

    def handle(self, event: Event) -> None:
        """Give the core an event and queue what it wants."""
        self._queue(self.core.handle(event, self.now_ns))

    def _queue(self, commands: list[Command]) -> None:
        for command in commands:
            self._queues[command.dpid].append(command)

    def pass_time(self, duration_ns: int) -> None:
        """Let time pass and tell the core."""
        self.now_ns += duration_ns
        self._queue(self.core.look(self.now_ns))

    def step(self) -> bool:
        """Carry out one waiting command of a random switch; false if none waits."""
        ready = [dpid for dpid, queue in self._queues.items() if queue]
        if not ready:
            return False
        dpid = self.random.choice(ready)
        command = self._queues[dpid].popleft()
        if isinstance(command, Make):
            self.changes += 1
            self.switches[dpid].apply(command.change)
            if command.step is not None:
                self.handle(Changed(dpid, command.step))
        else:
            self.handle(ProgramRead(dpid, self.switches[dpid].program))
        return True

    def settle(self) -> None:
        """Carry out everything, looking for loops after every command."""
        self.check_loops()
        while self.step():
            self.check_loops()

    def next_switches(self, dpid: int, target: str) -> set[int]:
        """Where a switch may send packets for another one, by any of its groups and any live port."""
        down = self.down_ports(dpid)
        found = set()
        for group in self.switches[dpid].groups.values():
            if self.plan.routes.target_of(group.number) == target:
                found |= {self._peers[dpid, bucket.port] for bucket in group.buckets if bucket.port not in down}
        return found

    def check_loops(self) -> None:
        """Whatever switches choose among live ports, no packet sees a switch twice."""
        for target in self.plan.routes.targets:
            done: set[int] = {self._dpids[target]}
            for start in self.switches:
                self._walk(start, target, [], done)

    def _walk(self, dpid: int, target: str, way: list[int], done: set[int]) -> None:
        assert dpid not in way, f"packets for {target} loop: {[*way, dpid]}"
        if dpid not in done:
            for after in self.next_switches(dpid, target):
                self._walk(after, target, [*way, dpid], done)
            done.add(dpid)

    def check_delivery(self) -> None:
        """Every switch that has a way to another one over links that are up sends its packets along one."""
        routes = self.plan.routes.without(self.down) if self.down else self.plan.routes
        for target in routes.targets:
            for name, dpid in self._dpids.items():
                if name == target:
                    continue
                reachable = routes.distance(name, target) is not None
                assert bool(self.next_switches(dpid, target)) == reachable, (name, target, sorted(self.down))


def working(plan: Plan, seed: int = 0) -> Machine:
    """A machine with all switches connected and programmed."""
    machine = Machine(plan, seed)
    for dpid in machine.core.sessions:
        machine.connect(dpid)
    while machine.step():
        pass
    assert machine.core.ready
    return machine
