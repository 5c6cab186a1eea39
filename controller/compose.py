"""The whole plan of a fabric with tenants: the design's paths and steering, and what tenants declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from controller.classes import classed_switches
from controller.designs import Design, Plan, plan
from controller.flows import Program
from controller.paths import Spread
from controller.services import Service
from controller.tenancy.compile import Compiler
from controller.tenancy.ground import Ground
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from controller.tenancy.verdicts import go_on
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
        self._designed = self._base
        self._design_rules = Program(self._base.rules)

    @property
    def base(self) -> Plan:
        """The design's part without any resources."""
        return self._base

    @property
    def site(self) -> Site:
        """The fabric and who visits which node."""
        return self._site

    @property
    def ground(self) -> Ground:
        """What tenants' resources are checked against."""
        return self._site.ground

    def layers(self, state: TenancyState, pause: Callable[[int], None] = go_on) -> tuple[Plan, dict[str, Program]]:
        """What switches should hold with these resources, in layers that do not overlap.

        Args:
            state: The resources.
            pause: Called now and then with a measure of what was done since.

        Returns:
            The design's part as a plan, and all rules and meters (but no groups, which resources do not change) by
            name. A layer that did not change since the last call is the same object.
        """
        services = tuple(
            Service(name, service.node, self._site.places[service.node].ip, service.port)
            for name, service in sorted(state.services.items())
        )
        if services != self._designed.services:
            base = self._base
            self._designed = plan(base.fabric, base.design, services, routes=base.routes, tenants=True)
            self._design_rules = Program(self._designed.rules)
        tenants = {f"tenants: {name}": program for name, program in self._compiler.parts(state, pause).items()}
        return self._designed, {"base": self._design_rules, **tenants}

    def plan(self, state: TenancyState) -> Plan:
        """What switches should hold with these resources."""
        made, _ = self.layers(state)
        tenants = self._compiler.program(state)
        rules = sorted((*made.rules, *tenants.rules), key=lambda rule: (rule.dpid, rule.table, -rule.priority))
        return replace(made, program=Program(tuple(rules), made.groups, tenants.meters))
