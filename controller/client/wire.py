"""One request and its answer."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from controller.client.errors import NotListening, refusal
from emulator.errors import ControllerError

_HIGHEST_SUCCESS = 299


@dataclass(frozen=True)
class Answer:
    """What a controller answered.

    Attributes:
        status: HTTP status, 200 to 299.
        body: Its JSON; None: there is none.
        headers: Names in lower case.
    """

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str | None:
        """The resource's version, to be given as ``if_match`` later."""
        return self.headers.get("etag")

    @property
    def created(self) -> bool:
        """Whether the request made a new resource."""
        return self.status == http.client.CREATED


class Wire:
    """Where a controller is, and how it is asked.

    Args:
        url: Its REST address, for example ``http://127.0.0.1:8080``.
        token: Bearer token, or None.

    Raises:
        ControllerError: The address or the token is none.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            self._host, self._port = parts.hostname or "", parts.port or 80
        except ValueError:
            self._host = ""
        if parts.scheme != "http" or not self._host or parts.path.strip("/"):
            raise ControllerError(f"{url!r} is not the address of a controller, like http://127.0.0.1:8080")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise ControllerError("the bearer token has characters that no token has")
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(
        self, method: str, target: str, body: object = None, headers: Mapping[str, str] = {}, timeout_s: float = 30.0
    ) -> Answer:
        """Send a request and return its answer.

        Raises:
            NotListening: Nobody is there.
            Refusal: The controller answered with a problem.
            ControllerError: It cannot be reached, or answers what no controller would.
        """
        sent = dict(headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection = self.connection(timeout_s)
        try:
            response = self.begin(connection, method, target, data, sent)
            return self._read(target, response, empty=method != "GET")
        except (OSError, http.client.HTTPException) as error:
            raise self.broken(target, error) from None
        finally:
            connection.close()

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is not open yet."""
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def begin(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        """Send a request and read the head of its answer. Raises: NotListening, OSError, HTTPException."""
        try:
            connection.request(method, target, data, {**self._headers, **headers})
        except ConnectionRefusedError:
            raise NotListening(f"{self.url}: nobody listens there") from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was said: the answer is there all the same
        return connection.getresponse()

    def broken(self, target: str, error: Exception) -> ControllerError:
        """What to say when a connection fails."""
        return ControllerError(f"{self.where(target)}: {error or type(error).__name__}")

    def where(self, target: str) -> str:
        """The address of a resource without its parameters, for messages."""
        return self.url + target.partition("?")[0]

    def _read(self, target: str, response: http.client.HTTPResponse, *, empty: bool) -> Answer:
        text = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        try:
            data = None if not text and (empty or response.status != http.client.OK) else json.loads(text)
        except ValueError:
            raise ControllerError(f"{self.where(target)}: the answer is not JSON") from None
        if not http.client.OK <= response.status <= _HIGHEST_SUCCESS:
            raise refusal(self.where(target), response.status, data, text, headers)
        return Answer(response.status, data, headers)

    def refused(self, target: str, response: http.client.HTTPResponse) -> ControllerError:
        """What a response says that is no success, or not what was asked for."""
        try:
            self._read(target, response, empty=False)
        except ControllerError as error:
            return error
        return ControllerError(f"{self.where(target)}: the answer is not a stream of events")
