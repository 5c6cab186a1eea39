"""Clients that misbehave, over real sockets: each gets a clear error or is cut off, and everybody else is served.

After each test the controller answers, and what it has stored is what it was told, and valid.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from controller.client import ControllerClient, Outdated, Unavailable, wait_ready
from controller.compose import Composer
from controller.designs import Design
from controller.paths import Spread
from controller.tenancy.invariants import problems
from controller.tenancy.store import Store
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_process import RunningController, running_controller
from tests.support.dummy_ovs import dummy_ovs, missing
from tests.support.raw_http import check_problem, connect, exchange, memory_bytes, read_all, request, split
from tests.support.rest_server import rest_server

FABRIC = leaf_spine()
GROUND = Composer(FABRIC, Design.GATEWAY, Spread.HOSTS).ground
MIB = 1 << 20
WAIT_NS = 60_000_000_000
TENANT = b'{"description": "kept"}'
HEALTH = request("GET", "/v1/health")


@pytest.fixture(scope="module")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store") / "tenants.db"


@pytest.fixture(scope="module")
def controller(store_file: Path) -> Iterator[RunningController]:
    """One controller for all tests; at its end, its log has no error."""
    options = ("--store", str(store_file))
    with running_controller(store_file.parent, FABRIC, "gateway", (), *options) as running:
        running.client.put("/v1/tenants/kept", {"description": "kept"})
        yield running
        assert running.end() == 0
        log = running.log.read_text()
        assert "Traceback" not in log
        assert " ERROR " not in log


@pytest.fixture(autouse=True)
def _unharmed(controller: RunningController, store_file: Path) -> Iterator[None]:
    yield
    assert controller.process.poll() is None
    client = controller.client
    assert client.get("/v1/health")["switches"]["expected"] == len(FABRIC.switches)
    assert [item["name"] for item in client.items("/v1/tenants")] == ["kept"]
    store = Store(store_file, GROUND)  # refuses what is not valid
    assert problems(store.state, GROUND) == []
    assert store.state.tenants.keys() == {"kept"}
    store.close()


# --- bodies -----------------------------------------------------------------------------------------------------------

BODIES = {
    "depth": (b'{"description": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "open depth": (b'{"a":' * 200_000, "nested too deeply"),
    "huge integer": (b'{"description": 1' + b"0" * 900_000 + b"}", "a number of 900001 digits"),
    "huge exponent": (b'{"description": 1e999999999}', "too large"),
    "not a number": (b'{"description": NaN}', "NaN, which is not JSON"),
    "infinity": (b'{"description": -Infinity}', "-Infinity, which is not JSON"),
    "duplicate keys": (b'{"description": "a", "description": "b"}', "'description' twice"),
    "nested duplicates": (b'{"x": {"a": 1, "a": 1}}', "'a' twice"),
    "invalid UTF-8": (b'{"description": "\xff\xfe"}', "not UTF-8"),
    "overlong UTF-8": (b'{"description": "\xc0\xaf"}', "not UTF-8"),
    "encoded surrogate": (b'{"description": "\xed\xa0\x80"}', "not UTF-8"),
    "escaped surrogate": (b'{"description": "\\ud800"}', "surrogate escape"),
    "byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "two values": (b"{} {}", "Extra data"),
    "nothing": (b"  \r\n ", "is empty"),
    "one brace": (b"{", "is not JSON"),
    "control character": (b'{"description": "\x00"}', "is not JSON"),
}


@pytest.mark.parametrize("name", BODIES)
def test_absurd_json(controller: RunningController, name: str) -> None:
    """400 with what is wrong; the connection goes on with the next request."""
    body, words = BODIES[name]
    answers = exchange(controller.rest, request("PUT", "/v1/tenants/kept", body, close=False), HEALTH)
    assert words in check_problem(answers[0], 400)
    assert [answer.status for answer in answers[1:]] == [200]


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"5", b"true", b'{"description": {}}', b'{"more": 1}'])
def test_json_of_other_shapes(controller: RunningController, body: bytes) -> None:
    """422 with a pointer to the mistake."""
    [answer] = exchange(controller.rest, request("PUT", "/v1/tenants/kept", body))
    check_problem(answer, 422)
    assert answer.json["errors"]


@pytest.mark.parametrize(
    "framing",
    [
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=range(8),
)
def test_chunked_bodies(controller: RunningController, framing: bytes) -> None:
    """Well formed or not, they are refused before a byte of them is looked at, and the connection ends: where the next
    request would begin cannot be known."""
    head = b"PUT /v1/tenants/kept HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    [answer] = exchange(controller.rest, head + framing + HEALTH)
    assert "Content-Length" in check_problem(answer, 411)
    assert answer.headers["connection"] == "close"


def test_expectations(controller: RunningController) -> None:
    """A client that waits for leave gets it, or the refusal instead of it; other expectations cannot be met."""
    head = b"PUT /v1/tenants/kept HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with connect(controller.rest) as sock:
        sock.sendall(head + b"Expect: 100-Continue\r\nContent-Length: %d\r\n\r\n" % len(TENANT))
        leave = b"HTTP/1.1 100 Continue\r\n\r\n"
        received = b""
        while len(received) < len(leave):
            received += sock.recv(len(leave) - len(received))
        assert received == leave
        sock.sendall(TENANT)
        [answer] = split(read_all(sock))
        assert (answer.status, answer.body) == (200, b'{"description": "kept"}\n')
    [large] = exchange(controller.rest, head + b"Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n")
    check_problem(large, 413)
    [other] = exchange(controller.rest, head + b"Expect: a-miracle\r\nContent-Length: 2\r\n\r\n{}")
    assert "a-miracle" in check_problem(other, 417)
    # Who does not wait for leave is not given any, and no body that is there already is asked for.
    [at_once] = exchange(
        controller.rest, head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(TENANT) + TENANT
    )
    assert at_once.status == 200


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /v1/health\r\n\r\n", 400),  # HTTP/0.9
        (b"GET /v1/health HTTP/0.9\r\nHost: x\r\n\r\n", 505),
        (b"GET /v1/health HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /v1/health HTTP/1.1\r\n\r\n", 400),
        (b"FROBNICATE /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"get /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"G" * 100 + b" /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"TRACE /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
        (b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
        (b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * MIB + b"\r\n\r\n", 431),
        (b"GET /v1/health HTTP/1.1\r\nHost: x\r\n" + b"X-%d: y\r\n" * MIB, 431),
    ],
    ids=range(13),
)  # fmt: skip
def test_requests_that_are_none(controller: RunningController, data: bytes, status: int) -> None:
    """A status, a problem body, and the end of the connection."""
    [answer] = exchange(controller.rest, data)
    check_problem(answer, status)
    assert answer.headers["connection"] == "close"


def test_http_1_0(controller: RunningController) -> None:
    """Answered, and closed after one request unless asked to stay."""
    [once] = exchange(controller.rest, b"GET /v1/health HTTP/1.0\r\n\r\n", b"GET /v1/health HTTP/1.0\r\n\r\n")
    assert once.status == 200
    stay = b"GET /v1/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert [answer.status for answer in exchange(controller.rest, stay + stay + HEALTH)] == [200, 200, 200]


def test_pipelined_requests_are_answered_in_order(controller: RunningController) -> None:
    """200 requests in one piece, wrong ones among them; and nothing is answered after a request that is none."""
    targets = ["/v1/tenants/kept", "/v1/tenants/none", "/v1/links", "/nothing"] * 50
    data = b"".join(request("GET", target, close=False) for target in targets)
    answers = exchange(controller.rest, data + HEALTH)
    assert [answer.status for answer in answers] == [200, 404, 200, 404] * 50 + [200]
    assert [answer.status for answer in exchange(controller.rest, data[:100] + b"\0\0\r\n\r\n" + HEALTH)][-1] == 400
    smuggled = request("POST", "/v1/health", b"GET /v1/links HTTP/1.1\r\nHost: x\r\n\r\n", close=False)
    assert [answer.status for answer in exchange(controller.rest, smuggled + HEALTH)] == [405, 200]


def test_pipelining_without_reading_costs_one_answer(controller: RunningController) -> None:
    """A client sends requests for megabytes and reads nothing: what it may send ends, and memory does not grow."""
    before = memory_bytes(controller.process.pid)
    data = request("GET", "/v1/openapi.json", close=False) * 500
    with connect(controller.rest) as sock:
        sock.settimeout(0)
        sent = 0
        with suppress(BlockingIOError):
            while sent < 64 * MIB:
                sent += sock.send(data)
        assert sent < 64 * MIB
        assert controller.client.health()["ready"] is False
        assert memory_bytes(controller.process.pid) - before < 32 * MIB


def test_half_closed_connections(controller: RunningController) -> None:
    """Who says nothing more still gets the answer to what was whole, and none to what was not."""
    whole = request("GET", "/v1/health", close=False)
    assert [answer.status for answer in exchange(controller.rest, whole, half_close=True)] == [200]
    assert [answer.status for answer in exchange(controller.rest, whole * 3 + whole[:20], half_close=True)] == [200] * 3
    for part in (b"", whole[:1], whole[:-2], request("PUT", "/v1/tenants/new", b'{"description": "x"}')[:-1]):
        assert exchange(controller.rest, part, half_close=True) == []


def test_connections_that_are_reset(controller: RunningController) -> None:
    """Reset in the midst of a head, a body, an answer and a stream."""
    stream = request("GET", "/v1/events?after=0", b"", "Accept: text/event-stream")
    large = request("GET", "/v1/openapi.json", close=False) * 20
    for data in (b"GET /v1", request("PUT", "/v1/tenants/x", TENANT)[:-3], large, stream, HEALTH):
        for _ in range(10):
            with connect(controller.rest) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(data)
    assert controller.client.health()["ready"] is False


# --- many connections -------------------------------------------------------------------------------------------------

MANY = 10_000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Leave to open that many sockets in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY + 1000
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"only {hard} files may be open here, and {wanted} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def patient(client: ControllerClient, path: str) -> Any:
    """Ask as the controller says: again if it has no room yet."""
    for _ in range(100_000):
        try:
            return client.get(path)
        except Unavailable as busy:
            if busy.retry_after_s != 1 or "too many connections" not in busy.detail:
                raise
    raise AssertionError("there is never room")


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_connections(controller: RunningController, tmp_path: Path) -> None:
    """All open at once, silent or with half a request: clients get in, switches are asked and answer, none of them is
    lost, and memory and files are bounded.
    """
    if missing():
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing())}")
    pid, client = controller.process.pid, controller.client
    halves = [b"", b"GET /v1/he", b"PUT /v1/tenants/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
    with ExitStack() as stack:
        ovs = stack.enter_context(dummy_ovs(tmp_path))
        ovs.build(FABRIC, f"tcp:{controller.openflow}")
        wait_ready(client.url, len(FABRIC.switches), WAIT_NS)
        last = client.get("/v1/events")["last"]
        before, before_files = memory_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir()))
        for number in range(MANY):
            sock = stack.enter_context(connect(controller.rest))
            with suppress(ConnectionError):
                sock.sendall(halves[number % 3])
        assert patient(client, "/v1/health")["ready"] is True
        assert all(flow["planned"] for flow in patient(client, "/v1/flows")["flows"])
        assert memory_bytes(pid, "VmHWM") - before < 128 * MIB
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < before_files + 2000
        assert patient(client, f"/v1/events?kind=switch&after={last}")["events"] == []
    assert patient(client, "/v1/health")["controller"]["active"] is True


def test_connections_that_wait_make_room_for_new_ones(tmp_path: Path) -> None:
    """With eight places: a ninth is told to come back while the eight are young, and served once they have waited."""
    with rest_server(tmp_path / "log", "--most", "8", "--room-s", "0.1") as (port, process), ExitStack() as stack:
        address = f"127.0.0.1:{port}"
        for _ in range(8):
            stack.enter_context(connect(address))
        client = ControllerClient(f"http://{address}")
        assert patient(client, "/v1/health")["ready"] is True
        for _ in range(20):
            assert patient(client, "/v1/health")["ready"] is True
        assert process.poll() is None


# --- slow clients -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """The same server with little patience, around a made-up controller."""
    log = tmp_path_factory.mktemp("hasty") / "log"
    patience = ("--head-s", "0.2", "--body-s", "0.2", "--write-s", "0.2", "--slow-s", "0.2", "--streams", "3")
    with rest_server(log, "--store", "--idle-s", "0.4", "--heartbeat-s", "0.1", *patience) as (port, process):
        yield f"127.0.0.1:{port}", process
        assert process.poll() is None
    assert "Traceback" not in log.read_text()


def drip(sock: socket.socket, data: bytes) -> None:
    """Send byte by byte, each in a packet of its own, until the other side has enough."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(0.02)
    with suppress(OSError):
        for byte in data:
            sock.sendall(bytes([byte]))
            with suppress(TimeoutError):
                if sock.recv(1, socket.MSG_PEEK):
                    break
    sock.settimeout(20)


