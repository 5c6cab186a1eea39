"""The controller as a process: start, signals, taken ports, and peers that misbehave on either socket."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.client import ControllerClient, NotListening, wait_ready
from emulator.errors import ControllerError
from tests.support.controller_fabrics import leaf_spine, services_of
from tests.support.controller_process import RunningController, command, running_controller, write_inputs
from tests.support.lying_switch import LyingSwitch

FABRIC = leaf_spine()
SERVICES = services_of(FABRIC, 4420)
TIMEOUT_S = 20
CORPUS = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningController]:
    """One controller for all tests that must not be able to harm it; it is still well at the end."""
    with running_controller(tmp_path_factory.mktemp("controller"), FABRIC, "gateway", SERVICES) as running:
        yield running
        assert running.client.health()["ready"] is False
        assert running.end() == 0
        log = running.log.read_text()
        assert "Traceback" not in log
        assert " ERROR " not in log


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals_end_it_at_once(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Both signals end it while it waits for nothing in particular, also with connections open on both sockets."""
    with running_controller(tmp_path, FABRIC, "gateway", SERVICES) as running, ExitStack() as stack:
        for address in (running.openflow, running.rest):
            host, port = address.split(":")
            stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
        assert running.end(number) == code
        assert f"ended by {number.name}" in running.log.read_text()
        assert (tmp_path / "stderr").read_text() == ""
        with pytest.raises(NotListening):
            running.client.health()


@pytest.mark.parametrize("option", ["--listen", "--rest"])
def test_a_taken_port_is_one_line(controller: RunningController, tmp_path: Path, option: str) -> None:
    """Exit code 5 and the option's name; a second controller never shares the port with the first."""
    taken = controller.openflow if option == "--listen" else controller.rest
    free = {"--listen": "127.0.0.1:0", "--rest": "127.0.0.1:0", option: taken}
    options = [word for pair in free.items() for word in pair]
    argv = command(
        *write_inputs(tmp_path, FABRIC, SERVICES), "--design", "gateway", "--log", str(tmp_path / "log"), *options
    )
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr == f"controller: {option}: cannot listen on {taken}: Address already in use\n"


