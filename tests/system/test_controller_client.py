"""The client of the REST interface against running controllers: changes, pages, events, and typed refusals."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.client import (
    Conflict,
    ControllerClient,
    Event,
    Forbidden,
    Invalid,
    NotFound,
    NotListening,
    Outdated,
    Refusal,
    Unauthorized,
    Unavailable,
    VersionNeeded,
)
from emulator.errors import ControllerError
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_process import RunningController, running_controller
from tests.support.rest_server import rest_server

FABRIC = leaf_spine()
TENANT = "/v1/tenants/red"


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningController]:
    """One controller with a store, for all tests; each uses names of its own."""
    folder = tmp_path_factory.mktemp("controller")
    with running_controller(folder, FABRIC, "gateway", (), "--store", str(folder / "store.db")) as running:
        yield running
        assert running.end() == 0


def test_the_life_of_a_resource(controller: RunningController) -> None:
    """Created, read with its version, replaced, deleted; each refusal is an exception of its own with its facts."""
    client = controller.client
    made = client.put(TENANT, {"description": "one"}, only_create=True)
    assert (made.created, made.status, made.body) == (True, 201, {"description": "one"})
    assert client.read(TENANT).etag == made.etag
    assert client.put(TENANT, {"description": "one"}).created is False
    with pytest.raises(VersionNeeded) as unguarded:
        client.put(TENANT, {"description": "two"})
    assert unguarded.value.etag == made.etag
    changed = client.put(TENANT, {"description": "two"}, if_match=made.etag)
    assert changed.etag != made.etag
    with pytest.raises(Outdated, match=r"/v1/tenants/red: 412 the resource was changed: it has version") as lost:
        client.put(TENANT, {"description": "three"}, if_match=made.etag)
    assert (lost.value.status, lost.value.etag) == (412, changed.etag)
    with pytest.raises(Outdated):
        client.put(TENANT, {}, only_create=True)
    with pytest.raises(Outdated):
        client.delete(TENANT, if_match=made.etag)
    client.put("/v1/vpcs/red", {"tenant": "red", "cidrs": ["10.0.0.0/8"]})
    with pytest.raises(Conflict, match="tenant red is in use by VPC red"):
        client.delete(TENANT)
    client.delete("/v1/vpcs/red")
    client.delete(TENANT, if_match=changed.etag)
    with pytest.raises(NotFound):
        client.get(TENANT)
    with pytest.raises(Invalid) as wrong:
        client.put("/v1/vpcs/x", {"tenant": "red", "cidrs": ["10.0.0.1/8"], "more": 1})
    assert wrong.value.status == 422
    assert {error["pointer"] for error in wrong.value.errors} == {"#/cidrs/0", "#/more"}
    with pytest.raises(Invalid) as absurd:
        client.get("/v1/health", wait_ms=-1)
    assert absurd.value.parameter == "wait_ms"
    with pytest.raises(Refusal, match="405"):
        client.delete("/v1/topology")
    with pytest.raises(ControllerError, match=r"is not ready after 0\.1 s: s0 is not connected"):
        client.put("/v1/tenants/slow", {}, wait_s=0.1)
    client.delete("/v1/tenants/slow")


def test_pages_are_followed_to_their_end(controller: RunningController) -> None:
    """However small pages are, all items come once, in order."""
    client = controller.client
    others = [item["name"] for item in client.items("/v1/tenants")]
    names = [f"page-{number:02}" for number in range(11)]
    for name in names:
        client.put(f"/v1/tenants/{name}", {})
    for limit in (1, 4, 11, 100):
        assert [item["name"] for item in client.items("/v1/tenants", limit)] == sorted([*others, *names])
    for name in names:
        client.delete(f"/v1/tenants/{name}")
    assert [item["name"] for item in client.items("/v1/tenants")] == others


def test_reachability_and_ryus_resources(controller: RunningController) -> None:
    """Questions have their answer, and what needs a switch says that there is none."""
    client = controller.client
    assert client.reachability("g0", "g1", port=5)["reason"].startswith("g0 is in no VPC")
    with pytest.raises(NotFound):
        client.post("/stats/flowentry/add", {"dpid": 1, "actions": []})
    with pytest.raises(Unavailable):
        client.get("/v1/flows", dpid=1)


def test_tokens(tmp_path: Path) -> None:
    """Without one, with one that may read, with one that may write."""
    entries = [
        {"name": role, "role": role, "sha256": hashlib.sha256(role.encode()).hexdigest()} for role in ("read", "write")
    ]
    (tmp_path / "tokens").write_text(json.dumps(entries))
    (tmp_path / "tokens").chmod(0o600)
    with rest_server(tmp_path / "log", "--store", "--tokens", str(tmp_path / "tokens")) as (port, process):
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(Unauthorized):
            ControllerClient(url).health()
        with pytest.raises(Unauthorized):
            ControllerClient(url).events()
        with pytest.raises(Unauthorized):
            ControllerClient(url, "wrong").health()
        with pytest.raises(Forbidden, match="the token of read may only read"):
            ControllerClient(url, "read").put(TENANT, {})
        assert ControllerClient(url, "write").put(TENANT, {}).created
        assert process.stdin
        with ControllerClient(url, "read").events() as events:
            process.stdin.write("events 1\n")
            process.stdin.flush()
            assert next(events).kind == "link"
    for token in ("", "a b\n", "ä", " x"):
        with pytest.raises(ControllerError, match="the bearer token has characters"):
            ControllerClient(url, token)


# --- events -----------------------------------------------------------------------------------------------------------


def test_events_come_as_they_happen(controller: RunningController) -> None:
    """From now on, or after a number; only the kinds that were asked for; each as in the JSON answer."""
    client = controller.client
    with client.events(kinds=["tenancy"]) as events:
        for name in ("event-1", "event-2"):
            client.put(f"/v1/tenants/{name}", {})
        seen = [next(events) for _ in range(4)]
    nowhere = "installed in 0 of 5 switches: "
    assert [event.message for event in seen] == [
        text
        for name in ("event-1", "event-2")
        for text in (f"tenant {name} declared", f"{nowhere}tenant {name} declared")
    ]
    page = client.get("/v1/events", kind="tenancy", after=seen[0].number - 1)["events"]
    assert [Event(**event) for event in page] == seen
    with client.events(after=seen[0].number, kinds={"tenancy"}) as later:
        assert next(later) == seen[1]
        later.close()
        assert list(later) == []
    with pytest.raises(Invalid) as wrong:
        client.events(kinds=["nothing"])
    assert wrong.value.parameter == "kind"


def test_a_restarted_controller_is_followed_on(tmp_path: Path) -> None:
    """Events go on after a kill: those of the new controller come from its first one on."""
    store = ("--store", str(tmp_path / "store.db"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with running_controller(tmp_path / "one", FABRIC, "gateway", (), *store) as first:
        events = first.client.events(kinds=["tenancy"])
        for number in range(3):
            first.client.put(f"/v1/tenants/t{number}", {})
        assert [next(events).message for _ in range(6)][-2] == "tenant t2 declared"
        first.process.kill()
        first.process.wait()
    with running_controller(tmp_path / "two", FABRIC, "gateway", (), *store, rest=first.rest) as second, events:
        # More has happened since than was seen before: numbers alone would hide the first of it.
        for number in range(3, 9):
            second.client.put(f"/v1/tenants/t{number}", {})
        assert [next(events).message for _ in range(3)][::2] == ["tenant t3 declared", "tenant t4 declared"]


def server(answers: list[bytes], requests: list[bytes]) -> tuple[str, threading.Thread]:
    """Somebody who gives one answer to each connection, and then is gone."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    requests.append(connection.recv(65_536))
                    connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", thread


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def sent(number: int) -> bytes:
    data = {"number": number, "time_ns": 5, "kind": "link", "severity": "info", "message": "m", "fields": {}}
    return f"id: {number}\nevent: link\ndata: {json.dumps(data)}\n\n".encode()