def test_heads_that_drip(hasty: tuple[str, Any]) -> None:
    """A header a byte at a time, for ever: 408 once the time for a head is over, however much comes."""
    address, _ = hasty
    with connect(address) as sock:
        drip(sock, b"GET /v1/health HTTP/1.1\r\nHost: x\r\n" + b"X-a: b\r\n" * 1000)
        assert "head took more than 0.2 s" in check_problem(split(read_all(sock))[0], 408)


def test_bodies_that_drip(hasty: tuple[str, Any]) -> None:
    """The same with a body, in small pieces or not at all."""
    address, _ = hasty
    with connect(address) as sock:
        whole = request("PUT", "/v1/tenants/x", b" " * 5000)
        sock.sendall(whole[:-5000])
        drip(sock, whole[-5000:])
        assert "body took more than 0.2 s" in check_problem(split(read_all(sock))[0], 408)
    with connect(address) as sock:
        sock.sendall(whole[:-5000])
        check_problem(split(read_all(sock))[0], 408)
    with connect(address) as sock:
        assert read_all(sock) == b""  # nothing was asked, so nothing is answered


def test_answers_that_are_not_read(hasty: tuple[str, Any]) -> None:
    """Twenty clients ask for megabytes and read nothing: they are cut off, and the next one is served."""
    address, process = hasty
    before = memory_bytes(process.pid)
    data = request("GET", "/v1/openapi.json", close=False) * 100
    with ExitStack() as stack:
        socks = [stack.enter_context(connect(address)) for _ in range(20)]
        for sock in socks:
            sock.sendall(data)
        assert ControllerClient(f"http://{address}").health()["ready"] is True
        for sock in socks:
            while True:  # what was under way comes, and then the end
                with suppress(ConnectionResetError):
                    if sock.recv(1 << 16):
                        continue
                break
    assert memory_bytes(process.pid) - before < 64 * MIB