@pytest.mark.parametrize(("first", "second"), [((), ()), ((), ("--redundant",)), (("--redundant",), ())])
def test_two_controllers_share_a_store_only_if_both_say_so(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    """The second one is refused with the holder and the remedy, by whatever name of the file; the first one lives on.

    Verify: exit code 5 and one line; after a kill -9 of the first, the second one starts at once, with what the first
    had acknowledged.
    """
    file, alias = tmp_path / "store.db", tmp_path / "alias.db"
    alias.symlink_to(file)
    with running_controller(tmp_path, FABRIC, "gateway", (), "--store", str(file), *first) as holder:
        argv = command(*write_inputs(tmp_path, FABRIC, ())[:2], "--design", "gateway", "--store", str(alias), *second)
        argv += ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--log", str(tmp_path / "log")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        how = "with" if first else "without"
        assert done.returncode == 5
        assert done.stdout == ""
        assert done.stderr == (
            f"controller: {alias} is used by another controller (process {holder.process.pid} on "
            f"{socket.gethostname()}, {how} --redundant): end that one, or give both --redundant\n"
        )
        assert holder.process.poll() is None
        if not first:
            assert holder.client.put("/v1/tenants/t", {}).status == 201
        holder.process.kill()
        with running_controller(tmp_path, FABRIC, "gateway", (), "--store", str(alias), *second) as next_one:
            assert len(next_one.client.get("/v1/tenants")["items"]) == (0 if first else 1)


def test_a_foreign_address_is_one_line(tmp_path: Path) -> None:
    """An address that this machine does not have."""
    argv = command(*write_inputs(tmp_path, FABRIC, SERVICES), "--design", "gateway", "--listen", "192.0.2.1:6653")
    done = subprocess.run([*argv, "--rest", "127.0.0.1:0"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith("controller: --listen: cannot listen on 192.0.2.1:6653: ")
    assert done.stderr.count("\n") == 1


def test_rest_for_others_needs_tokens(tmp_path: Path) -> None:
    """Whoever can reach it could program the fabric, so it is refused before anything listens."""
    argv = command(*write_inputs(tmp_path, FABRIC, SERVICES), "--design", "gateway", "--rest", "192.0.2.1:8080")
    done = subprocess.run([*argv, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("controller: --rest: 192.0.2.1 can be reached by others")
    assert done.stderr.count("\n") == 1


def test_ipv6(tmp_path: Path) -> None:
    """Both sockets can be on IPv6."""
    with running_controller(tmp_path, FABRIC, "gateway", (), listen="[::1]:0", rest="[::1]:0") as running:
        assert running.client.health()["design"] == "gateway"


def test_plans_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    """Two interpreters with different hash seeds plan the same rules in the same order."""
    write_inputs(tmp_path, FABRIC, SERVICES)
    script = (
        "import sys; from pathlib import Path\n"
        "from controller.config import load_fabric, load_services\n"
        "from controller.designs import plan\n"
        "folder = Path(sys.argv[1]); fabric = load_fabric(folder / 'fabric.json')\n"
        "for rule in plan(fabric, 'conventional', load_services(folder / 'services.json', fabric)).rules: print(rule)\n"
    )
    printed = [
        subprocess.run(
            [command()[0], "-c", script, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    ]
    assert printed[0].count("\n") > 100
    assert len(set(printed)) == 1


# --- REST -----------------------------------------------------------------------------------------------------------


def ask(controller: RunningController, data: bytes) -> tuple[int, bytes, bytes]:
    """Send raw bytes and return the status, the head and the body of the (first) answer, read to its end."""
    host, port = controller.rest.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(data)  # when it is refused before all was said, the answer is there all the same
        received = b""
        try:
            while chunk := sock.recv(65_536):
                received += chunk
        except ConnectionResetError:
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, head, body


GET = b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (GET + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", 431),
        (GET + b"".join(b"X%d: %s\r\n" % (index, b"a" * 1000) for index in range(90)) + b"\r\n", 431),
        (GET + b"X: 1\r\n" * 1000 + b"\r\n", 431),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"POST /v1/topology HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 413),
        (b"GET /v1/topology HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 3000 + b"\r\n\r\n", 413),
        (b"POST /v1/topology HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/topology HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        (b"POST /v1/topology HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /v1/topology HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"BREW /v1/topology HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        (b"GET /v1/health HTTP/9.9\r\nHost: x\r\n\r\n", 505),
        (b"GET /v1/health HTTP/1.1 more\r\nHost: x\r\n\r\n", 400),
        (b"\x00\x01\x02\x03\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (GET + b"broken header\r\n\r\n", 400),
        (GET + b"\r\n", 200),
        (GET.replace(b"1.1", b"1.0") + b"\r\n", 200),
    ],
    ids=range(19),
)
def test_absurd_requests(controller: RunningController, data: bytes, status: int) -> None:
    """Each gets a status and a JSON body, never a traceback, and the connection ends."""
    got, head, body = ask(controller, data)
    assert got == status, head
    assert b"Traceback" not in body
    content = json.loads(body)
    if status != 200:
        assert content["status"] == status
        assert b"application/problem+json" in head


def test_head_and_keep_alive(controller: RunningController) -> None:
    """HEAD has the length and no body, and one connection takes many requests."""
    host, port = controller.rest.split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)) as connection:
        for method in ("HEAD", "GET", "POST", "HEAD", "GET"):
            connection.request(method, "/v1/topology", body=b"{}" if method == "POST" else None)
            response = connection.getresponse()
            body = response.read()
            assert response.status == (405 if method == "POST" else 200)
            assert (len(body) == 0) == (method == "HEAD")
            assert method == "HEAD" or int(response.headers["Content-Length"]) == len(body)


def test_idle_and_half_open_connections_do_not_block_others(controller: RunningController) -> None:
    """300 connections that say nothing, half a request or a body that never comes leave room for the next one."""
    host, port = controller.rest.split(":")
    beginnings = [b"", b"GET /v1/he", GET, b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"]
    with ExitStack() as stack:
        for index in range(300):
            sock = stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
            sock.sendall(beginnings[index % len(beginnings)])
        assert controller.client.health()["ready"] is False
    assert controller.client.health()["ready"] is False


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_random_bytes_on_the_rest_port(controller: RunningController, data: bytes) -> None:
    """Whatever is sent, what comes back is HTTP with JSON, or nothing; and the interface goes on."""
    host, port = controller.rest.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while chunk := sock.recv(65_536):
                received += chunk
        except ConnectionResetError:
            pass
    if received.startswith(b"HTTP/"):
        json.loads(received.partition(b"\r\n\r\n")[2].partition(b"HTTP/1.1 ")[0])
    assert controller.client.health()["switches"]["expected"] == len(FABRIC.switches)


# --- the client -----------------------------------------------------------------------------------------------------


def test_the_client_waits_in_one_request_and_says_what_is_missing(controller: RunningController) -> None:
    """A bounded wait ends with the first problems; another number of switches is refused at once."""
    url = f"http://{controller.rest}"
    with pytest.raises(ControllerError, match=r"is not ready after 0\.3 s: s0 is not connected; s1 is not connected"):
        wait_ready(url, len(FABRIC.switches), 300_000_000)
    with pytest.raises(ControllerError, match="a controller of 5 switches, not of 6"):
        wait_ready(url, 6, 300_000_000)


def test_the_client_without_a_controller() -> None:
    """Nobody there, somebody else there, and addresses that are none."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        free = sock.getsockname()[1]
    with pytest.raises(ControllerError, match=r"is not ready after 0\.1 s: it does not listen"):
        wait_ready(f"http://127.0.0.1:{free}", 1, 100_000_000)
    for url in ("", "127.0.0.1:8080", "https://127.0.0.1:1", "http://:80", "http://127.0.0.1:99999", "http://x/v1"):
        with pytest.raises(ControllerError, match="is not the address of a controller"):
            ControllerClient(url)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed connection|Remote end"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", "the answer is not JSON"),
        (b"HTTP/1.0 500 No\r\n\r\n[1]", "500"),
        (b'HTTP/1.0 404 No\r\n\r\n{"detail": "nothing here"}', "404 nothing here"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{}", "100|more expected|IncompleteRead"),
    ],
)
def test_the_client_with_another_program_on_the_port(answer: bytes, words: str) -> None:
    """Any answer that a controller would not give is one line with the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pid = os.fork()
        if pid == 0:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.sendall(answer)
            connection.close()
            os._exit(0)
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with pytest.raises(ControllerError, match=words) as raised:
                ControllerClient(url).health()
            assert str(raised.value).startswith(url)
        finally:
            os.waitpid(pid, 0)


# --- OpenFlow -------------------------------------------------------------------------------------------------------

HELLO = struct.pack("!BBHI", 4, 0, 8, 1)


def talk(controller: RunningController, *messages: bytes) -> bytes:
    """Connect as a switch, say something, close the sending side, and read until the controller closes."""
    host, port = controller.openflow.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        received = b""
        try:
            for message in messages:
                sock.sendall(message)
            sock.shutdown(socket.SHUT_WR)
            while chunk := sock.recv(65_536):
                received += chunk
        except OSError:
            pass
    return received


def features(dpid: int) -> bytes:
    return struct.pack("!BBHIQIBB2xII", 4, 6, 32, 2, dpid, 256, 254, 0, 0x4F, 0)


PORTS = struct.pack("!BBHIHH4x", 4, 19, 16, 3, 13, 0)


@pytest.mark.parametrize(
    "messages",
    [
        (b"\x00" * 64,),
        (b"GET / HTTP/1.1\r\n\r\n",),
        (os.urandom(4096),),
        (struct.pack("!BBHI", 1, 0, 8, 1),),
        (struct.pack("!BBHI", 9, 0, 8, 1),),
        (struct.pack("!BBHI", 4, 0, 0, 1), HELLO),
        (HELLO, struct.pack("!BBHI", 4, 6, 12, 2) + b"\x00" * 4),
        (HELLO, struct.pack("!BBHI", 4, 99, 8, 2)),
        (HELLO, struct.pack("!BBHIHH4x", 4, 19, 20, 3, 1, 0) + b"\xff" * 4),
        (HELLO, features(1), struct.pack("!BBHIHH4x", 4, 19, 17, 3, 13, 0) + b"\xff"),
        (HELLO, features(1), PORTS, struct.pack("!BBHIHH", 4, 1, 12, 4, 5, 6)),
        (HELLO, features(1), PORTS, struct.pack("!BBHIHH4x", 4, 19, 80, 5, 1, 0) + b"\xff" * 64),
        (HELLO, features(0), PORTS),
        (HELLO, features((1 << 64) - 1), PORTS),
        (HELLO, HELLO, features(1), features(2), PORTS, PORTS),
        # An error without a code of OpenFlow's own, as Open vSwitch sends them.
        (HELLO, features(1), PORTS, struct.pack("!BBHIHHI", 4, 1, 16, 4, 0xFFFF, 2640, 0x4F4E4600)),
        (HELLO, features(1), PORTS, struct.pack("!BBHIHH", 4, 1, 12, 4, 0xFFFF, 2640)),
        # Parts without length, which Ryu would read for ever: in a greeting of any version, and in an answer.
        (struct.pack("!BBHIHH", 4, 0, 12, 1, 99, 0),),
        (struct.pack("!BBHIHH", 6, 0, 12, 1, 99, 0),),
        (HELLO, features(1), PORTS, struct.pack("!BBHIHH4xHHI", 4, 19, 24, 9, 10, 0, 0, 1, 1)),
        (HELLO, features(1), PORTS, struct.pack("!BBHIHH4x", 6, 19, 96, 9, 1, 0) + bytes(80)),
    ],
    ids=range(21),
)
def test_peers_that_speak_no_openflow(controller: RunningController, messages: tuple[bytes, ...]) -> None:
    """Garbage, old versions, truncated and absurd messages end their own connection and nothing else."""
    talk(controller, *messages)
    health = controller.client.health()
    assert health["switches"]["expected"] == len(FABRIC.switches)


_ERROR = 1
MESSAGES = st.tuples(st.integers(0, 35), st.binary(max_size=120)) | st.tuples(
    st.just(_ERROR),
    st.builds(bytes.__add__, st.sampled_from([b"\xff\xff", b"\x00\x01", b"\x00\x0b"]), st.binary(max_size=20)),
)
"""Anything, and errors of kinds that exist more often than chance would have it."""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MESSAGES, max_size=6), st.booleans())
def test_random_messages_after_the_handshake(
    controller: RunningController, messages: list[tuple[int, bytes]], known: bool
) -> None:
    """Well-formed headers with random bodies, from a known or unknown switch, do no lasting harm."""
    bodies = [struct.pack("!BBHI", 4, kind, 8 + len(body), 9) + body for kind, body in messages]
    talk(controller, HELLO, features(1 if known else 77), PORTS, *bodies)
    assert controller.client.health()["switches"]["expected"] == len(FABRIC.switches)


_ANSWERS = [bytes.fromhex(path.read_text()) for path in sorted((CORPUS / "openflow").iterdir())]
_CHANGES = st.lists(st.tuples(st.integers(0, 1100), st.sampled_from([0, 1, 255]) | st.integers(0, 255)), max_size=3)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 20), _CHANGES), min_size=1, max_size=6))
def test_switches_that_lie(
    controller: RunningController, dpid: int, lies: list[tuple[int, list[tuple[int, int]]]]
) -> None:
    """Answers under the right numbers, made of real ones with bytes changed, end no more than their connection."""
    waiting = iter(lies)

    def lie(kind: int) -> bytes:
        choice, changes = next(waiting, (0, []))
        known = [data[16:] for data in _ANSWERS if struct.unpack_from("!H", data, 8)[0] == kind] or [bytes(40)]
        body = bytearray(known[choice % len(known)])
        for at, value in changes:
            body[at % len(body)] = value
        return bytes(body)

    LyingSwitch(controller.openflow, dpid, lie).talk(len(lies))
    assert controller.client.health()["switches"]["expected"] == len(FABRIC.switches)


def test_a_second_connection_of_the_same_switch_replaces_the_first(controller: RunningController) -> None:
    """The newer connection counts, the older one is closed, and its end does not take the newer one's place."""
    host, port = controller.openflow.split(":")
    with ExitStack() as stack:
        first, second = (stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S)) for _ in range(2))
        for sock in (first, second):
            sock.sendall(HELLO + features(2) + PORTS)
            assert _reads_flows(sock)
        while first.recv(65_536):
            pass  # closed by the controller
        first.close()
        assert controller.client.health()["states"]["s1"] == "reading"


def _reads_flows(sock: socket.socket) -> bool:
    """Read until the controller asks for flow statistics (multipart type 1)."""
    received = b""
    while chunk := sock.recv(65_536):
        received += chunk
        rest = received
        while len(rest) >= 8:
            _, kind, length, _ = struct.unpack_from("!BBHI", rest)
            if kind == 18 and len(rest) >= 10 and struct.unpack_from("!H", rest, 8)[0] == 1:
                return True
            rest = rest[length:]
    return False
