"""The read-only part of Ryu's own REST resources, in Ryu's shapes, so that scripts written for it keep working.

Shapes as in Ryu 4.34's ``ofctl_rest`` and ``rest_topology``. Differences: errors have RFC 9457 bodies, and links and
hosts come from the fabric's description rather than from what was overheard.
"""

from __future__ import annotations

import re
from typing import Any

from controller.core import State
from controller.events import Port
from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, Router, json_response, parse_integer

_DPID = re.compile(r"[0-9a-f]{16}")


class RyuShapes:
    """Answers requests from the core's state and the switches' counters."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._core = backend.core
        self._fabric = backend.core.plan.fabric

    def add_to(self, router: Router) -> None:
        """Add all resources."""
        router.add("/stats/switches", self.switches)
        router.add("/stats/desc/{dpid}", self.desc)
        router.add("/stats/flow/{dpid}", self.flow)
        router.add("/stats/port/{dpid}", self.port)
        router.add("/stats/port/{dpid}/{port}", self.port)
        for name, resource in (
            ("switches", self.topology_switches),
            ("links", self.topology_links),
            ("hosts", self.topology_hosts),
        ):
            router.add(f"/v1.0/topology/{name}", resource)
            router.add(f"/v1.0/topology/{name}/{{dpid}}", resource)

    def switches(self, request: Request) -> Response:
        """Datapath ids of connected switches."""
        request.known()
        return json_response(self._backend.connected())

    def desc(self, request: Request, dpid: str) -> Response:
        """A switch's description."""
        request.known()
        number = self._connected(dpid)
        return json_response({str(number): self._backend.description(number)})

    def flow(self, request: Request, dpid: str) -> Response:
        """A switch's flow entries."""
        request.known()
        number = self._connected(dpid)
        return json_response({str(number): [stat.ryu for stat in self._backend.flows(number)]})

    def port(self, request: Request, dpid: str, port: str = "ALL") -> Response:
        """Counters of a switch's ports, or of one."""
        request.known()
        number = self._connected(dpid)
        wanted = None if port == "ALL" else parse_integer(port)
        if wanted is None and port != "ALL":
            raise Problem(400, f"a port is a number or ALL, not {port[:80]!r}")
        stats = [stat for stat in self._backend.ports(number) if wanted in (None, stat.port)]
        if wanted is not None and not stats:
            raise Problem(404, f"switch {number:#x} has no port {wanted}")
        return json_response({str(number): [stat.ryu for stat in stats]})

    def _connected(self, text: str) -> int:
        dpid = parse_integer(text)
        if dpid is None or dpid >= 1 << 64:
            raise Problem(400, f"a datapath id is decimal or 0x hexadecimal, not {text[:80]!r}")
        if dpid not in self._backend.connected():
            raise Problem(404, f"no switch with the datapath id {dpid:#x} is connected")
        return dpid

    def topology_switches(self, request: Request, dpid: str | None = None) -> Response:
        """Connected switches with their ports."""
        request.known()
        only = _hex_dpid(dpid)
        return json_response(
            [
                {
                    "dpid": f"{session.dpid:016x}",
                    "ports": [_port(session.dpid, port) for port in session.ports.values()],
                }
                for session in self._core.sessions.values()
                if session.state is not State.ABSENT and only in (None, session.dpid)
            ]
        )

    def topology_links(self, request: Request, dpid: str | None = None) -> Response:
        """Links between connected switches, once for each direction."""
        request.known()
        only = _hex_dpid(dpid)
        links = []
        for link in self._fabric.links:
            ends = [self._end(link.a, link.a_port), self._end(link.b, link.b_port)]
            for (source_dpid, source), (target_dpid, target) in (ends, ends[::-1]):
                if source and target and only in (None, source_dpid):
                    links.append({"src": _port(source_dpid, source), "dst": _port(target_dpid, target)})
        return json_response(links)

    def topology_hosts(self, request: Request, dpid: str | None = None) -> Response:
        """Hosts behind ports that are up."""
        request.known()
        only = _hex_dpid(dpid)
        hosts = []
        for name, attachment in self._core.plan.routes.attachments.items():
            node = self._fabric.by_name[name]
            number, port = self._end(attachment.switch, attachment.port)
            if port is not None and only in (None, number):
                addresses = [str(node.ip.ip)] if node.ip else []
                hosts.append({"mac": node.mac, "ipv4": addresses, "ipv6": [], "port": _port(number, port)})
        return json_response(hosts)

    def _end(self, name: str, number: int) -> tuple[int, Port | None]:
        dpid = self._fabric.by_name[name].dpid
        if dpid is None:
            return 0, None
        port = self._core.sessions[dpid].ports.get(number)
        return dpid, port if port is not None and port.up else None


def _hex_dpid(text: str | None) -> int | None:
    if text is None:
        return None
    if not _DPID.fullmatch(text):
        raise Problem(404, "a datapath id here has 16 hexadecimal digits in lower case")
    return int(text, 16)


def _port(dpid: int, port: Port) -> dict[str, Any]:
    return {"dpid": f"{dpid:016x}", "port_no": f"{port.number:08x}", "hw_addr": port.mac, "name": port.name}