def test_what_waits_to_be_read_is_bounded(tmp_path: Path) -> None:
    """Clients that ask for large answers and do not read leave no memory for more: others are told, in a small answer,
    and served once those were cut off.
    """
    options = ("--unread-bytes", "500000", "--write-s", "0.5")
    with rest_server(tmp_path / "log", *options) as (port, process), ExitStack() as stack:
        client = ControllerClient(f"http://127.0.0.1:{port}")
        size = len(json.dumps(client.get("/v1/openapi.json")))
        assert 65_536 < size < 500_000
        before = memory_bytes(process.pid)
        for _ in range(10):
            sock = stack.enter_context(connect(f"127.0.0.1:{port}"))
            sock.sendall(request("GET", "/v1/openapi.json", close=False) * 200)
        refusals = 0
        for _ in range(100_000):
            try:
                client.get("/v1/openapi.json")
            except Unavailable as full:
                refusals += full.retry_after_s == 1 and "wait to be read by slow clients" in full.detail
                assert client.health()["ready"] is True
            else:
                if refusals:
                    break
        assert refusals
        assert memory_bytes(process.pid) - before < 16 * MIB


def stream(address: str, *headers: str) -> socket.socket:
    """A stream of events whose head was read; waits until the server has noticed that another one has left."""
    for _ in range(1000):
        sock = connect(address)
        sock.sendall(request("GET", "/v1/events", b"", "Accept: text/event-stream", *headers))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        if not head.startswith(b"HTTP/1.1 503 "):
            break
        sock.close()
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
    assert b"content-type: text/event-stream\r\n" in head.lower()
    return sock


