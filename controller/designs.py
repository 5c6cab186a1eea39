"""The designs: which nodes storage traffic must visit, as OpenFlow rules on top of the shortest paths.

Storage traffic is what GPU nodes (the clients) and storage nodes exchange: TCP to a declared service, and all other
IPv4 but TCP. TCP to other ports takes the shortest path in every design, because no hop's proxy would pick it up.

``shortest-path``
    nothing is steered.
``gateway``
    client ⇄ gateway ⇄ storage, both directions, packet by packet.
``conventional``
    client ⇄ VPC router ⇄ general compute node ⇄ storage. The two hops end TCP connections to services and open new
    ones (so each leg has its own addresses, and answers go straight to where they are addressed); other packets they
    pass on with new Ethernet addresses, so the answers have to be steered as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from functools import cached_property

from controller.classes import class_rules, classed_switches
from controller.flows import FlowRule, Group, Program
from controller.paths import Paths, Spread
from controller.pipeline import discovery, forwarding, open_admission
from controller.services import Service
from controller.steering import Steering
from emulator.model.fabric import Fabric, Role


class Design(str, Enum):
    """How storage traffic travels."""

    SHORTEST_PATH = "shortest-path"
    CONVENTIONAL = "conventional"
    GATEWAY = "gateway"


class Hop(Flag):
    """What a visited node's software does with packets that are addressed to others."""

    FORWARD = auto()
    """Passes packets on to the destination's own Ethernet address, from its own, with one hop less to live."""
    TERMINATE = auto()
    """Ends TCP connections to services and opens new ones to the same service from its own address."""


@dataclass(frozen=True)
class Plan:
    """Everything that was decided for one fabric.

    Attributes:
        fabric: What it was decided for.
        design: How storage traffic travels.
        services: The storage services.
        program: All rules, groups and meters of all switches, in a fixed order.
        routes: The paths underneath.
        hops: What the software of visited nodes does; nodes that are not in it answer only for themselves.
        via: For each client, the nodes that its traffic visits on the way to storage, in order.
    """

    fabric: Fabric
    design: Design
    services: tuple[Service, ...]
    program: Program
    routes: Paths
    hops: Mapping[str, Hop]
    via: Mapping[str, tuple[str, ...]]

    @property
    def rules(self) -> tuple[FlowRule, ...]:
        """The rules of all switches."""
        return self.program.rules

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of all switches."""
        return self.program.groups

    def program_of(self, dpid: int) -> Program:
        """What one switch should hold while everything works."""
        return self._programs.get(dpid, Program())

    @cached_property
    def _programs(self) -> dict[int, Program]:
        return self.program.by_switch()


def plan(
    fabric: Fabric,
    design: Design | str,
    services: Sequence[Service],
    spread: Spread | str = Spread.HOSTS,
    *,
    routes: Paths | None = None,
    tenants: bool = False,
) -> Plan:
    """Decide all rules and groups for a fabric.

    Args:
        fabric: The network.
        design: How storage traffic travels.
        services: The storage services.
        spread: How packets are spread over equal paths.
        routes: The routes of the whole fabric, if they are known already.
        tenants: Leave out who is let in and delivered to, which `controller.compose` adds from tenants' resources.

    Raises:
        ControllerError: The design needs a node, or a path, that the fabric does not have.
    """
    design = Design(design)
    routes = routes or Paths(fabric, Spread(spread))
    classed = classed_switches(fabric)
    steering = Steering(fabric, routes, tuple(services), classed)
    via: dict[str, tuple[str, ...]] = {}
    hops: dict[str, Hop] = {}
    rules: list[FlowRule] = []
    if design is Design.GATEWAY:
        via = steering.choose(Role.GATEWAY, design=design.value)
        hops = {name: Hop.FORWARD for path in via.values() for name in path}
        rules = list(steering.gateway(via))
    elif design is Design.CONVENTIONAL:
        via = steering.choose(Role.ROUTER, Role.COMPUTE, design=design.value)
        hops = {name: Hop.FORWARD | Hop.TERMINATE for path in via.values() for name in path}
        rules = list(steering.conventional(via))
    exempt = {rule.dpid for rule in rules}
    rules += discovery(fabric)
    if not tenants:
        rules += open_admission(fabric, routes.attachments)
    rules += forwarding(fabric, routes, exempt=exempt, classed=classed, deliver=tenants)
    rules += class_rules(fabric, services)
    rules.sort(key=lambda rule: (rule.dpid, rule.table, -rule.priority))
    return Plan(
        fabric,
        design,
        tuple(services),
        Program(tuple(rules), routes.groups()),
        routes,
        hops,
        via,
    )
