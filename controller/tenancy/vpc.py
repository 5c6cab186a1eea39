"""One VPC's rules, in parts, kept up as its policies change.

==================  =========================================================================  =======================
part                what                                                                       depends on
==================  =========================================================================  =======================
(empty name)        addresses, ARP, delivery                                                   nodes, endpoints
`` from HOST``      what one node may send to others and to endpoints, and the way back there  policies about it
`` carriers``       delivery to those that carry storage traffic                               what endpoints are used
==================  =========================================================================  =======================

A policy that changes is compared only for the pairs that it is about; of a pair whose verdict changed, only the rules
that were not there before are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from controller.flows import FlowRule, Program
from controller.tenancy import access, admission, arp, carriers, delivery
from controller.tenancy.access import Pair, Shape
from controller.tenancy.carriers import Connection
from controller.tenancy.model import Policy
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import NOTHING, Allowed, Verdicts, go_on

_PAIR_WORK = 10
"""Judging a pair anew takes about as long as making so many rules, which is the unit of work."""
_CARRIERS = " carriers"


class VpcCompiler:
    """Compiles one VPC, and again what changes of policies touch.

    Args:
        site: The fabric.
        state: What is declared; of it all but the policies stays.
        vpc: Name of the VPC.
        pause: Called now and then with a measure of what was done since.

    Attributes:
        parts: Programs by the part's name. One that did not change is the same object.
    """

    def __init__(self, site: Site, state: TenancyState, vpc: str, pause: Callable[[int], None] = go_on) -> None:
        self._site = site
        self._segment = state.vpcs[vpc].segment or 0
        nodes = dict(sorted(state.members(vpc).items()))
        self._members = {host: (site.places[host], str(node.ip)) for host, node in nodes.items()}
        self._gates = dict(sorted(state.gates(vpc).items()))
        self._services = {gate.service: state.services[gate.service] for gate in self._gates.values()}
        self._verdicts = Verdicts(state.policies_for(vpc), nodes, self._gates, self._services, pause)
        self._opened: dict[str, dict[str, Allowed]] = {host: {} for host in nodes}
        self._pairs: dict[str, dict[str, dict[Shape, FlowRule]]] = {host: {} for host in nodes}
        self._doors: dict[str, tuple[str, ...]] = dict.fromkeys(nodes, ())
        self._connections: dict[str, tuple[FlowRule, ...]] = dict.fromkeys(nodes, ())
        self._sent: dict[str, Program] = {}
        self._carriers = Program()
        self._fixed = Program(tuple(self._fixed_rules()))
        self.parts: dict[str, Program] = {}
        self._judge(dict.fromkeys(nodes, nodes.keys()), nodes, pause)

    def update(self, policies: Mapping[str, Policy], pause: Callable[[int], None] = go_on) -> None:
        """Take other policies. If *pause* raises, nothing here is to be used any more."""
        touched = self._verdicts.update(policies)
        self._judge(touched.nodes, touched.doors, pause)

    def _judge(self, pairs: Mapping[str, Iterable[str]], doors: Iterable[str], pause: Callable[[int], None]) -> None:
        """Look again at pairs, by source, and at the endpoints that nodes may use."""
        stale: dict[str, set[str]] = {}
        for source, targets in pairs.items():
            row = self._opened[source]
            for target in targets:
                looked = self._verdicts.looked
                allowed = self._verdicts.between(source, target) if target != source else NOTHING
                if allowed != row.get(target, NOTHING):
                    row[target] = allowed
                    stale.setdefault(source, set()).add(target)
                    stale.setdefault(target, set()).add(source)
                pause(_PAIR_WORK + self._verdicts.looked - looked)
        moved = {host: names for host in doors if (names := self._opens(host)) != self._doors[host]}
        self._doors.update(moved)
        for host in moved:
            self._connections[host] = tuple(self._connection_rules(host))
            pause(2 * len(self._connections[host]))
        known: dict[tuple[Allowed, Allowed], list[Shape]] = {}
        for host, targets in stale.items():
            self._make(host, targets, known, pause)
        for host in stale.keys() | moved.keys():
            rows = self._pairs[host]
            rules = tuple(rule for target in sorted(rows) for rule in rows[target].values())
            self._sent[host] = Program(rules + self._connections[host])
            pause(1 + len(rules) // 50)
        if moved:
            visited = {name for host in self._members for one in self._uses(host) for name in self._visited(one)}
            self._carriers = Program(tuple(self._delivery(visited)))
        self.parts = {"": self._fixed}
        self.parts |= {f" from {host}": self._sent[host] for host in sorted(self._sent) if self._sent[host].rules}
        if self._carriers.rules:
            self.parts[_CARRIERS] = self._carriers

    def _make(
        self,
        source: str,
        targets: Iterable[str],
        known: dict[tuple[Allowed, Allowed], list[Shape]],
        pause: Callable[[int], None],
    ) -> None:
        """Make the rules from a node to others."""
        place, rows = self._members[source][0], self._pairs[source]
        for target in targets:
            opened, asked = self._opened[source].get(target, NOTHING), self._opened[target].get(source, NOTHING)
            if (opened, asked) not in known:
                known[opened, asked] = access.shapes(opened, asked)
                pause(len(known[opened, asked]))
            wanted = known[opened, asked]
            before = rows.pop(target, {})
            if wanted:
                peer, ip = self._members[target]
                rows[target] = Pair(self._site, self._segment, place, peer, ip).rules(wanted, before)
            pause(2 + sum(shape not in before for shape in wanted) + len(wanted) // 8)

    def _fixed_rules(self) -> Iterator[FlowRule]:
        addresses = {str(gate.ip): arp.ENDPOINT_MAC for gate in self._gates.values()}
        addresses |= {ip: place.mac for place, ip in self._members.values()}
        for place, ip in self._members.values():
            yield from admission.own_address(place, ip, self._segment)
            yield delivery.plain(place, self._segment)
        yield from arp.answers(self._segment, self._members.values(), addresses)

    def _opens(self, host: str) -> tuple[str, ...]:
        return tuple(name for name in self._gates if self._verdicts.opens(host, name))

    def _uses(self, host: str) -> Iterator[Connection]:
        place, ip = self._members[host]
        for name in self._doors[host]:
            gate = self._gates[name]
            service = self._services[gate.service]
            yield Connection(place, ip, self._segment, gate, service, self._site.places[service.node])

    def _connection_rules(self, host: str) -> Iterator[FlowRule]:
        for connection in self._uses(host):
            yield from carriers.connection_rules(self._site, connection)
        if self._doors[host]:
            yield from carriers.carried_client_rules(self._site, self._members[host][0])

    def _visited(self, connection: Connection) -> tuple[str, ...]:
        return carriers.visited(self._site, connection)

    def _delivery(self, visited: Iterable[str]) -> Iterator[FlowRule]:
        for name in sorted(visited):
            yield delivery.plain(self._site.places[name], self._segment)