def events(process: Any, count: int) -> None:
    """Let something happen."""
    process.stdin.write(f"events {count}\n")
    process.stdin.flush()


def read_events(sock: socket.socket, count: int) -> list[int]:
    """The numbers of the next events; heartbeats are skipped."""
    numbers: list[int] = []
    with sock.makefile("rb") as lines:
        while len(numbers) < count:
            line = lines.readline()
            assert line, "the stream ended"
            if line.startswith(b"id: "):
                numbers.append(int(line[4:].partition(b"-")[0]))
    return numbers


def test_a_reader_that_never_reads_is_cut_off(hasty: tuple[str, Any]) -> None:
    """It holds nothing up: another reader gets all events, in order; and nothing is kept for it."""
    address, process = hasty
    with stream(address) as idle, stream(address) as reader:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        before = memory_bytes(process.pid)
        first = None
        for _ in range(10):
            events(process, 1000)
            numbers = read_events(reader, 1000)
            first = numbers[0] if first is None else first
            assert numbers == list(range(numbers[0], numbers[0] + 1000))
        assert numbers[-1] == first + 9_999
        assert memory_bytes(process.pid) - before < 48 * MIB
        read_all(idle)  # to its end: it was closed


def test_streams_have_heartbeats_and_are_few(hasty: tuple[str, Any]) -> None:
    """A stream that is quiet shows that it lives; one too many is told so, and gets in when another has left."""
    address, _ = hasty
    with ExitStack() as stack:
        streams = [stack.enter_context(stream(address)) for _ in range(3)]
        assert streams[0].recv(100).startswith(b": heartbeat\n\n")
        [full] = exchange(address, request("GET", "/v1/events", b"", "Accept: text/event-stream"))
        assert "3 streams of events already" in check_problem(full, 503)
        assert full.headers["retry-after"] == "15"
        streams[1].close()
        stack.enter_context(stream(address))