def test_a_lost_connection_loses_no_event() -> None:
    """Cut in the midst of an event: it is asked for again, after the last whole one; so is what was refused for now."""
    requests: list[bytes] = []
    busy = b"HTTP/1.1 503 Busy\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n\r\n{}"
    answers = [
        HEAD + b": heartbeat\n\n" + sent(1) + sent(2) + sent(3)[:-1],
        busy,
        b"",
        HEAD + b'event: missed\ndata: {"missed": 4}\n\n' + sent(7).replace(b"\n", b"\r\n"),
    ]
    url, thread = server(answers, requests)
    with ControllerClient(url).events(patience_s=5) as events:
        assert [next(events).number for _ in range(2)] == [1, 2]
        missed = next(events)
        assert (missed.kind, missed.fields) == ("missed", {"missed": 4})
        assert next(events).number == 7
        thread.join()
        events._patience_s = 0
        with pytest.raises(NotListening):
            next(events)
    assert b"Last-Event-ID" not in requests[0]
    assert all(b"Last-Event-ID: 2\r\n" in request for request in requests[1:])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "/v1/events: the answer is not a stream of events"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}", "404"),
        (b"", "closed connection|Remote end"),
        (HEAD + b"data: {\n\n", "sends what is no event"),
        (HEAD + b"data: []\n\n", "sends what is no event"),
        (HEAD + b'data: {"number": 1}\n\n', "sends what is no event"),
    ],
)
def test_streams_that_are_none(answer: bytes, words: str) -> None:
    """One line with the address, at once: only what worked before is tried again."""
    url, thread = server([answer], [])
    with pytest.raises(ControllerError, match=words) as raised:
        next(ControllerClient(url).events())
    assert str(raised.value).startswith(url)
    thread.join()
