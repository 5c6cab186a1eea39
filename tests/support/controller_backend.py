"""A controller for tests of the REST interface: switches that hold exactly the plan, and answers made up by number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from controller.core import Core
from controller.designs import Design, Plan, plan
from controller.events import Applied, Apply, Command, Connected, Port, Read, TablesRead
from controller.flows import Group, Purpose, cookie_of
from controller.gateways.fleet import GatewayStatus
from controller.gateways.session import GatewaySession
from controller.journal import Journal, Kind, Severity
from controller.rest.backend import (
    AbsentGateway,
    Declined,
    Question,
    Silent,
    SilentGateway,
    Standing,
    Tallies,
    Unacceptable,
    answered,
)
from controller.stats import FlowStat, GroupStat, PortStat
from controller.tenancy.ground import Ground
from controller.tenancy.store import Store
from controller.tenancy.violations import Violation
from emulator.messages.gateway import Policies
from tests.support.controller_fabrics import leaf_spine, services_of

FABRIC = leaf_spine()
PLAN = plan(FABRIC, Design.GATEWAY, services_of(FABRIC, 4420))
FOREIGN = FlowStat(None, 1, 2, 3, {"priority": 9, "table_id": 0, "cookie": 1, "match": {}, "actions": []})
MAC = "02:bb:00:00:00:01"


def connect_all(core: Core) -> None:
    """Let all switches connect, and say that they hold what they should whenever they are asked."""
    for dpid, session in core.sessions.items():
        ports = tuple(Port(number, name, MAC, True) for number, name in session.expected_ports.items())
        settle(core, core.handle(Connected(dpid, ports), 0))


def settle(core: Core, commands: list[Command]) -> None:
    """Carry out what the core wants."""
    waiting = deque(commands)
    while waiting:
        command = waiting.popleft()
        if isinstance(command, Read):
            held = core.sessions[command.dpid].program
            waiting += core.handle(TablesRead(command.dpid, command.token, held), 0)
        elif isinstance(command, Apply):
            waiting += core.handle(Applied(command.dpid, command.token), 0)


class FakeBackend:
    """Port counters are functions of the port number; every rule has matched five packets.

    Attributes:
        silent: Switches that do not answer.
        foreign: Switches with an entry that no rule of ours can express.
        gone: Switches that are not connected.
        waits: What was waited for.
        changes: What was to be changed.
        declines: Functions whose changes switches refuse.
        place: This controller among others.
        fleet, figures: How gateways are, and what they count.
        silent_gateways: Gateways that do not answer.
        daemons: What gateways answer to lines of their control socket.
        policies: What gateways are to be told.
    """

    def __init__(self, made: Plan = PLAN, *, store: bool = False, journal: Journal | None = None) -> None:
        self.core = Core(made)
        self.journal = journal or Journal()
        self.ground = Ground.of(
            made.fabric, made.routes.attachments, [name for path in made.via.values() for name in path]
        )
        self.store = Store(":memory:", self.ground) if store else None
        self.silent: set[int] = set()
        self.foreign: set[int] = set()
        self.gone: set[int] = set()
        self.waits: list[float] = []
        self.changes: list[tuple[int, str, dict[str, Any], str | None]] = []
        self.declines: set[str] = set()
        self.place = Standing(name="one")
        self.fleet: list[GatewayStatus] = []
        self.figures: dict[str, dict[str, Any]] = {}
        self.silent_gateways: set[str] = set()
        self.daemons: dict[str, Callable[[bytes], bytes]] = {}
        self.policies = Policies()
        connect_all(self.core)

    def flows(self, dpid: int) -> list[FlowStat]:
        self._answering(dpid)
        stats = [
            FlowStat(rule, 5, 500, 7, {**_ryu_rule(rule), "priority": rule.priority})
            for rule in self.core.sessions[dpid].program.rules
        ]
        return [*stats, FOREIGN] if dpid in self.foreign else stats

    def ports(self, dpid: int) -> list[PortStat]:
        self._answering(dpid)
        numbers = [*self.core.sessions[dpid].expected_ports, 0xFFFFFFFE]
        return [PortStat(n, n, 2 * n, 10 * n, 20 * n, 0, 1, 0, 0, 9, {"port_no": n}) for n in numbers]

    def groups(self, dpid: int) -> list[GroupStat]:
        self._answering(dpid)
        return [
            GroupStat(group.number, 3, 300, tuple((1, 100) for _ in group.buckets))
            for group in self.core.sessions[dpid].program.groups
        ]

    def group_contents(self, dpid: int) -> list[Group]:
        self._answering(dpid)
        return list(self.core.sessions[dpid].program.groups)

    def connected(self) -> list[int]:
        return sorted(set(self.core.sessions) - self.gone)

    def wait_ready(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        return self.core.ready

    def standing(self) -> Standing:
        return self.place

    def tallies(self) -> Tallies:
        return Tallies(
            packet_ins={1: 4},
            flow_messages={1: 40},
            port_reasons={(1, 1): 2},
            violations={Violation.IP_SPOOFING: 6},
            failovers=2,
            reconciliations=1,
        )

    def gateways(self) -> list[GatewayStatus]:
        return self.fleet

    def gateway_statistics(self, name: str) -> dict[str, Any] | None:
        if name in self.silent_gateways:
            raise SilentGateway(name, 10)
        return self.figures.get(name)

    def gateway_policies(self, name: str) -> Policies:
        assert name in {one.name for one in self.fleet}
        return self.policies

    def gateway_ask(self, name: str, question: Question) -> dict[str, Any]:
        if name in self.silent_gateways:
            raise SilentGateway(name, 10)
        if name not in self.daemons:
            raise AbsentGateway(name, "gone")
        session = GatewaySession(name, Policies())
        number, line = question(session)
        assert session.received(self.daemons[name](line)) == b""
        return answered(name, session.results.pop(number))

    def ofctl_read(self, dpid: int, function: str, *arguments: Any) -> Any:
        self._answering(dpid)
        if function not in ANSWERS:
            raise Unacceptable(f"OpenFlow 1.3 has no {function}", unsupported=True)
        if function == "get_port_stats" and arguments and arguments[0] is not None:
            return [stat.ryu for stat in self.ports(dpid) if stat.port == int(arguments[0])]
        if function == "get_port_desc":
            session = self.core.sessions[dpid]
            ports = [_described(number, name) for number, name in session.expected_ports.items()]
            return [*ports, _described("LOCAL", session.name)]
        return ANSWERS[function]

    def ofctl_change(self, dpid: int, function: str, body: Mapping[str, Any], command: str | None = None) -> None:
        self._answering(dpid)
        if function in self.declines:
            raise Declined(dpid, "bad action (bad port)")
        self.changes.append((dpid, function, dict(body), command))

    def _answering(self, dpid: int) -> None:
        if dpid in self.silent:
            raise Silent(dpid, 10)


def _described(number: int | str, name: str) -> dict[str, Any]:
    return {
        "port_no": number, "hw_addr": MAC, "name": name, "config": 0, "state": 4, "curr": 0, "advertised": 0,
        "supported": 0, "peer": 0, "curr_speed": 0, "max_speed": 0,
    }  # fmt: skip


def _ryu_rule(rule: Any) -> dict[str, Any]:
    """Enough of Ryu's shape to tell entries apart."""
    match = dict(rule.match.set_fields().items())
    return {"table_id": int(rule.table), "cookie": rule.cookie, "match": match, "actions": ["OUTPUT:1"]}


