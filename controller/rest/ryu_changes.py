"""What can be changed below ``/stats``, as in Ryu 4.34's ``ofctl_rest``.

What is added so is the operator's own: it lives until the switch is next reconciled.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response
from controller.rest.routes import Route, Success
from controller.rest.ryu_bodies import (
    INSTRUCTIONS,
    PLAIN_ACTIONS,
    BucketBody,
    ExperimenterBody,
    FlowBody,
    GroupBody,
    MeterBody,
    PortBody,
    RoleBody,
    check_actions,
    check_match,
    parse,
)
from controller.rest.ryu_stats import TAG, connected
from controller.rest.validation import validated

_ENTRIES: tuple[tuple[str, str, type[BaseModel], tuple[str, ...]], ...] = (
    ("flowentry", "mod_flow_entry", FlowBody, ("add", "modify", "modify_strict", "delete", "delete_strict")),
    ("groupentry", "mod_group_entry", GroupBody, ("add", "modify", "delete")),
    ("meterentry", "mod_meter_entry", MeterBody, ("add", "modify", "delete")),
)
_PROBLEMS = (404, 409, 413, 422, 501, 503, 504)
_LIVES = "It is the operator's own, and lives until the switch is next reconciled."


class RyuChanges:
    """Changes switches through Ryu's own library."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """What is answered here."""
        done = {200: Success("The switch has done it.")}
        found = [
            self._route("POST", f"/stats/{name}/{command}", self._entry(function, model, command),
                        f"{command.replace('_', ', ').capitalize()} a {name.removesuffix('entry')} entry", model)
            for name, function, model, commands in _ENTRIES
            for command in commands
        ]  # fmt: skip
        found += [
            Route("DELETE", "/stats/flowentry/clear/{dpid}", self.clear, "Delete all flow entries of a switch", TAG,
                  done, writes=True, problems=_PROBLEMS),
            self._route("POST", "/stats/portdesc/modify", self.port, "Modify a port", PortBody),
            self._route("POST", "/stats/role", self.role, "Change this controller's role in a switch", RoleBody),
            self._route("POST", "/stats/experimenter/{dpid}", self.experimenter, "Send an experimenter message",
                        ExperimenterBody),
        ]  # fmt: skip
        return found

    @staticmethod
    def _route(method: str, path: str, handler: Any, summary: str, model: type[BaseModel]) -> Route:
        return Route(
            method,
            path,
            handler,
            summary,
            TAG,
            {200: Success("The switch has done it.")},
            body=model,
            writes=True,
            problems=_PROBLEMS,
            description=_LIVES,
        )

    def _entry(self, function: str, model: type[BaseModel], command: str) -> Any:
        def change(request: Request) -> Response:
            data = _read(request, model)
            number = connected(self._backend, str(data.pop("dpid")))
            self._backend.ofctl_change(number, function, data, command)
            return Response(200)

        return change

    def clear(self, request: Request, dpid: str) -> Response:
        """Delete all flow entries of a switch. They are put back when it is next reconciled."""
        del request
        number = connected(self._backend, dpid)
        self._backend.ofctl_change(number, "mod_flow_entry", {"table_id": "ALL"}, "delete")
        return Response(200)

    def port(self, request: Request) -> Response:
        """Modify a port."""
        data = _read(request, PortBody)
        number = connected(self._backend, str(data.pop("dpid")))
        ports = self._backend.ofctl_read(number, "get_port_desc")
        wanted = _number(data["port_no"])
        port = next((port for port in ports if _number(port["port_no"]) == wanted), None)
        if port is None:
            raise Problem(404, f"switch {number:#x} has no port {data['port_no']}")
        defaults = {"hw_addr": port["hw_addr"], "advertise": port["advertised"]}
        self._backend.ofctl_change(number, "mod_port_behavior", {**defaults, **data})
        return Response(200)

    def role(self, request: Request) -> Response:
        """Change this controller's role in a switch."""
        data = _read(request, RoleBody)
        number = connected(self._backend, str(data.pop("dpid")))
        self._backend.ofctl_change(number, "set_role", data)
        return Response(200)

    def experimenter(self, request: Request, dpid: str) -> Response:
        """Send an experimenter message."""
        data = _read(request, ExperimenterBody)
        data.pop("dpid", None)
        for key in ("experimenter", "exp_type"):
            if key in data:
                data[key] = _number(data[key])
        self._backend.ofctl_change(connected(self._backend, dpid), "send_experimenter", data)
        return Response(200)


def _read(request: Request, model: type[BaseModel]) -> dict[str, Any]:
    data = parse(request.body)
    found = validated(model, data)
    if isinstance(found, FlowBody):
        check_match(found.match)
        check_actions(found.actions, ("actions",), PLAIN_ACTIONS + INSTRUCTIONS)
    if isinstance(found, GroupBody):
        for index, bucket in enumerate(found.buckets):
            _check_bucket(bucket, index)
    cleaned: dict[str, Any] = _without_none(data)
    return cleaned


def _check_bucket(bucket: BucketBody, index: int) -> None:
    check_actions(bucket.actions, ("buckets", index, "actions"), PLAIN_ACTIONS)


def _without_none(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_none(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_none(value) for value in data]
    return data


def _number(value: object) -> object:
    """A port's number or name as Ryu's library takes and gives it, so that they can be compared."""
    try:
        return int(str(value), 0)
    except ValueError:
        return str(value).removeprefix("OFPP_").upper()
