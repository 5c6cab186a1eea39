"""``/v1.0/topology``, in the shapes of Ryu 4.34's ``rest_topology``.

Links and hosts come from the fabric's description rather than from what was overheard.
"""

from __future__ import annotations

import re
from typing import Any

from controller.core import State
from controller.events import Port
from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.routes import Route, Success

_DPID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_PORT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("dpid", "port_no", "hw_addr", "name")},
    "required": ["dpid", "port_no", "hw_addr", "name"],
    "additionalProperties": False,
}


def _list_of(properties: dict[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "array", "items": item}


_TEXTS = {"type": "array", "items": {"type": "string"}}
_SWITCHES = _list_of({"dpid": {"type": "string"}, "ports": {"type": "array", "items": _PORT}})
_LINKS = _list_of({"src": _PORT, "dst": _PORT})
_HOSTS = _list_of({"mac": {"type": "string"}, "ipv4": _TEXTS, "ipv6": _TEXTS, "port": _PORT})


class RyuTopology:
    """Answers from the core's state."""

    def __init__(self, backend: Backend) -> None:
        self._core = backend.core
        self._fabric = backend.core.plan.fabric

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                f"/v1.0/topology/{name}{suffix}",
                handler,
                summary,
                "ryu",
                {200: Success("They.", schema)},
                problems=(404,) if suffix else (),
            )
            for name, handler, summary, schema in (
                ("switches", self.switches, "Connected switches with their ports", _SWITCHES),
                ("links", self.links, "Links between connected switches, once for each direction", _LINKS),
                ("hosts", self.hosts, "Hosts behind ports that are up", _HOSTS),
            )
            for suffix in ("", "/{hex_dpid}")
        ]

    def switches(self, request: Request, hex_dpid: str | None = None) -> Response:
        """Connected switches with their ports."""
        del request
        only = _number(hex_dpid)
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

    def links(self, request: Request, hex_dpid: str | None = None) -> Response:
        """Links between connected switches, once for each direction."""
        del request
        only = _number(hex_dpid)
        links = []
        for link in self._fabric.links:
            ends = [self._end(link.a, link.a_port), self._end(link.b, link.b_port)]
            for (source_dpid, source), (target_dpid, target) in (ends, ends[::-1]):
                if source and target and only in (None, source_dpid):
                    links.append({"src": _port(source_dpid, source), "dst": _port(target_dpid, target)})
        return json_response(links)

    def hosts(self, request: Request, hex_dpid: str | None = None) -> Response:
        """Hosts behind ports that are up."""
        del request
        only = _number(hex_dpid)
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


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not _DPID.fullmatch(text):
        raise Problem(404, "a datapath id here has 16 hexadecimal digits in lower case")
    return int(text, 16)


def _port(dpid: int, port: Port) -> dict[str, Any]:
    return {"dpid": f"{dpid:016x}", "port_no": f"{port.number:08x}", "hw_addr": port.mac, "name": port.name}
