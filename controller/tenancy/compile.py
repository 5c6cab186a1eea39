"""From declared resources to what switches should hold, in parts that change independently.

=================  =====================================================================  ============================
part               what                                                                   depends on
=================  =====================================================================  ============================
`base_program`     violations, defaults, meters                                           fabric
`shared_program`   hosts outside VPCs, what carriers send as others                       nodes, endpoints, services
`vpc_program`      all that carries one VPC's segment                                     that VPC, its policies
=================  =====================================================================  ============================

No two parts have rules with the same key, so parts can be put together and exchanged freely. STEER, CLASS, SPREAD and
ROUTE are others' business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.flows import FlowRule, Program
from controller.tenancy import access, admission, arp, carriers, delivery
from controller.tenancy.carriers import Connection
from controller.tenancy.index import Relation
from controller.tenancy.kinds import Kind
from controller.tenancy.site import INFRASTRUCTURE_SEGMENT, Place, Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import Verdicts
from emulator.model.fabric import Role

_INFRASTRUCTURE_ROLES = (Role.STORAGE, Role.GATEWAY, Role.ROUTER)


def base_program(site: Site) -> Program:
    """What every switch holds whatever is declared."""
    rules = (
        *admission.borders(site),
        *arp.silence(site),
        *access.refusals(site),
        *delivery.defaults(site),
    )
    return Program(rules, meters=tuple(admission.meters(site)))


def shared_program(site: Site, state: TenancyState) -> Program:
    """What hosts outside VPCs may do, and what carriers may send as others.

    Infrastructure has its fabric addresses, and asks for those of anybody. Hosts that are in no VPC and no part of the
    infrastructure may send from their own address as well, so that what they try is reported as not allowed rather than
    as forged, but nobody answers them.
    """
    addresses = {place.ip: place.mac for place in site.places.values()}
    rules: list[FlowRule] = []
    askers: list[tuple[Place, str]] = []
    for place in site.places.values():
        if state.home(place.host) is not None:
            continue
        if _is_infrastructure(site, state, place.host):
            askers.append((place, place.ip))
            rules += admission.own_address(place, place.ip, INFRASTRUCTURE_SEGMENT)
        else:
            rules += admission.own_address(place, place.ip, None)
    rules += arp.answers(INFRASTRUCTURE_SEGMENT, askers, addresses)
    rules += carriers.infrastructure_rules(site, state)
    return Program(tuple(rules))


def vpc_program(site: Site, state: TenancyState, vpc: str) -> Program:
    """All that one VPC may do."""
    segment = state.vpcs[vpc].segment or 0
    members = {host: (site.places[host], str(node.ip)) for host, node in sorted(state.members(vpc).items())}
    gates = dict(sorted(state.gates(vpc).items()))
    services = {gate.service: state.services[gate.service] for gate in gates.values()}
    verdicts = Verdicts(state.policies_for(vpc), state.members(vpc), gates, services)
    addresses = {str(gate.ip): arp.ENDPOINT_MAC for gate in gates.values()}
    addresses |= {ip: place.mac for place, ip in members.values()}

    rules: list[FlowRule] = []
    for place, ip in members.values():
        rules += admission.own_address(place, ip, segment)
        rules.append(delivery.plain(place, segment))
    rules += arp.answers(segment, members.values(), addresses)
    rules += access.within(site, segment, verdicts, members)
    visited: set[str] = set()
    for host, (place, ip) in members.items():
        opened = [
            Connection(place, ip, segment, gate, services[gate.service], site.places[services[gate.service].node])
            for name, gate in gates.items()
            if verdicts.opens(host, name)
        ]
        for connection in opened:
            rules += carriers.connection_rules(site, connection)
            visited.update(carriers.visited(site, connection))
        if opened:
            rules += carriers.carried_client_rules(site, place)
    rules += (delivery.plain(site.places[name], segment) for name in sorted(visited))
    return Program(tuple(rules))


def tenant_program(site: Site, state: TenancyState) -> Program:
    """All parts together."""
    return Compiler(site).program(state)


def _is_infrastructure(site: Site, state: TenancyState, host: str) -> bool:
    return (
        host in site.hops
        or site.fabric.by_name[host].role in _INFRASTRUCTURE_ROLES
        or bool(state.index.of(Relation.OFFERS, host))
    )


@dataclass
class Compiler:
    """Compiles one state after the other, and only the parts whose resources changed.

    Attributes:
        site: The fabric.
        compiled: How many parts were compiled so far.
    """

    site: Site
    compiled: int = 0
    _parts: dict[str, tuple[object, Program]] = field(default_factory=dict)
    _base: Program | None = None
    _shared: tuple[object, Program] | None = None

    def program(self, state: TenancyState) -> Program:
        """All parts together, in a fixed order."""
        parts = self.parts(state).values()
        return Program(
            tuple(rule for part in parts for rule in part.rules), meters=tuple(m for part in parts for m in part.meters)
        )

    def parts(self, state: TenancyState) -> dict[str, Program]:
        """Each part by name; one that did not change since the last call is the same object."""
        programs = list(self._programs(state))
        for gone in self._parts.keys() - state.vpcs.keys():
            del self._parts[gone]
        return dict(zip(("base", "shared", *(f"vpc {vpc}" for vpc in sorted(state.vpcs))), programs, strict=True))

    def _programs(self, state: TenancyState) -> Iterator[Program]:
        if self._base is None:
            self._base = base_program(self.site)
        yield self._base
        needs: object = (state.nodes.keys(), state.endpoints, state.services)
        if self._shared is None or self._shared[0] != needs:
            self.compiled += 1
            self._shared = (needs, shared_program(self.site, state))
        yield self._shared[1]
        for vpc in sorted(state.vpcs):
            needs = _needs(state, vpc)
            known = self._parts.get(vpc)
            if known is None or known[0] != needs:
                self.compiled += 1
                known = self._parts[vpc] = (needs, vpc_program(self.site, state, vpc))
            yield known[1]


def _needs(state: TenancyState, vpc: str) -> object:
    """What a VPC's part is made of; comparing two is quick, as resources that did not change are the same objects."""
    gates = state.gates(vpc)
    return (
        state.vpcs[vpc],
        state.members(vpc),
        gates,
        [state.services[gate.service] for gate in gates.values()],
        state.index.of(Relation.POLICIES, (Kind.VPCS, vpc)),
        state.index.of(Relation.POLICIES, (Kind.TENANTS, state.vpcs[vpc].tenant)),
    )
