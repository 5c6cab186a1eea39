"""A controller's core with in-memory switches: commands run in any possible order, links fail and heal, cables move."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from controller.core import Core, Options, State
from controller.core.state import BUSY
from controller.designs import Plan
from controller.events import (
    Applied,
    Apply,
    Close,
    Command,
    Connected,
    ControllerRole,
    Count,
    Disconnected,
    Event,
    Foreign,
    Part,
    Port,
    PortChanged,
    Read,
    Reported,
    RoleTaken,
    SendPacket,
    TablesRead,
    TakeRole,
    Tick,
)
from controller.flows import Purpose, cookie_of
from controller.flowtable import Switch
from controller.paths.graph import fabric_links
from emulator.model.fabric import Link
from tests.support.controller_traffic import Traffic

MS = 10**6
S = 10**9
NO_LLDP = Options(lldp_interval_ns=0)


class Machine:
    """Switches that do what the core says.

    Args:
        plan: What the core is for.
        seed: Of the order in which switches carry out commands.
        options: Of the core.

    Attributes:
        down: Names of the links that are cut.
        mute: Names of the links that carry no LLDP, although their ports are up.
        cables: Where ports lead, both ways; tests may move them.
        foreign: Entries of others, by switch.
        said: All events that answered something, for saying them again.
        traffic: What hosts send, for the balancer.
    """

    def __init__(self, plan: Plan, seed: int = 0, options: Options = NO_LLDP) -> None:
        self.plan = plan
        self.core = Core(plan, options, b"secret")
        self.now_ns = 0
        self.random = random.Random(seed)
        self.switches = {dpid: Switch() for dpid in self.core.sessions}
        self.roles: dict[int, tuple[ControllerRole, int]] = {}
        self.foreign: dict[int, list[Foreign]] = {dpid: [] for dpid in self.core.sessions}
        self.down: set[str] = set()
        self.mute: set[str] = set()
        self.changes = 0
        self.traffic = Traffic(self)
        self.said: deque[Event] = deque(maxlen=50)
        self._queues: dict[int, deque[Command]] = {dpid: deque() for dpid in self.core.sessions}
        self._dpids = {node.name: node.dpid or 0 for node in plan.fabric.switches}
        self._links = {link.name: link for link in fabric_links(plan.fabric)}
        self.cables: dict[tuple[int, int], tuple[int, int]] = {}
        for link in self._links.values():
            one, other = self.ends(link)
            self.cables[one], self.cables[other] = other, one
        self._links_at = {end: link for link in self._links.values() for end in self.ends(link)}

    def connect(self, dpid: int) -> None:
        """A switch connects with the ports that are up now."""
        ports = tuple(
            Port(number, name, "02:aa:00:00:00:01", number not in self.down_ports(dpid))
            for number, name in self.core.sessions[dpid].expected_ports.items()
        )
        self._queues[dpid].clear()
        self.handle(Connected(dpid, ports))

    def lose(self, dpid: int, *, emptied: bool) -> None:
        """A switch's connection ends; its commands are lost, its tables perhaps too."""
        self._queues[dpid].clear()
        if emptied:
            self.switches[dpid] = Switch()
            self.foreign[dpid].clear()
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
        self.queue(self.core.handle(event, self.now_ns))

    def queue(self, commands: list[Command]) -> None:
        """Have commands carried out later; they go to switches that are there."""
        for command in commands:
            assert self.core.sessions[command.dpid].state is not State.ABSENT, command
            self._queues[command.dpid].append(command)

    def pass_time(self, duration_ns: int, run: Callable[[None], None] | None = None) -> None:
        """Let time pass and tell the core whenever it wants to be told; *run* carries out what it wants then."""
        end_ns = self.now_ns + duration_ns
        while (next_ns := self.core.next_ns()) is not None and next_ns <= end_ns:
            self.now_ns = max(self.now_ns, next_ns)
            self.handle(Tick())
            if run is None:
                self.run()
            else:
                run(None)
            assert self.core.next_ns() != next_ns, "the core wants to be called again and again"
        self.now_ns = end_ns
        self.handle(Tick())

    def step(self) -> bool:
        """Carry out one waiting command of a random switch; false if none waits."""
        ready = [dpid for dpid, queue in self._queues.items() if queue]
        if not ready:
            return False
        dpid = self.random.choice(ready)
        self._carry_out(self._queues[dpid].popleft())
        return True

    def run(self) -> None:
        """Carry out everything."""
        while self.step():
            pass

    def _carry_out(self, command: Command) -> None:
        dpid = command.dpid
        switch, foreign = self.switches[dpid], self.foreign[dpid]
        if isinstance(command, Read):
            answer: Event = TablesRead(dpid, command.token, switch.program, tuple(foreign))
        elif isinstance(command, Apply):
            self._apply(command)
            answer = Applied(dpid, command.token)
        elif isinstance(command, TakeRole):
            self.roles[dpid] = (command.role, command.generation)
            answer = RoleTaken(dpid, command.token)
        elif isinstance(command, Count):
            answer = self.traffic.counted(dpid, command.token)
        elif isinstance(command, SendPacket):
            self._send(command)
            return
        else:
            assert isinstance(command, Close)
            self.lose(dpid, emptied=False)
            return
        self.said.append(answer)
        self.handle(answer)

    def _apply(self, command: Apply) -> None:
        dpid = command.dpid
        if self.core.options.redundant:
            assert self.roles[dpid][0] is ControllerRole.MASTER
        self.changes += 1
        switch, foreign = self.switches[dpid], self.foreign[dpid]
        for meter in command.change.put.meters:
            known = meter.number in switch.meters or Foreign(Part.METER, "", meter.number) in [
                replace(item, text="") for item in foreign
            ]
            assert (meter.number in command.meters) == (known and not command.change.clear)
        put = {rule.key for rule in command.change.put.rules}
        for item in (*command.foreign, *(item for item in foreign if item.key in put)):
            if item in foreign:
                foreign.remove(item)
        if command.change.clear:
            foreign.clear()
        switch.apply(command.change)

    def _send(self, command: SendPacket) -> None:
        """A switch sends a frame; it arrives at the other end of the cable, and is handed over there."""
        end = (command.dpid, command.port)
        far = self.cables.get(end)
        link = self._links_at.get(end)
        if far is None or link is None or {link.name} & (self.down | self.mute):
            return
        if self.core.sessions[far[0]].state is not State.ABSENT and self.switches[far[0]].groups:
            self.handle(Reported(*far, cookie_of(Purpose.DISCOVER), 0, command.data))

    def settle(self) -> None:
        """Carry out everything, looking for loops after every command."""
        self.check_loops()
        while self.step():
            self.check_loops()

    # --- what must hold ---------------------------------------------------------------------------------------------

    def next_switches(self, dpid: int, target: str) -> set[int]:
        """Where a switch may send packets for another one, by any of its groups and any live port."""
        down = self.down_ports(dpid)
        found = set()
        for group in self.switches[dpid].groups.values():
            if self.plan.routes.target_of(group.number) == target:
                found |= {self.cables[dpid, bucket.port][0] for bucket in group.buckets if bucket.port not in down}
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

    def check_pairs(self) -> None:
        """The same for the packets of each pair of hosts that sends: rules that hold a pair come before groups."""
        for pair in self.traffic.demands:
            target = self.plan.routes.attachments[pair[1]].switch
            done: set[int] = {self._dpids[target]}
            for start in self.switches:
                waiting: list[tuple[int, tuple[int, ...]]] = [(start, ())]
                while waiting:
                    dpid, way = waiting.pop()
                    assert dpid not in way, f"packets of {pair} loop: {[*way, dpid]}"
                    if dpid not in done:
                        ports = self.traffic.held_ports(dpid, pair)
                        after = self.next_switches(dpid, target) if ports is None else self._behind(dpid, ports)
                        waiting += [(peer, (*way, dpid)) for peer in after]
                done.add(start)

    def _behind(self, dpid: int, ports: set[int]) -> set[int]:
        return {self.cables[dpid, port][0] for port in ports - self.down_ports(dpid)}

    def check_delivery(self) -> None:
        """Every switch that has a way to another one over links that are up sends its packets along one."""
        routes = self.plan.routes.without(self.down) if self.down else self.plan.routes
        for target in routes.targets:
            for name, dpid in self._dpids.items():
                if name == target:
                    continue
                reachable = routes.distance(name, target) is not None
                assert bool(self.next_switches(dpid, target)) == reachable, (name, target, sorted(self.down))

    def check_sessions(self) -> None:
        """What holds at any time."""
        for dpid, session in self.core.sessions.items():
            assert session.state is not State.ABSENT or not session.ports
            assert (session.state is State.FAILED) == bool(session.failure)
            if session.state is State.READY and not self._queues[dpid]:
                assert set(self.switches[dpid].program.rules) == set(session.program.rules)
                assert set(self.switches[dpid].program.groups) == set(session.program.groups)
                assert set(self.switches[dpid].program.meters) == set(session.program.meters)
            if session.state in BUSY and not self.core.gathering:
                # Somebody must be about to answer, or the switch would be stuck.
                assert self._queues[dpid], session.name
        down = self.core.usable.down
        assert not down & self.core.usable.shunned
        assert self.core.ready == (not self.core.problems())


def working(plan: Plan, seed: int = 0, options: Options = NO_LLDP) -> Machine:
    """A machine with all switches connected and programmed."""
    machine = Machine(plan, seed, options)
    for dpid in machine.core.sessions:
        machine.connect(dpid)
    machine.run()
    assert machine.core.ready, machine.core.problems()
    return machine
