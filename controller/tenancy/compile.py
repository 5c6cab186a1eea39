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

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.flows import FlowRule, Program
from controller.tenancy import access, admission, arp, carriers, delivery
from controller.tenancy.index import Relation
from controller.tenancy.kinds import Kind
from controller.tenancy.site import INFRASTRUCTURE_SEGMENT, Place, Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import go_on
from controller.tenancy.vpc import VpcCompiler
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
    return sum(VpcCompiler(site, state, vpc).parts.values(), Program())


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
        compiled: How many parts were compiled so far, of a VPC all together or as far as policies changed.
    """

    site: Site
    compiled: int = 0
    _vpcs: dict[str, tuple[object, object, VpcCompiler]] = field(default_factory=dict)
    _base: Program | None = None
    _shared: tuple[object, Program] | None = None

    def program(self, state: TenancyState) -> Program:
        """All parts together, in a fixed order."""
        parts = self.parts(state).values()
        return Program(
            tuple(rule for part in parts for rule in part.rules), meters=tuple(m for part in parts for m in part.meters)
        )

    def parts(self, state: TenancyState, pause: Callable[[int], None] = go_on) -> dict[str, Program]:
        """Each part by name; one that did not change since the last call is the same object.

        Args:
            state: What is declared.
            pause: Called now and then with a measure of what was done since. It may raise; then the next call makes
                more anew.
        """
        if self._base is None:
            self._base = base_program(self.site)
        needs: object = (state.nodes.keys(), state.endpoints, state.services)
        if self._shared is None or self._shared[0] != needs:
            self.compiled += 1
            self._shared = (needs, shared_program(self.site, state))
        parts = {"base": self._base, "shared": self._shared[1]}
        for gone in self._vpcs.keys() - state.vpcs.keys():
            del self._vpcs[gone]
        for vpc in sorted(state.vpcs):
            for name, program in self._vpc(state, vpc, pause).parts.items():
                parts[f"vpc {vpc}{name}"] = program
            pause(1)
        return parts

    def _vpc(self, state: TenancyState, vpc: str, pause: Callable[[int], None]) -> VpcCompiler:
        needs, policies = needs_of(state, vpc), policies_of(state, vpc)
        known = self._vpcs.get(vpc)
        if known is not None and known[0] == needs and known[1] == policies:
            return known[2]
        self.compiled += 1
        # What is given up half-way must not be found again.
        self._vpcs.pop(vpc, None)
        if known is not None and known[0] == needs:
            compiler = known[2]
            compiler.update(state.policies_for(vpc), pause)
        else:
            compiler = VpcCompiler(self.site, state, vpc, pause)
        self._vpcs[vpc] = (needs, policies, compiler)
        return compiler


def needs_of(state: TenancyState, vpc: str) -> object:
    """What a VPC is made of, but for its policies.

    Comparing two is quick, as resources that did not change are the same objects.
    """
    gates = state.gates(vpc)
    services = [state.services[gate.service] for gate in gates.values()]
    return (state.vpcs[vpc], state.members(vpc), gates, services)


def policies_of(state: TenancyState, vpc: str) -> object:
    """A VPC's policies, and its tenant's."""
    return (
        state.index.of(Relation.POLICIES, (Kind.VPCS, vpc)),
        state.index.of(Relation.POLICIES, (Kind.TENANTS, state.vpcs[vpc].tenant)),
    )