ANSWERS: dict[str, Any] = {
    "get_desc_stats": {"mfr_desc": "Nicira, Inc.", "dp_desc": "s0"},
    "get_flow_stats": [{"priority": 1}],
    "get_aggregate_flow_stats": [{"packet_count": 1, "byte_count": 2, "flow_count": 3}],
    "get_table_stats": [{"active_count": 1, "lookup_count": 2, "matched_count": 3, "table_id": 0}],
    "get_table_features": [{"table_id": 0, "properties": []}],
    "get_port_stats": [{"port_no": 1}],
    "get_port_desc": [],
    "get_queue_stats": [],
    "get_queue_config": [{"port": "ANY", "queues": []}],
    "get_meter_features": [{"max_meter": 1}],
    "get_meter_config": [],
    "get_meter_stats": [
        {
            "meter_id": 1, "flow_count": 2, "packet_in_count": 30, "byte_in_count": 3000, "len": 56,
            "duration_sec": 1, "duration_nsec": 0,
            "band_stats": [{"packet_band_count": 10, "byte_band_count": 1000}],
        }
    ],
    "get_group_features": [{"types": []}],
    "get_group_desc": [],
    "get_group_stats": [],
    "get_role": [{"role": "MASTER"}],
}  # fmt: skip


def fill(journal: Journal, count: int) -> None:
    """Let things happen: links and violations in turn."""
    for number in range(count):
        kind = Kind.VIOLATION if number % 2 else Kind.LINK
        journal.add(number, kind, f"event {number}", severity=Severity.WARNING, port=number)


VIOLATE_COOKIE = cookie_of(Purpose.VIOLATE, Violation.IP_SPOOFING.value)
