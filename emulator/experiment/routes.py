"""Where packets of a cell go, told from the controller's own plan: for predictions, theory records and the report."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from ipaddress import IPv4Address
from itertools import pairwise

from controller.designs import Design, Hop, Plan, plan
from controller.pathtrace import Journey, Leg, Tracer
from controller.services import Service
from emulator.collectives.ways import Ways
from emulator.errors import ControllerError
from emulator.experiment.control import NVME_PORT, services_of
from emulator.model.fabric import Fabric, LinkSpec, Role
from emulator.model.profile import Profile, StationModel
from emulator.model.routing import Passage, Routing
from emulator.scenario.predict import Flow, Route
from topologies import routing_of


class Routes:
    """Routes of one fabric under one design.

    Args:
        fabric: Where.
        design: ``shortest-path``, ``conventional`` or ``gateway``.
        spread: How packets are spread over equal paths: ``hosts`` or ``flows``.

    Raises:
        ControllerError: The design needs what the fabric does not have.
    """

    def __init__(self, fabric: Fabric, design: str, spread: str = "hosts") -> None:
        self._fabric = fabric
        self._design = design
        self._spread = spread

    @cached_property
    def routing(self) -> Routing | None:
        """The tables of a fabric whose nodes forward for each other; None: switches do that, or nobody has to."""
        return routing_of(self._fabric)

    @cached_property
    def ways(self) -> Ways:
        """The links that packets between any two hosts cross."""
        return self.routing or _PlannedWays(self._fabric, self)

    @cached_property
    def plan(self) -> Plan | None:
        """The controller's plan; None where there is no switch to plan for."""
        if not self._fabric.switches:
            return None
        services = [Service(**service) for service in services_of(self._fabric)]
        return plan(self._fabric, Design(self._design), services, self._spread)

    @cached_property
    def _tracer(self) -> Tracer | None:
        return Tracer(self.plan) if self.plan else None

    def route(self, source: str, target: str, protocol: str = "icmp") -> Route:
        """Nodes from *source* to *target* and back.

        Raises:
            ControllerError: Packets do not arrive there.
        """
        if self.routing is not None:
            return Route(
                self._nodes_along(source, target),
                self._nodes_along(target, source),
                self._shares(source, target),
                self._shares(target, source),
            )
        if self._tracer is None:  # hosts wired to each other
            return Route((source, target), (target, source))
        journey = self._tracer.journey(source, target, protocol, NVME_PORT if protocol == "tcp" else 0)
        if not journey.delivered:
            raise ControllerError(f"{protocol} from {source} to {target} does not arrive: {journey.reason}")
        return _route(journey)

    def _shares(self, source: str, target: str) -> dict[str, float]:
        """The share of traffic that leaves each interface."""
        shares = {}
        for passage, share in self.routing.shares(source, target).items() if self.routing else ():
            link = self._fabric.links[passage.link]
            shares[link.a_interface if passage.forward else link.b_interface] = share
        return shares

    def routes(self, flows: Iterable[Flow]) -> dict[Flow, Route]:
        """Routes of several flows."""
        return {flow: self.route(*flow) for flow in flows}

    def path(self, source: str, target: str) -> list[LinkSpec]:
        """Properties of the links that a packet from *source* to *target* crosses, in order."""
        nodes = self.route(source, target).there
        return [self._spec(a, b) for a, b in pairwise(nodes)]

    def stations(self, source: str, target: str, profile: Profile) -> list[StationModel]:
        """The stations that a packet from *source* to *target* crosses, in order."""
        of_role = {Role.GATEWAY: profile.gateway, Role.ROUTER: profile.router, Role.COMPUTE: profile.compute}
        hops = self.plan.hops if self.plan else {}
        visited = self.route(source, target).there[1:-1]
        return [of_role[self._fabric.by_name[name].role] for name in visited if hops.get(name, Hop(0))]

    def _nodes_along(self, source: str, target: str) -> tuple[str, ...]:
        nodes = [source]
        for passage in self.routing.path(source, target) if self.routing else ():
            link = self._fabric.links[passage.link]
            nodes.append(link.b if passage.forward else link.a)
        return tuple(nodes)

    def _spec(self, a: str, b: str) -> LinkSpec:
        return next(link.spec for link in self._fabric.links_of(a) if b in (link.a, link.b))


class _PlannedWays:
    """Ways through a fabric of switches that follow the controller's plan."""

    def __init__(self, fabric: Fabric, routes: Routes) -> None:
        self.fabric = fabric
        self._routes = routes
        self._passages: dict[tuple[str, str], Passage] = {}
        for number, link in enumerate(fabric.links):
            self._passages.setdefault((link.a, link.b), Passage(number, forward=True))
            self._passages.setdefault((link.b, link.a), Passage(number, forward=False))

    def addresses(self, node: str) -> tuple[IPv4Address, ...]:
        """Hosts have one address."""
        ip = self.fabric.by_name[node].ip
        return (ip.ip,) if ip else ()

    def path(self, source: str, target: str, address: IPv4Address | None = None) -> list[Passage]:  # noqa: ARG002
        """Links from one host to another."""
        return [self._passages[pair] for pair in pairwise(self._routes.route(source, target).there)]

    def shares(self, source: str, target: str, address: IPv4Address | None = None) -> dict[Passage, float]:
        """All of the traffic takes the one way."""
        return dict.fromkeys(self.path(source, target, address), 1.0)


def _route(journey: Journey) -> Route:
    return Route(_nodes(journey.there), _nodes(journey.back))


def _nodes(legs: Iterable[Leg]) -> tuple[str, ...]:
    """Nodes along consecutive legs; where one leg ends and the next begins, the node counts once."""
    names: list[str] = []
    for leg in legs:
        for step in leg.steps:
            if names[-1:] != [step.node]:
                names.append(step.node)
    return tuple(names)
