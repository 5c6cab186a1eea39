"""The control socket: what is understood, what is refused in words, and that nothing breaks it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import GatewayError
from gateway.client import ControlClient, request
from gateway.control import MAX_CLIENTS, MAX_LINE_BYTES, ControlServer, Op, RequestError, parse_request
from gateway.loop import Loop
from gateway.upgrade import Predecessor
from tests.support.gateway_control import Running


def outcome(line: bytes) -> str:
    """The operation, or what is said about it."""
    try:
        return parse_request(line)
    except RequestError as error:
        return str(error)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_line_is_a_request_or_an_error(line: bytes) -> None:
    """No bytes lead to anything but an operation or a `RequestError` of one line."""
    said = outcome(line)
    assert said in list(Op) or "\n" not in said


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["v", "op", "x", ""]), json_values))
def test_any_object_is_a_request_or_an_error(message: dict[str, Any]) -> None:
    """The same for JSON objects with the right keys and wrong values."""
    said = outcome(json.dumps(message).encode())
    if said in list(Op):
        assert message == {"v": 1, "op": said}
    assert len(said) < 300


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"stats", "not a JSON object on one line"),
        (b"[" * 100_000, "not a JSON object on one line"),
        (b'"stats"', "not a JSON object"),
        (b"{}", "'v' is None: this daemon speaks versions 1 and 2"),
        (b'{"v": true, "op": "stats"}', "'v' is True"),
        (b'{"v": 1.0, "op": "stats"}', "'v' is 1.0"),
        (b'{"v": 2, "op": "stats"}', "'v' is 2, not 1"),
        (b'{"v": 3, "op": "stats"}', "'v' is 3: this daemon speaks versions 1 and 2"),
        (b'{"v": 1}', "'op' is None: it is one of"),
        (b'{"v": 1, "op": ["stats"]}', "it is one of"),
        (b'{"v": 1, "op": "STATS"}', "'op' is 'STATS': it is one of drain, stats, stop"),
        (b'{"v": 1, "op": "stats", "why": 1}', "unknown key 'why'"),
        (b'{"v": 1, "op": "' + b"x" * 500 + b'"}', "..."),
    ],
)
def test_what_is_wrong_is_said(line: bytes, says: str) -> None:
    """Each mistake has its own words."""
    with pytest.raises(RequestError) as caught:
        parse_request(line)
    assert says in str(caught.value)


class Daemon:
    """A daemon that only remembers what it was told."""

    mode = "test"

    def __init__(self) -> None:
        self.told: list[str] = []

    def stats(self) -> dict[str, Any]:
        return {"told": list(self.told)}

    def drain(self) -> None:
        self.told.append("drain")

    def stop(self) -> None:
        self.told.append("stop")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "control.sock", Daemon())
    yield made
    made.close()
    assert not made.path.exists()


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(30)
    sock.connect(str(path))
    return sock


def test_stats_are_answered_at_once(running: Running) -> None:
    """One question, one answer, over and over."""
    for _ in range(3):
        assert request(running.path, Op.STATS) == {"told": []}


def test_drain_and_stop_are_answered_when_all_is_out(running: Running) -> None:
    """The answer waits for `finished`; a client that went away meanwhile does no harm."""
    with connect(running.path) as patient, connect(running.path) as gone:
        patient.sendall(b'{"v":1,"op":"drain"}\n{"v":1,"op":"stats"}\n')
        answers = patient.makefile("rb")
        assert json.loads(answers.readline())["op"] == "stats"
        gone.sendall(b'{"v":1,"op":"stop"}\n')
        while request(running.path, Op.STATS)["told"] != ["drain", "stop"]:
            pass
        gone.close()
        request(running.path, Op.STATS)
        running.finished()
        answer = json.loads(answers.readline())
        assert answer == {"v": 1, "ok": True, "op": "drain", "stats": {"told": ["drain", "stop"]}}
        answers.close()


def test_lines_arrive_in_any_pieces(running: Running) -> None:
    """Byte by byte, or many lines at once, with empty ones between."""
    with connect(running.path) as sock, sock.makefile("rb") as answers:
        for byte in b'{"v":1,"op":"stats"}\n':
            sock.send(bytes([byte]))
        assert json.loads(answers.readline())["ok"] is True
        sock.sendall(b'\n \r\nnonsense\n{"v":1,"op":"stats"}\n\n')
        assert json.loads(answers.readline())["ok"] is False
        assert json.loads(answers.readline())["ok"] is True


def test_an_endless_line_ends_the_connection_only(running: Running) -> None:
    """A line that grows beyond the limit is refused in words; other clients are served on."""
    with connect(running.path) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(b"x" * (3 * MAX_LINE_BYTES))
        said = b""
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(4096):
                said += part
    assert said == b"" or b"longer than 1048576 bytes" in said
    assert request(running.path, Op.STATS) == {"told": []}


def test_a_client_that_never_reads_is_not_served_for_ever(running: Running) -> None:
    """Answers pile up only until the socket is full; then its questions wait, and others are still answered."""
    with connect(running.path) as greedy:
        greedy.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(100_000):
                greedy.send(b'{"v":1,"op":"stats"}\n' * 100)
        assert request(running.path, Op.STATS) == {"told": []}


def test_too_many_clients_are_turned_away(running: Running) -> None:
    """The limit holds, and a place that is given up can be used again."""
    held = [connect(running.path) for _ in range(MAX_CLIENTS)]
    for sock in held:
        sock.sendall(b'{"v":1,"op":"stats"}\n')
        assert sock.recv(100)
    with connect(running.path) as late:
        assert late.recv(1) == b""
    held.pop().close()
    while True:
        with contextlib.suppress(GatewayError):
            assert request(running.path, Op.STATS) == {"told": []}
            break
    for sock in held:
        sock.close()


def test_a_dead_daemons_socket_is_replaced(tmp_path: Path) -> None:
    """What a killed daemon left behind does not stop the next one."""
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    running = Running(path, Daemon())
    assert request(path, "stats") == {"told": []}
    running.close()


def test_a_living_daemon_is_not_pushed_aside(running: Running) -> None:
    """A second daemon on the same path gets one clear line, and the first goes on."""
    with contextlib.closing(Loop()) as loop, pytest.raises(GatewayError, match="another daemon listens there"):
        ControlServer(running.path, loop, Daemon())
    assert request(running.path, "stats") == {"told": []}


def test_a_stuck_daemon_is_not_waited_for(tmp_path: Path) -> None:
    """Nor is one pushed aside that lives but accepts nobody any more."""
    path = tmp_path / "control.sock"
    with contextlib.ExitStack() as stack:
        stuck = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        stuck.bind(str(path))
        stuck.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                waiting.setblocking(False)
                waiting.connect(str(path))
        loop = stack.enter_context(contextlib.closing(Loop()))
        with pytest.raises(GatewayError, match="another daemon listens there"):
            ControlServer(path, loop, Daemon())
    assert path.exists()


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    """A file that is no socket is not removed; a path that is too long and a missing folder are said."""
    precious = tmp_path / "precious"
    precious.write_text("data")
    with contextlib.closing(Loop()) as loop:
        for path, says in (
            (precious, "there is a file that is not a socket"),
            (tmp_path / ("x" * 120), "longer than 107 bytes"),
            (tmp_path / "no" / "such", "No such file or directory"),
        ):
            with pytest.raises(GatewayError, match=says):
                ControlServer(path, loop, Daemon())
    assert precious.read_text() == "data"


@contextlib.contextmanager
def babbler(path: Path, answers: list[bytes]) -> Iterator[None]:
    """Somebody who listens on a path and answers each connection's first question with the next of some bytes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                sock, _ = listener.accept()
                with sock, contextlib.suppress(OSError):
                    sock.recv(1000)
                    sock.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


