"""Asks a running controller over REST, with the standard library alone.

Waiting is done by the controller: the client blocks in one request until everything is ready, so that nothing polls
and, in virtual time, nothing spins.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import Any
from urllib.parse import urlencode, urlsplit

from controller.rest.http import MOST_WAIT_MS
from emulator.errors import ControllerError

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_CONNECT_PAUSE_S = 0.01
_ANSWER_TIMEOUT_S = 30.0


class NotListening(ControllerError):
    """Nobody listens at the controller's address."""


class ControllerClient:
    """One controller.

    Args:
        url: Its REST address, for example ``http://127.0.0.1:8080``.

    Raises:
        ControllerError: The address is not one. Every method raises it too, when the controller cannot be reached or
            answers with a problem.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            self._host, self._port = parts.hostname or "", parts.port or 80
        except ValueError:
            self._host = ""
        if parts.scheme != "http" or not self._host or parts.path.strip("/"):
            raise ControllerError(f"{url!r} is not the address of a controller, like http://127.0.0.1:8080")
        self.url = url.rstrip("/")

    def get(self, path: str, timeout_s: float = _ANSWER_TIMEOUT_S, **query: str | int) -> Any:
        """Read a resource and return its JSON."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            status, body = self._request(target, timeout_s)
        except ConnectionRefusedError:
            raise NotListening(f"{self.url}: nobody listens there") from None
        except (OSError, http.client.HTTPException) as error:
            raise ControllerError(f"{self.url}{path}: {error or type(error).__name__}") from None
        try:
            data = json.loads(body)
        except ValueError:
            raise ControllerError(f"{self.url}{path}: the answer is not JSON") from None
        if status != http.client.OK:
            detail = data.get("detail") if isinstance(data, dict) else None
            raise ControllerError(f"{self.url}{path}: {status} {detail or repr(body[:200])}")
        return data

    def _request(self, target: str, timeout_s: float) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        try:
            connection.request("GET", target)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

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

    def paths(
        self, source: str, target: str, *, protocol: str = "icmp", port: int | None = None, installed: bool = False
    ) -> dict[str, Any]:
        """The way between two hosts and back, as planned or as installed."""
        asked = {"src": source, "dst": target, "protocol": protocol, "source": "installed" if installed else "plan"}
        if port is not None:
            asked["port"] = str(port)
        data: dict[str, Any] = self.get("/v1/paths", _ANSWER_TIMEOUT_S, **asked)
        return data

    def health(self) -> dict[str, Any]:
        """Whether everything is as planned."""
        data: dict[str, Any] = self.get("/v1/health")
        return data


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
