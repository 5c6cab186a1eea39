"""What gateways are told: the storage connections that they carry in each VPC's segment, and nothing else. Pure.

Services are translated at the client's switch (see `controller.tenancy.carriers`), so a gateway sees fabric addresses
in the VPC's segment: it passes a client's connection on to the server, and the answers back, and denies everything
else, also if a switch should err.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Network

from controller.flows import IP_PROTO_TCP
from controller.tenancy.compile import needs_of, policies_of
from controller.tenancy.model import Policy
from controller.tenancy.site import Place, Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import Verdicts, go_on
from emulator.messages.gateway import NextHop, Policies, Route, Rule, Tenant

PORT = 0
"""The one port of a gateway on a stick: frames leave where they came in."""
_PIECE = 100
"""Putting together so many things that are there is a unit of work, as making a rule is."""


class Carried:
    """What gateways are to be told, kept up as resources change: what a change does not touch is not made again.

    Args:
        site: The fabric and who visits which node.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._vpcs: dict[str, tuple[object, object, _Vpc]] = {}
        self._told: dict[str, tuple[list[_Part], Policies]] = {}

    def update(self, state: TenancyState, pause: Callable[[int], None] = go_on) -> None:
        """Take other resources.

        Args:
            state: What is declared.
            pause: Called now and then with a measure of what was done since, as by `controller.tenancy.compile`.
        """
        for gone in self._vpcs.keys() - state.vpcs.keys():
            del self._vpcs[gone]
        for vpc in state.vpcs:
            needs, policies = needs_of(state, vpc), policies_of(state, vpc)
            known = self._vpcs.get(vpc)
            if known is None or known[0] != needs:
                made = _Vpc(self._site, state, vpc, pause)
            elif known[1] != policies:
                # What is given up half-way must not be found again.
                del self._vpcs[vpc]
                made = known[2]
                made.update(state.policies_for(vpc), pause)
            else:
                continue
            self._vpcs[vpc] = (needs, policies, made)
            pause(1)

    def policies(self, gateway: str, pause: Callable[[int], None] = go_on) -> Policies:
        """What a gateway is to be told; the same object as before if that is the same.

        Raises:
            pydantic.ValidationError: It cannot be said.
        """
        found = [vpc.part(gateway, pause) for _, (_, _, vpc) in sorted(self._vpcs.items())]
        parts = [part for part in found if part.rules]
        known = self._told.get(gateway)
        if known is not None and len(known[0]) == len(parts) and all(map(_is, known[0], parts)):
            return known[1]
        rules: list[Rule] = []
        hops: list[NextHop] = []
        routes: list[tuple[_Part, tuple[Route, ...]]] = []
        for part in parts:
            routes.append((part, part.routes(len(hops))))
            rules += part.rules
            hops += part.next_hops
            pause(1 + len(part.rules) // _PIECE)
        routes.sort(key=lambda pair: pair[0].tenant.number)
        policies = Policies(
            tenants=tuple(part.tenant for part, _ in routes),
            rules=tuple(rules),
            next_hops=tuple(hops),
            routes=tuple(route for _, some in routes for route in some),
        )
        self._told[gateway] = (parts, policies)
        return policies


def policies_for(site: Site, state: TenancyState, gateway: str) -> Policies:
    """What a gateway is to be told."""
    carried = Carried(site)
    carried.update(state)
    return carried.policies(gateway)


@dataclass
class _Part:
    """What a gateway is told about one VPC.

    Attributes:
        tenant: The VPC's segment, and who is in it.
        rules: What is let through.
        next_hops: Who gets frames.
        targets: Whose frames go to which of the next hops, which are counted from 1.
    """

    tenant: Tenant
    rules: tuple[Rule, ...] = ()
    next_hops: tuple[NextHop, ...] = ()
    targets: tuple[tuple[IPv4Network, int], ...] = ()
    _routes: tuple[int, tuple[Route, ...]] | None = field(default=None, repr=False)

    def routes(self, before: int) -> tuple[Route, ...]:
        """The routes, if so many next hops of others come first."""
        if self._routes is None or self._routes[0] != before:
            number = self.tenant.number
            made = (Route(tenant=number, network=network, next_hop=before + hop) for network, hop in self.targets)
            self._routes = (before, tuple(made))
        return self._routes[1]


class _Vpc:
    """The connections that one VPC's nodes may open to its endpoints.

    Args:
        site: The fabric and who visits which node.
        state: What is declared; of it all but the policies stays.
        vpc: Name of the VPC.
        pause: Called now and then with a measure of what was done since.
    """

    def __init__(self, site: Site, state: TenancyState, vpc: str, pause: Callable[[int], None]) -> None:
        self._site = site
        self._segment = state.vpcs[vpc].segment or 0
        nodes = dict(sorted(state.members(vpc).items()))
        self._gates = dict(sorted(state.gates(vpc).items()))
        services = {gate.service: state.services[gate.service] for gate in self._gates.values()}
        self._servers = {
            name: (site.places[services[gate.service].node], services[gate.service].port)
            for name, gate in self._gates.items()
        }
        self._verdicts = Verdicts(state.policies_for(vpc), nodes, self._gates, services, pause)
        self._opened: dict[str, tuple[str, ...]] = dict.fromkeys(nodes, ())
        self._rules: dict[tuple[str, str, int], tuple[Rule, Rule]] = {}
        self._parts: dict[str, _Part] = {}
        self._judge(nodes, pause)

    def update(self, policies: Mapping[str, Policy], pause: Callable[[int], None]) -> None:
        """Take other policies. If *pause* raises, nothing here is to be used any more."""
        self._judge(self._verdicts.update(policies).doors, pause)

    def _judge(self, hosts: Iterable[str], pause: Callable[[int], None]) -> None:
        """Look again at which endpoints nodes may open."""
        for host in hosts:
            opened = tuple(name for name in self._gates if self._verdicts.opens(host, name))
            if opened != self._opened[host]:
                self._opened[host] = opened
                for gateway in self._site.forwarders(host):
                    self._parts.pop(gateway, None)
            pause(1 + len(self._gates))

    def part(self, gateway: str, pause: Callable[[int], None]) -> _Part:
        """What a gateway is told; the same object as before if that is the same."""
        if gateway not in self._parts:
            self._parts[gateway] = self._part(gateway, pause)
        return self._parts[gateway]

    def _part(self, gateway: str, pause: Callable[[int], None]) -> _Part:
        rules: dict[Rule, None] = {}
        hops: dict[str, int] = {}
        targets: dict[str, int] = {}
        for host, opened in self._opened.items():
            if not opened or gateway not in self._site.forwarders(host):
                continue
            client = self._site.places[host]
            for server, port in (self._servers[name] for name in opened):
                for place in (client, server):
                    targets[place.ip] = hops.setdefault(place.mac, len(hops) + 1)
                rules.update(dict.fromkeys(self._rules_of(client, server, port)))
            pause(1 + len(opened))
        addresses = tuple(_network(ip) for ip in sorted(targets))
        own = self._site.places[gateway].mac.lower()
        return _Part(
            tenant=Tenant(number=self._segment, vlans=(self._segment,), addresses=addresses),
            rules=tuple(rules),
            next_hops=tuple(
                NextHop(port=PORT, target_mac=mac.lower(), source_mac=own, vlan=self._segment) for mac in hops
            ),
            targets=tuple((_network(ip), hop) for ip, hop in sorted(targets.items())),
        )

    def _rules_of(self, client: Place, server: Place, port: int) -> tuple[Rule, Rule]:
        """A client's connections to a server, and the answers."""
        key = (client.ip, server.ip, port)
        if key not in self._rules:
            here, there, ports, segment = _network(client.ip), _network(server.ip), (port, port), self._segment
            self._rules[key] = (
                Rule(allow=True, tenant=segment, protocol=IP_PROTO_TCP, source=here, target=there, target_ports=ports),
                Rule(allow=True, tenant=segment, protocol=IP_PROTO_TCP, source=there, target=here, source_ports=ports),
            )
        return self._rules[key]


@lru_cache(maxsize=1 << 16)
def _network(ip: str) -> IPv4Network:
    return IPv4Network(ip)


def _is(one: object, other: object) -> bool:
    return one is other