def test_streams_resume_where_they_were_cut(hasty: tuple[str, Any]) -> None:
    """With the last id, over another connection, without a gap and without a repetition."""
    address, process = hasty
    with stream(address) as one:
        events(process, 5)
        seen = read_events(one, 5)
    events(process, 5)
    with stream(address, f"Last-Event-ID: {seen[2]}") as other:
        assert read_events(other, 7) == list(range(seen[3], seen[3] + 7))


# --- at once ----------------------------------------------------------------------------------------------------------


def test_two_tenants_come_at_once_a_thousand_times(tmp_path: Path) -> None:
    """Two clients declare a tenant of their own at the same moment, a thousand times, and race for a hundred more.

    Verify: one of the two wins each race; everything that was acknowledged is there under its version, versions are
    all different, and the state is valid, also for who opens the file afterwards.
    """
    file = tmp_path / "store.db"
    rounds = 1000
    made: list[dict[str, str]] = [{}, {}]
    lost = [0, 0]
    failures: list[BaseException] = []
    start = threading.Barrier(2)

    def declare(who: int, client: ControllerClient) -> None:
        try:
            for turn in range(rounds):
                start.wait(60)
                for name in (f"t{who}-{turn}", *([f"race-{turn}"] if turn % 10 == 0 else [])):
                    try:
                        answer = client.put(f"/v1/tenants/{name}", {"description": str(who)}, only_create=True)
                    except Outdated:
                        lost[who] += 1
                        assert name.startswith("race")
                        continue
                    assert answer.created
                    made[who][name] = answer.etag or ""
        except BaseException as error:  # noqa: BLE001  # the test says what it was
            failures.append(error)
            start.abort()

    with running_controller(tmp_path, FABRIC, "gateway", (), "--store", str(file)) as controller:
        threads = [threading.Thread(target=declare, args=(who, controller.client)) for who in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert sum(lost) == rounds // 10
        listed = {item["name"]: item for item in controller.client.items("/v1/tenants", 1000)}
        assert controller.end(signal.SIGKILL) == -signal.SIGKILL
    acknowledged = made[0] | made[1]
    assert len(acknowledged) == len(made[0]) + len(made[1]) == 2 * rounds + rounds // 10
    assert {name: json.dumps(str(item["version"])) for name, item in listed.items()} == acknowledged
    assert len({item["version"] for item in listed.values()}) == len(listed)
    for who in range(2):
        assert {listed[name]["resource"]["description"] for name in made[who]} == {str(who)}
    store = Store(file, GROUND)
    assert problems(store.state, GROUND) == []
    assert store.state.tenants.keys() == acknowledged.keys()
    store.close()
