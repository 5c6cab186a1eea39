"""Sites and declarations for tests of the tenancy."""

from __future__ import annotations

from controller.designs import Hop
from controller.paths import Attachment
from controller.tenancy.kinds import Kind, check_key, parse
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from emulator.model.fabric import Fabric, Role
from tests.support.controller_fabrics import leaf_spine


def site_of(fabric: Fabric, design: str) -> Site:
    """A fabric under a design, each client with the first gateway or with proxies in turn."""
    attachments = {}
    for node in fabric.hosts:
        link = fabric.links_of(node.name)[0]
        switch, port = (link.b, link.b_port) if link.a == node.name else (link.a, link.a_port)
        attachments[node.name] = Attachment(switch, port)
    roles = {"shortest-path": (), "gateway": (Role.GATEWAY,), "conventional": (Role.ROUTER, Role.COMPUTE)}[design]
    via = {}
    for index, client in enumerate(fabric.with_role(Role.GPU)):
        nodes = [fabric.with_role(role) for role in roles]
        via[client.name] = tuple(choices[index % len(choices)].name for choices in nodes)
    kind = Hop.FORWARD | Hop.TERMINATE if design == "conventional" else Hop.FORWARD
    return Site(fabric, attachments, {name: kind for path in via.values() for name in path}, via)


def small_site(design: str = "shortest-path", gpus: int = 6) -> Site:
    """Three leaves with a few hosts of every role: g0…, c0…c3, r0…r1, gw0…gw1, st0…st1."""
    return site_of(leaf_spine(gpus=gpus, computes=4, routers=2, gateways=2, storage=2), design)


class Declaring:
    """Puts resources into a state, one after the other.

    Attributes:
        state: The state so far.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.state = TenancyState()

    def put(self, kind: Kind, key: str, /, **body: object) -> Declaring:
        """Declare a resource; its key has a slash if it is part of a VPC."""
        proper = check_key(kind, tuple(key.split("/")))
        self.state = self.state.put(kind, proper, parse(kind, body), self.site.ground).state
        return self

    def tenant(self, name: str, *vpcs: str, cidrs: tuple[str, ...] = ("10.0.0.0/16",)) -> Declaring:
        """Declare a tenant with VPCs that all have the same ranges."""
        self.put(Kind.TENANTS, name)
        for vpc in vpcs:
            self.put(Kind.VPCS, vpc, tenant=name, cidrs=list(cidrs))
        return self

    def node(self, key: str, ip: str, *groups: str) -> Declaring:
        """Put a host into a VPC."""
        return self.put(Kind.NODES, key, ip=ip, groups=list(groups))

    def service(self, name: str, node: str, port: int, kind: str = "block") -> Declaring:
        """Declare a service."""
        return self.put(Kind.SERVICES, name, kind=kind, node=node, port=port)

    def endpoint(self, key: str, service: str, ip: str, port: int) -> Declaring:
        """Give a VPC an endpoint."""
        return self.put(Kind.ENDPOINTS, key, service=service, ip=ip, port=port)

    def policy(self, name: str, **body: object) -> Declaring:
        """Declare a policy that allows, unless said otherwise."""
        return self.put(Kind.POLICIES, name, **{"action": "allow", **body})