NONSENSE = [
    b"SSH-2.0-OpenSSH_9.2p1\r\n",
    b"[" * 100_000 + b"\n",
    b'"ok"\n',
    b"{}\n",
    b"\xff\xfe\n",
    b'{"ok": true}\n',
    b'{"ok": true, "stats": 5, "result": []}\n',
    b'{"ok": false}\n',
    b'{"ok": false, "error": {"words": "none"}}\n',
    b'{"ok": true, "result"',
]


def test_a_stranger_on_the_control_socket_is_one_line(tmp_path: Path) -> None:
    """Whatever somebody else's program answers, every client says so in one line, and none waits or breaks."""
    path = tmp_path / "stranger.sock"
    with babbler(path, [answer for answer in NONSENSE for _ in range(3)]):
        for _ in NONSENSE:
            for ask in (
                lambda: request(path, "stats", 30),
                lambda: ControlClient(path, timeout_s=30),
                lambda: Predecessor(path, "fast"),
            ):
                with pytest.raises(GatewayError) as caught:
                    ask()
                assert str(path) in str(caught.value)
                assert "\n" not in str(caught.value)
                assert len(str(caught.value)) < 300


def test_the_client_says_what_went_wrong(tmp_path: Path, running: Running) -> None:
    """Nobody there, an operation that does not exist, a daemon that ends without an answer."""
    with pytest.raises(GatewayError, match="No such file"):
        request(tmp_path / "nobody.sock", "stats")
    with pytest.raises(GatewayError, match="'op' is 'fly'"):
        request(running.path, "fly")
    mute = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(mute))
        listener.listen()

        def hang_up() -> None:
            sock, _ = listener.accept()
            sock.recv(100)
            sock.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(GatewayError, match="ended without an answer to 'stats'"):
            request(mute, "stats")
        thread.join()
