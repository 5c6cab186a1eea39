"""The whole plan of a fabric with tenants: the design's paths and steering, and what tenants declared."""

from __future__ import annotations

from dataclasses import replace

from controller.classes import classed_switches
from controller.designs import Design, Plan, plan
from controller.flows import Program
from controller.routing import Spread
from controller.services import Service
from controller.tenancy.compile import Compiler
from controller.tenancy.ground import Ground
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from emulator.model.fabric import Fabric


class Composer:
    """Makes one plan after the other; the parts of VPCs that did not change are not made anew.

    Args:
        fabric: The network.
        design: How storage traffic travels.
        spread: How packets are spread over equal paths.

    Raises:
        ControllerError: The design needs a node, or a path, that the fabric does not have.
    """

    def __init__(self, fabric: Fabric, design: Design, spread: Spread) -> None:
        self._base = plan(fabric, design, (), spread, tenants=True)
        base = self._base
        self._site = Site(fabric, base.routes.attachments, base.hops, base.via, classed_switches(fabric))
        self._compiler = Compiler(self._site)

    @property
    def ground(self) -> Ground:
        """What tenants' resources are checked against."""
        return self._site.ground

    def plan(self, state: TenancyState) -> Plan:
        """What switches should hold with these resources."""
        fabric, base = self._base.fabric, self._base
        services = tuple(
            Service(name, service.node, self._site.places[service.node].ip, service.port)
            for name, service in sorted(state.services.items())
        )
        made = plan(fabric, base.design, services, routes=base.routes, tenants=True)
        tenants = self._compiler.program(state)
        rules = sorted((*made.rules, *tenants.rules), key=lambda rule: (rule.dpid, rule.table, -rule.priority))
        return replace(made, program=Program(tuple(rules), made.groups, tenants.meters))
