"""Asks a controller, and changes what it holds.

Waiting is done by the controller: the client blocks in one request until everything is ready, so that nothing polls
and, in virtual time, nothing spins.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from controller.client.errors import NotListening
from controller.client.stream import PATIENCE_S, EventStream
from controller.client.wire import Answer, Wire
from controller.rest.http import MOST_WAIT_MS
from emulator.errors import ControllerError

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_CONNECT_PAUSE_S = 0.01
_ANSWER_TIMEOUT_S = 30.0
_PAGE = 100


class ControllerClient:
    """One controller.

    Args:
        url: Its REST address, for example ``http://127.0.0.1:8080``.
        token: Bearer token, if the controller wants one.

    Raises:
        ControllerError: The address is not one. Every method raises it too: `NotListening` when nobody is there,
            a `Refusal` when the controller answers with a problem.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._wire = Wire(url, token)
        self.url = self._wire.url

    def get(self, path: str, timeout_s: float = _ANSWER_TIMEOUT_S, **query: str | int) -> Any:
        """Read a resource and return its JSON."""
        return self.read(path, timeout_s, **query).body

    def read(self, path: str, timeout_s: float = _ANSWER_TIMEOUT_S, **query: str | int) -> Answer:
        """Read a resource together with its version."""
        return self._wire.ask("GET", _target(path, query), timeout_s=timeout_s)

    def put(
        self, path: str, body: object, *, if_match: str | None = None, only_create: bool = False, wait_s: float = 0
    ) -> Answer:
        """Create a resource, or replace it.

        Args:
            path: The resource.
            body: What it is to be, JSON-like.
            if_match: The ``etag`` of the version that is to be replaced.
            only_create: Refuse if there is one already, whatever it is like.
            wait_s: For how long, in seconds, to wait afterwards until all switches have it; 0: do not wait.

        Raises:
            VersionNeeded: It exists, and is different, and no version was given.
            Outdated: It has another version than that, or exists already.
            ControllerError: Anything else; after waiting in vain, too.
        """
        headers = {"If-None-Match": "*"} if only_create else {}
        if if_match is not None:
            headers["If-Match"] = if_match
        answer = self._wire.ask("PUT", path, body, headers)
        if wait_s:
            self.settled(wait_s)
        return answer

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """Delete a resource. Raises: NotFound, Conflict: it is in use, Outdated: it has another version."""
        self._wire.ask("DELETE", path, headers={} if if_match is None else {"If-Match": if_match})

    def post(self, path: str, body: object) -> Answer:
        """Send something to a resource that takes it, like ``/stats/flowentry/add``."""
        return self._wire.ask("POST", path, body)

    def items(self, path: str, limit: int = _PAGE) -> Iterator[dict[str, Any]]:
        """All items of a collection (``name``, ``version``, ``url``, ``resource``), a page at a time."""
        target = _target(path, {"limit": limit})
        while target:
            page = self._wire.ask("GET", target).body
            yield from page["items"]
            target = page.get("next") or ""

    def events(
        self, *, after: int | None = None, kinds: Collection[str] = (), patience_s: float = PATIENCE_S
    ) -> EventStream:
        """Events as they happen; what the arguments mean is said in `EventStream`."""
        return EventStream(self._wire, after, kinds, patience_s)

    def settled(self, timeout_s: float) -> None:
        """Wait until all switches have what was declared. Raises: ControllerError: not in time."""
        health = self.get("/v1/health", timeout_s + _ANSWER_TIMEOUT_S, wait_ms=min(MOST_WAIT_MS, int(timeout_s * 1000)))
        if not health["ready"]:
            raise ControllerError(f"{self.url} is not ready after {timeout_s:g} s: {'; '.join(health['problems'][:5])}")

    def topology(self) -> dict[str, Any]:
        """Nodes, links, services."""
        data: dict[str, Any] = self.get("/v1/topology")
        return data

    def counters(self) -> dict[str, Any]:
        """Fresh port counters of all switches: ``ports``, and sums by the peer's role: ``roles``."""
        data: dict[str, Any] = self.get("/v1/counters")
        return data

    def flows(self) -> list[dict[str, Any]]:
        """Installed flow entries of all switches with their counters."""
        data: list[dict[str, Any]] = self.get("/v1/flows")["flows"]
        return data

    def gateway_flows(self, name: str, *, tenant: int | None = None, limit: int = _PAGE) -> Iterator[dict[str, Any]]:
        """All flows of a gateway (of a tenant), a page at a time."""
        query = {"limit": limit} if tenant is None else {"limit": limit, "tenant": tenant}
        target = _target(f"/v1/gateways/{name}/flows", query)
        while target:
            page = self._wire.ask("GET", target).body
            yield from page["flows"]
            target = page["next"] or ""

    def install_flows(self, name: str, flows: Sequence[Mapping[str, Any]]) -> int:
        """Decide about flows of a gateway (``key``, ``allow``, ``next_hop``, …); how many it knows afterwards."""
        count: int = self.post(f"/v1/gateways/{name}/flows", {"flows": list(flows)}).body["flows"]
        return count

    def delete_flows(self, name: str, key: Mapping[str, str | int] | None = None) -> int:
        """Have a gateway forget a flow, or all; how many there were. Raises: NotFound: it knows no such flow."""
        target = _target(f"/v1/gateways/{name}/flows", dict(key or {}))
        count: int = self._wire.ask("DELETE", target).body["deleted"]
        return count

    def paths(
        self, source: str, target: str, *, protocol: str = "icmp", port: int | None = None, installed: bool = False
    ) -> dict[str, Any]:
        """The way between two hosts and back, as planned or as installed."""
        asked = {"src": source, "dst": target, "protocol": protocol, "source": "installed" if installed else "plan"}
        if port is not None:
            asked["port"] = str(port)
        data: dict[str, Any] = self.get("/v1/paths", _ANSWER_TIMEOUT_S, **asked)
        return data

    def reachability(
        self, source: str, target: str, *, protocol: str = "tcp", port: int | None = None
    ) -> dict[str, Any]:
        """Whether a host may open a connection, and why."""
        asked: dict[str, str | int] = {"src": source, "dst": target, "protocol": protocol}
        if port is not None:
            asked["port"] = port
        data: dict[str, Any] = self.get("/v1/reachability", _ANSWER_TIMEOUT_S, **asked)
        return data

    def health(self) -> dict[str, Any]:
        """Whether everything is as planned."""
        data: dict[str, Any] = self.get("/v1/health")
        return data


