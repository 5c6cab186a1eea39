"""What can be read below ``/stats``, in the shapes of Ryu 4.34's ``ofctl_rest``. Errors have RFC 9457 bodies."""

from __future__ import annotations

from typing import Any

from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, json_response, parse_integer
from controller.rest.parameters import parse_dpid
from controller.rest.routes import Route, Success
from controller.rest.ryu_bodies import FlowFilter, check_match, parse
from controller.rest.validation import validated

TAG = "ryu"
BY_DPID: dict[str, Any] = {"type": "object", "description": "The answer, under the datapath id as a decimal text."}
_ALL = "ALL"
_READ = (
    # resource, function, variables, whether a variable is given to the function, what it is
    ("desc", "get_desc_stats", (), "A switch's description of itself"),
    ("table", "get_table_stats", (), "Counters of tables"),
    ("tablefeatures", "get_table_features", (), "What tables can do"),
    ("port", "get_port_stats", ("port",), "Counters of ports"),
    ("queue", "get_queue_stats", ("port", "queue"), "Counters of queues"),
    ("queueconfig", "get_queue_config", ("port",), "How queues are set up"),
    ("queuedesc", "get_queue_desc", ("port", "queue"), "OpenFlow 1.4 and later, so 501"),
    ("meterfeatures", "get_meter_features", (), "What meters can do"),
    ("meterconfig", "get_meter_config", ("meter",), "How meters are set up"),
    ("meterdesc", "get_meter_desc", ("meter",), "OpenFlow 1.5 and later, so 501"),
    ("meter", "get_meter_stats", ("meter",), "Counters of meters"),
    ("groupfeatures", "get_group_features", (), "What groups can do"),
    ("groupdesc", "get_group_desc", ("group",), "What groups do"),
    ("group", "get_group_stats", ("group",), "Counters of groups"),
    ("portdesc", "get_port_desc", ("port",), "Descriptions of ports"),
    ("role", "get_role", (), "The role of this controller in the switch"),
)
_WITHOUT_ARGUMENTS = ("get_group_desc", "get_port_desc")
"""In OpenFlow 1.3 these always answer for all groups or ports, and Ryu ignores which one is asked for."""
_FILTERED = (
    ("flow", "get_flow_stats", "Flow entries"),
    ("flowdesc", "get_flow_stats", "Flow entries, as Ryu answers here too"),
    ("aggregateflow", "get_aggregate_flow_stats", "Sums over flow entries"),
)
_PROBLEMS = (404, 501, 503, 504)


class RyuStats:
    """Answers by asking switches through Ryu's own library."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        switches = {"type": "array", "items": {"type": "integer"}}
        found = [
            Route("GET", "/stats/switches", self.switches, "Datapath ids of connected switches", TAG,
                  {200: Success("The datapath ids.", switches)})
        ]  # fmt: skip
        for name, function, variables, summary in _READ:
            for count in range(len(variables) + 1):
                path = "".join(f"/{{{variable}}}" for variable in ("dpid", *variables[:count]))
                found.append(
                    Route("GET", f"/stats/{name}{path}", self._reader(function), summary, TAG,
                          {200: Success("The answer.", BY_DPID)}, problems=_PROBLEMS)
                )  # fmt: skip
        for name, function, summary in _FILTERED:
            for method in ("GET", "POST"):
                found.append(
                    Route(method, f"/stats/{name}/{{dpid}}", self._filtered(function), summary, TAG,
                          {200: Success("The answer.", BY_DPID)}, problems=(*_PROBLEMS, 413, 422),
                          body=FlowFilter if method == "POST" else None)
                )  # fmt: skip
        return found

    def switches(self, request: Request) -> Response:
        """Datapath ids of connected switches."""
        del request
        return json_response(self._backend.connected())

    def _reader(self, function: str) -> Any:
        def read(request: Request, dpid: str, **variables: str) -> Response:
            del request
            number = connected(self._backend, dpid)
            arguments = [_wanted(name, text) for name, text in variables.items()]
            if function in _WITHOUT_ARGUMENTS:
                arguments = []
            answer = self._backend.ofctl_read(number, function, *arguments)
            wanted = variables.get("port", _ALL)
            if function == "get_port_stats" and wanted != _ALL and not answer:
                raise Problem(404, f"switch {number:#x} has no port {wanted}")
            return json_response({str(number): answer})

        return read

    def _filtered(self, function: str) -> Any:
        def read(request: Request, dpid: str) -> Response:
            number = connected(self._backend, dpid)
            chosen: dict[str, Any] = {}
            if request.body.strip():
                data = parse(request.body)
                model = validated(FlowFilter, data)
                check_match(model.match)
                chosen = {key: value for key, value in data.items() if value is not None}
            return json_response({str(number): self._backend.ofctl_read(number, function, chosen)})

        return read


def connected(backend: Backend, text: str) -> int:
    """The datapath id of a connected switch.

    Raises:
        Problem: It is none, or the switch is not connected.
    """
    dpid = parse_dpid(text)
    if dpid not in backend.connected():
        raise Problem(404, f"no switch with the datapath id {dpid:#x} is connected")
    return dpid


def _wanted(name: str, text: str) -> str | None:
    if text == _ALL:
        return None
    value = parse_integer(text)
    if value is None or value >= 1 << 32:
        raise Problem(400, f"a {name} is a number or ALL, not {text[:80]!r}")
    return str(value)
