"""Events as JSON and as streams: where they begin, what is left out, and that a slow reader costs nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.journal import Journal, Kind
from controller.rest.api import Api
from controller.rest.events import Follow
from tests.support.controller_backend import FakeBackend, fill

STREAM = {"accept": "text/event-stream"}


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend(journal=Journal(capacity=50))
    fill(backend.journal, 10)
    return backend


def get(backend: FakeBackend, target: str) -> Any:
    response = Api(backend).answer("GET", target)
    assert response.status == 200, response.body
    return json.loads(response.body)


def follow(backend: FakeBackend, target: str = "/v1/events", **headers: str) -> Follow:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    response = Api(backend).answer("GET", target, {**STREAM, **sent})
    assert response.status == 200, response.body
    assert response.content_type == "text/event-stream"
    assert response.follow is not None
    return response.follow


def sent(followed: Follow) -> list[dict[str, str]]:
    """All that a stream would send now, as the fields of its events."""
    text = b"".join(followed.chunks()).decode()
    events = [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.split("\n\n") if part]
    for event in events:
        if "id" in event:
            event["id"], _, life = event["id"].partition("-")
            assert int(life, 16) == followed.journal.origin_ns
    return events


def test_pages_of_events(backend: FakeBackend) -> None:
    """Pages follow each other without gaps until there are no more."""
    numbers: list[int] = []
    url = "/v1/events?limit=3&kind=link,violation"
    while url:
        page = get(backend, url)
        numbers += [event["number"] for event in page["events"]]
        url = page["next"]
    assert numbers == list(range(1, 11))
    assert (page["first"], page["last"]) == (1, 10)
    assert page["events"][0] == {
        "number": 10,
        "time_ns": 9,
        "kind": "violation",
        "severity": "warning",
        "message": "event 9",
        "fields": {"port": 9},
    }


def test_kinds_and_beginnings(backend: FakeBackend) -> None:
    """Only some kinds, only later ones, and nothing after the last."""
    assert [event["number"] for event in get(backend, "/v1/events?kind=link&after=5")["events"]] == [7, 9]
    assert get(backend, "/v1/events?after=10") | {"events": 0} == {"events": 0, "first": 1, "last": 10, "next": None}
    assert get(backend, "/v1/events?after=999")["events"] == []
    assert get(backend, "/v1/events?kind=tenancy")["events"] == []


def test_a_stream_begins_now_unless_told_otherwise(backend: FakeBackend) -> None:
    """From now on; after a number; after the last event that a client has seen."""
    now = follow(backend)
    assert sent(now) == []
    backend.journal.add(5, Kind.PATHS, "two\nlines", what={"a": {1}})
    [event] = sent(now)
    assert (event["id"], event["event"]) == ("11", "paths")
    assert json.loads(event["data"])["message"] == "two lines"
    assert sent(now) == []
    assert [event["id"] for event in sent(follow(backend, "/v1/events?after=8"))] == ["9", "10", "11"]
    assert [event["id"] for event in sent(follow(backend, "/v1/events?after=2", last_event_id="9"))] == ["10", "11"]
    assert [event["id"] for event in sent(follow(backend, "/v1/events?kind=violation", last_event_id="7"))] == [
        "8",
        "10",
    ]
    # A number from another life of the controller: all that happened in this one is new.
    future = follow(backend, last_event_id="4000")
    backend.journal.add(6, Kind.PATHS, "next")
    assert [event["id"] for event in sent(future)] == [str(number) for number in range(1, 13)]
    assert sent(follow(backend, "/v1/events?after=4000")) == []


def test_ids_say_which_life_of_the_controller_they_are_of(backend: FakeBackend) -> None:
    """After a restart numbers begin anew, so an id of before resumes with the first event."""
    journal = Journal()
    journal.epoch_ns = 5000
    fill(journal, 20)
    [piece] = Follow(journal, 0, None).chunks()
    last = piece.decode().rpartition("id: ")[2].partition("\n")[0]
    assert last == "20-1388"
    assert [event["id"] for event in sent(follow(backend, last_event_id="8-1388"))] == [str(n) for n in range(1, 11)]
    assert [event["id"] for event in sent(follow(backend, last_event_id="8-0"))] == ["9", "10"]


def test_what_was_forgotten_is_said(backend: FakeBackend) -> None:
    """A reader that fell behind learns how many events it will never see."""
    late = follow(backend, last_event_id="3")
    fill(backend.journal, 60)
    first, *others = sent(late)
    assert first == {"event": "missed", "data": '{"missed": 17}'}
    assert [event["id"] for event in others] == [str(number) for number in range(21, 71)]


def test_pieces_are_small() -> None:
    """However much there is, only a hundred events are in memory at a time; kinds that are left out cost nothing."""
    journal = Journal(capacity=1000)
    fill(journal, 1000)
    pieces = list(Follow(journal, 0, None).chunks())
    assert [piece.count(b"id: ") for piece in pieces] == [100] * 10
    assert b"".join(Follow(journal, 0, frozenset([Kind.TENANCY])).chunks()) == b""


@pytest.mark.parametrize(
    ("target", "headers", "parameter"),
    [
        ("/v1/events", {"last-event-id": "soon"}, "Last-Event-ID"),
        ("/v1/events", {"last-event-id": "5-"}, "Last-Event-ID"),
        ("/v1/events", {"last-event-id": "-5"}, "Last-Event-ID"),
        ("/v1/events", {"last-event-id": "5-00000000000000000"}, "Last-Event-ID"),
        ("/v1/events?kind=", {}, "kind"),
        ("/v1/events?kind=link,", {}, "kind"),
        ("/v1/events?after=x", {}, "after"),
    ],
)
def test_wrong_streams(backend: FakeBackend, target: str, headers: dict[str, str], parameter: str) -> None:
    """Mistakes are problems, not empty streams."""
    response = Api(backend).answer("GET", target, {**STREAM, **headers})
    assert response.status == 400
    assert json.loads(response.body)["parameter"] == parameter


def test_other_readers_get_json(backend: FakeBackend) -> None:
    """Only who asks for a stream gets one."""
    for accept in ("", "*/*", "application/json", "text/event-streams", "text/html;q=1, */*"):
        assert Api(backend).answer("GET", "/v1/events", {"accept": accept}).follow is None
    for accept in ("text/event-stream;q=0.9", "application/json, Text/Event-Stream"):
        assert Api(backend).answer("GET", "/v1/events", {"accept": accept}).follow is not None