def _target(path: str, query: Mapping[str, str | int]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def wait_ready(url: str, expected_switches: int, timeout_ns: int) -> ControllerClient:
    """Wait until a controller listens, has all its switches, and all planned rules are verified in them.

    Args:
        url: REST address.
        expected_switches: Switches that the controller must have; guards against another controller on the port.
        timeout_ns: At most this long, on this machine's (virtual) clock.

    Returns:
        A client for it.

    Raises:
        ControllerError: It is not ready in time; names what is missing.
    """
    client = ControllerClient(url)
    deadline_ns = time.monotonic_ns() + timeout_ns
    problem = "it does not listen"
    while (left_ns := deadline_ns - time.monotonic_ns()) > 0:
        wait_ms = max(1, min(MOST_WAIT_MS, left_ns // _NS_PER_MS))
        try:
            health = client.get("/v1/health", wait_ms / 1000 + _ANSWER_TIMEOUT_S, wait_ms=wait_ms)
        except NotListening:
            # The controller may still be starting. Nobody is there yet who could wait for us, so this is asked again.
            time.sleep(min(_CONNECT_PAUSE_S, left_ns / _NS_PER_S))
            continue
        expected = health["switches"]["expected"]
        if expected != expected_switches:
            raise ControllerError(f"{client.url} is a controller of {expected} switches, not of {expected_switches}")
        if health["ready"]:
            return client
        problem = "; ".join(health["problems"][:5])
    raise ControllerError(f"{client.url} is not ready after {timeout_ns / _NS_PER_S:g} s: {problem}")
