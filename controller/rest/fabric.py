"""``/v1/topology`` and ``/v1/links``: what the fabric is, and what of it is up."""

from __future__ import annotations

from controller.core import State
from controller.rest.backend import Backend
from controller.rest.http import Request, Response, json_response
from controller.rest.routes import Route, Success
from controller.rest.schemas.fabric import HostNode, LinkEntry, Links, LinkUse, ServiceEntry, SwitchNode, Topology
from emulator.model.fabric import Link, Node


class FabricResources:
    """Answers from the plan and the core's state."""

    def __init__(self, backend: Backend) -> None:
        self._core = backend.core
        self._fabric = backend.core.plan.fabric

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/topology",
                self.topology,
                "Nodes, links and services of the fabric",
                "fabric",
                {200: Success("The fabric.", Topology)},
            ),
            Route(
                "GET",
                "/v1/links",
                self.links,
                "Links, and whether they are used",
                "fabric",
                {200: Success("All links.", Links)},
            ),
        ]

    def topology(self, request: Request) -> Response:
        """Nodes, links and services, with what is up."""
        del request
        services = tuple(
            ServiceEntry(name=service.name, node=service.node, ip=service.ip, port=service.port, protocol="tcp")
            for service in self._core.plan.services
        )
        return json_response(
            Topology(
                name=self._fabric.name,
                design=self._core.plan.design.value,
                planes=self._core.plan.routes.planes,
                nodes=tuple(self._node(node) for node in self._fabric.nodes),
                links=self._links(),
                services=services,
            )
        )

    def links(self, request: Request) -> Response:
        """Links alone."""
        del request
        return json_response(Links(links=self._links()))

    def _node(self, node: Node) -> SwitchNode | HostNode:
        if node.dpid is not None:
            state = self._core.sessions[node.dpid].state
            return SwitchNode(
                name=node.name,
                role="switch",
                zone=node.zone,
                tier=node.tier,
                dpid=node.dpid,
                connected=state is not State.ABSENT,
            )
        attachment = self._core.plan.routes.attachments.get(node.name)
        return HostNode(
            name=node.name,
            role=node.role.value,
            zone=node.zone,
            tier=node.tier,
            ip=str(node.ip) if node.ip else None,
            mac=node.mac,
            switch=attachment.switch if attachment else None,
            switch_port=attachment.port if attachment else None,
            via=tuple(self._core.plan.via.get(node.name, ())),
        )

    def _links(self) -> tuple[LinkEntry, ...]:
        return tuple(self._link(link) for link in self._fabric.links)

    def _link(self, link: Link) -> LinkEntry:
        up = self._up(link.a, link.a_port) and self._up(link.b, link.b_port)
        usable = self._core.usable
        use = LinkUse.USED
        if not up or link.name in usable.down:
            use = LinkUse.DOWN
        elif link.name in usable.shunned:
            use = LinkUse.AVOIDED
        return LinkEntry(
            name=link.name,
            a=link.a,
            a_port=link.a_port,
            a_interface=link.a_interface,
            b=link.b,
            b_port=link.b_port,
            b_interface=link.b_interface,
            rate_bps=link.spec.rate_bps,
            delay_ns=link.spec.delay_ns,
            mtu_bytes=link.spec.mtu_bytes,
            up=up,
            use=use,
        )

    def _up(self, name: str, number: int) -> bool:
        dpid = self._fabric.by_name[name].dpid
        if dpid is None:
            return True  # what a host's interface does shows on the switch's side
        port = self._core.sessions[dpid].ports.get(number)
        return port is not None and port.up
