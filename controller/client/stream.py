"""Events as they happen (server-sent events), without gaps also when the connection is lost."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from controller.client.errors import NotListening, Unavailable
from controller.client.wire import Wire
from emulator.errors import ControllerError

EVENT_STREAM = "text/event-stream"
SILENCE_S = 45.0
"""A connection without anything for so long is given up; the controller sends heartbeats more often."""
PATIENCE_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_MOST_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        kind: What it is about; ``missed``: the controller forgot events before they could be sent.
        number: Its number; 0 for ``missed``.
        message: One line for people.
        severity: ``info`` or ``warning``.
        time_ns: When, in ns since 1970 on the controller's clock.
        fields: The same for programs; of ``missed``: how many there were.
    """

    kind: str
    number: int = 0
    message: str = ""
    severity: str = "info"
    time_ns: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


class EventStream:
    """An endless iterator of events; a context manager that closes the connection.

    A lost connection is made anew, and the controller is asked to go on after the last event that came.

    Args:
        wire: The controller.
        after: Begin after the event with this number; None: with what happens from now on.
        kinds: Only these; none: all.
        patience_s: For how long to try to reach a controller again that was lost, in seconds.

    Raises:
        ControllerError: The controller cannot be reached, or refuses. The iterator raises it too, once a lost
            controller did not come back in time, or refuses to go on.
    """

    def __init__(
        self, wire: Wire, after: int | None = None, kinds: Collection[str] = (), patience_s: float = PATIENCE_S
    ) -> None:
        self._wire = wire
        query: dict[str, str | int] = {"kind": ",".join(sorted(kinds))} if kinds else {}
        if after is not None:
            query["after"] = after
        self._target = "/v1/events" + (f"?{urlencode(query)}" if query else "")
        self._patience_s = patience_s
        self._connection: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None
        self._closed = False
        self._last_id = ""
        try:
            self._open()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise wire.broken(self._target, error) from None

    def __enter__(self) -> EventStream:
        """Use it until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        """The events."""
        return self

    def __next__(self) -> Event:
        """Wait for the next event. Raises: ControllerError, StopIteration: it was closed."""
        while not self._closed:
            try:
                if self._response is None:
                    self._reopen()
                    continue
                event = self._read()
            except (OSError, http.client.HTTPException):
                event = None
            except ControllerError:
                self.close()
                raise
            if event is None:
                self._drop()
                continue
            return event
        raise StopIteration

    def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        for one in (self._response, self._connection):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.close()
        self._response = self._connection = None

    def _open(self) -> None:
        self._connection = self._wire.connection(SILENCE_S)
        headers = {"Accept": EVENT_STREAM}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        response = self._wire.begin(self._connection, "GET", self._target, None, headers)
        kind = (response.getheader("Content-Type") or "").partition(";")[0]
        if response.status != http.client.OK or kind != EVENT_STREAM:
            error = self._wire.refused(self._target, response)
            self._drop()
            raise error
        self._response = response

    def _reopen(self) -> None:
        end_s = time.monotonic() + self._patience_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return self._open()
            except (NotListening, Unavailable) as error:
                # The controller may be starting again; nobody is there who could tell us when it has.
                problem: ControllerError = error
            except (OSError, http.client.HTTPException) as error:
                problem = self._wire.broken(self._target, error)
            self._drop()
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise problem
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _read(self) -> Event | None:
        """The next event; None: the connection ended."""
        response = self._response
        fields: dict[str, str] = {}
        while response is not None:
            line = response.readline(_MOST_LINE_BYTES)
            if not line.endswith(b"\n"):
                return None
            text = line.rstrip(b"\r\n").decode("utf-8", "replace")
            if text:
                name, _, value = text.partition(":")
                value = value.removeprefix(" ")
                fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
            elif "data" in fields:
                self._last_id = fields.get("id", self._last_id)
                return self._event(fields)
            else:
                fields = {}  # a heartbeat
        return None

    def _event(self, fields: dict[str, str]) -> Event:
        try:
            data = json.loads(fields["data"])
            kind = fields.get("event", "message")
            if kind == "missed":
                return Event(kind, fields=dict(data))
            return Event(kind, data["number"], data["message"], data["severity"], data["time_ns"], dict(data["fields"]))
        except (ValueError, TypeError, KeyError):
            raise ControllerError(f"{self._wire.where(self._target)}: sends what is no event") from None
