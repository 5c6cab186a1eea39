"""``/v1/events``: what happened lately, as JSON or, as it happens, as server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from controller.journal import Entry, Journal, Kind
from controller.rest.backend import Backend
from controller.rest.http import Problem, Request, Response, json_response
from controller.rest.paging import LIMIT, linked, read_limit
from controller.rest.parameters import Integer, Parameter, Words
from controller.rest.routes import Route, Success
from controller.rest.schemas.state import Event, Events

EVENT_STREAM = "text/event-stream"
AFTER = Integer("after", "Only events with a greater number.")
KIND = Words(
    "kind",
    "Only events of these kinds, with commas between them.",
    choices=tuple(kind.value for kind in Kind),
    example="violation,link",
)
LAST_EVENT_ID = Parameter("Last-Event-ID", "Resumes a stream after this event.", where="header")
_MOST_AT_ONCE = 100
_MASK = (1 << 64) - 1
_ID = re.compile(r"([0-9]{1,18})(?:-([0-9a-f]{1,16}))?", re.ASCII)
"""An event's number and, so that it is known of which life of the controller, the time of the first event."""


@dataclass
class Follow:
    """A stream of events: where it is. What is sent is taken from the journal, so a slow reader costs no memory.

    Attributes:
        journal: What is followed.
        after: Number of the last event that was looked at.
        kinds: Only these; None: all.
    """

    journal: Journal
    after: int
    kinds: Collection[Kind] | None

    def chunks(self) -> Iterator[bytes]:
        """What has not been sent yet, in pieces that fit into memory easily."""
        while self.after < self.journal.last:
            missed = self.journal.first - self.after - 1
            if missed > 0:
                self.after += missed
                yield f"event: missed\ndata: {json.dumps({'missed': missed})}\n\n".encode()
            entries = self.journal.since(self.after, self.kinds, _MOST_AT_ONCE)
            self.after = entries[-1].number if len(entries) == _MOST_AT_ONCE else self.journal.last
            if entries:
                yield b"".join(_sent(entry, _life(self.journal)) for entry in entries)


def _life(journal: Journal) -> str:
    """Tells events of one life of a controller from those of another."""
    return f"{journal.origin_ns & _MASK:x}"


def _sent(entry: Entry, life: str) -> bytes:
    data = _event(entry).model_dump_json()
    return f"id: {entry.number}-{life}\nevent: {entry.kind.value}\ndata: {data}\n\n".encode()


def _event(entry: Entry) -> Event:
    return Event(
        number=entry.number,
        time_ns=entry.time_ns,
        kind=entry.kind.value,
        severity=entry.severity.value,
        message=entry.message,
        fields=json.loads(json.dumps(entry.fields, default=str)),
    )


class EventResource:
    """Answers from the journal."""

    def __init__(self, backend: Backend) -> None:
        self._journal = backend.journal

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route(
                "GET",
                "/v1/events",
                self.events,
                "What happened lately, and a stream of what happens",
                "controller",
                {
                    200: Success(
                        "The events.", Events, headers={"Link": "The address of later events."}, also=EVENT_STREAM
                    )
                },
                parameters=(AFTER, LIMIT, KIND, LAST_EVENT_ID),
                problems=(503,),
                description=f"With `Accept: {EVENT_STREAM}` the answer is a stream of server-sent events: `id` begins "
                "with the event's number, `event` is its kind, `data` the event as in the JSON answer. "
                "`Last-Event-ID` resumes, also at a controller that has been started again since: then with its first "
                "event. An event `missed` says how many were forgotten before they could be sent.",
            )
        ]

    def events(self, request: Request) -> Response:
        """Events, or a stream of them."""
        names = KIND.read(request)
        kinds = None if names is None else frozenset(Kind(name) for name in names)
        after = AFTER.read(request)
        if _wants_stream(request.headers.get("accept", "")):
            resumed = self._resumed(request)
            start = min(after, self._journal.last) if after is not None else self._journal.last
            if resumed is not None:
                start = resumed
            follow = Follow(self._journal, start, kinds)
            return Response(200, content_type=EVENT_STREAM, headers={"Cache-Control": "no-store"}, follow=follow)
        limit = read_limit(request)
        entries = self._journal.since(after or 0, kinds, limit)
        url = None
        if len(entries) == limit and entries[-1].number < self._journal.last:
            url = f"{request.path}?{urlencode({**request.query, AFTER.name: entries[-1].number})}"
        answer = Events(
            events=tuple(map(_event, entries)), first=self._journal.first, last=self._journal.last, next=url
        )
        return linked(json_response(answer), url)

    def _resumed(self, request: Request) -> int | None:
        """Number of the last event that a client has seen; 0 if that was of a controller that has ended since."""
        text = request.headers.get("last-event-id")
        if not text:
            return None
        found = _ID.fullmatch(text)
        if found is None:
            raise Problem(400, f"Last-Event-ID is the id of an event, not {text[:80]!r}", parameter="Last-Event-ID")
        number = int(found[1])
        other = found[2] is not None and found[2] != _life(self._journal)
        return 0 if other or number > self._journal.last else number


def _wants_stream(accept: str) -> bool:
    return any(part.split(";")[0].strip().lower() == EVENT_STREAM for part in accept.split(","))
