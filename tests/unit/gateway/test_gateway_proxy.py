"""The proxy on the loopback, in real time: bytes intact, half-close, resets, refusals, drain and stop, and counters.

What it should connect to is given by the test instead of by the kernel's address translation; times are not looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import GatewayError
from emulator.model.profile import StationModel
from gateway.client import request
from gateway.proxy_daemon import ProxyDaemon, listen

CORE = StationModel(10_000, 5_000_000, None, 4096, "test")
RESET = struct.pack("ii", 1, 0)


class Rig:
    """A proxy in the main thread (it takes signals), its user in another."""

    def __init__(self, tmp_path: Path, model: StationModel = CORE, buffer_bytes: int = 1 << 20) -> None:
        self.control = tmp_path / "proxy.sock"
        self.listener = listen(0)
        self.port = self.listener.getsockname()[1]
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(30)
        self.target: tuple[str, int] | OSError = self.server.getsockname()
        self.drained = 0
        self._daemon = ProxyDaemon(
            self.listener, model, self.control, self._destination, buffer_bytes, on_drain=self._on_drain
        )

    def _destination(self, sock: socket.socket) -> tuple[str, int]:
        if isinstance(self.target, OSError):
            raise self.target
        return self.target

    def _on_drain(self) -> None:
        self.drained += 1

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A client and, behind the proxy, the server's end of its connection."""
        client = self.connect()
        accepted, _ = self.server.accept()
        accepted.settimeout(30)
        return client, accepted

    def stats(self) -> dict[str, Any]:
        return request(self.control, "stats")

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask until the figures are as wanted."""
        while not condition(stats := self.stats()):
            pass
        return stats

    def run(self, use: Callable[[], None], *, end: Callable[[], object] | None = None) -> dict[str, Any]:
        """Proxy while *use* runs in a thread; then stop (or *end*). Returns the final figures."""
        failures: list[BaseException] = []

        def user() -> None:
            try:
                while not self.control.exists():
                    pass
                use()
            except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                failures.append(error)
            finally:
                with contextlib.suppress(GatewayError):
                    (end or (lambda: request(self.control, "stop")))()

        thread = threading.Thread(target=user)
        thread.start()
        try:
            final = self._daemon.run()
        finally:
            thread.join()
            self.listener.close()
            self.server.close()
        if failures:
            raise failures[0]
        assert not self.control.exists()
        return final


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def test_both_directions_are_intact(tmp_path: Path) -> None:
    """Megabytes up and down at the same time, with uneven pieces; every copied byte is counted."""
    rig = Rig(tmp_path, buffer_bytes=100_000)
    up, down = os.urandom(3_000_017), os.urandom(2_000_003)

    def use() -> None:
        client, server = rig.pair()
        with client, server:
            got: list[bytes] = []
            threads = [
                threading.Thread(target=lambda: (client.sendall(up), client.shutdown(socket.SHUT_WR))),
                threading.Thread(target=lambda: (server.sendall(down), server.shutdown(socket.SHUT_WR))),
                threading.Thread(target=lambda: got.append(read_all(client))),
            ]
            for thread in threads:
                thread.start()
            assert hashlib.sha256(read_all(server)).digest() == hashlib.sha256(up).digest()
            for thread in threads:
                thread.join()
            assert got == [down]
        rig.wait(lambda stats: stats["counters"]["completed"] == 1)

    final = rig.run(use)
    counters = final["counters"]
    assert counters["read_bytes"] == counters["sent_bytes"] == len(up) + len(down)
    assert counters["copied_bytes"] == 2 * (len(up) + len(down))
    assert counters["discarded_bytes"] == counters["reset"] == counters["cut"] == 0
    assert final["open_connections"] == final["buffered_bytes"] == 0


@pytest.mark.parametrize("closer", [0, 1])
def test_half_close(closer: int, tmp_path: Path) -> None:
    """Either side may end its stream first and still receive: the end travels behind the last byte, not before."""
    rig = Rig(tmp_path)

    def use() -> None:
        ends = rig.pair()
        first, second = ends[closer], ends[1 - closer]
        first.sendall(b"question" * 1000)
        first.shutdown(socket.SHUT_WR)
        assert read_all(second) == b"question" * 1000
        second.sendall(b"answer" * 1000)
        second.close()
        assert read_all(first) == b"answer" * 1000
        first.close()
        rig.wait(lambda stats: stats["counters"]["completed"] == 1)

    final = rig.run(use)
    assert final["counters"]["reset"] == 0


@pytest.mark.parametrize("breaker", [0, 1])
def test_resets_are_passed_on(breaker: int, tmp_path: Path) -> None:
    """A reset by one side reaches the other as a reset, not as an orderly end."""
    rig = Rig(tmp_path)

    def use() -> None:
        ends = rig.pair()
        ends[0].sendall(b"x")
        assert ends[1].recv(1) == b"x"
        ends[breaker].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        ends[breaker].close()
        with pytest.raises(ConnectionResetError):
            ends[1 - breaker].recv(1)
        ends[1 - breaker].close()
        rig.wait(lambda stats: stats["open_connections"] == 0)

    assert rig.run(use)["counters"]["reset"] == 1


def test_failed_connections_are_reset(tmp_path: Path) -> None:
    """A closed port, a connection that was not intercepted, and one that would come back to the proxy itself."""
    rig = Rig(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = gone.getsockname()

    def use() -> None:
        for target in (closed, OSError("not intercepted"), ("127.0.0.1", rig.port)):
            rig.target = target
            # The reset may come before the client has even returned from connecting.
            with pytest.raises(ConnectionResetError), rig.connect() as client:
                client.recv(1)

    counters = rig.run(use)["counters"]
    assert counters["accepted"] == 3
    assert counters["connect_failed"] == 1
    assert counters["not_intercepted"] == 2


def test_a_slow_receiver_stops_the_reading(tmp_path: Path) -> None:
    """What is held in a direction never exceeds the buffer; everything comes when the receiver reads."""
    rig = Rig(tmp_path, buffer_bytes=50_000)

    def use() -> None:
        client, server = rig.pair()
        client.setblocking(False)
        pushed = 0
        stuck = 0
        while stuck < 50:
            try:
                pushed += client.send(bytes(1 << 16))
                stuck = 0
            except BlockingIOError:
                held = rig.stats()["buffered_bytes"]
                assert held <= 50_000
                stuck = stuck + 1 if held == 50_000 else 0
        client.setblocking(True)
        client.shutdown(socket.SHUT_WR)
        assert len(read_all(server)) == pushed
        server.close()
        client.close()
        rig.wait(lambda stats: stats["counters"]["completed"] == 1)

    rig.run(use)


def test_many_connections(tmp_path: Path) -> None:
    """Two hundred at once, each with its own bytes, through a core that serves one packet at a time."""
    rig = Rig(tmp_path)

    def use() -> None:
        clients = [rig.connect() for _ in range(200)]
        servers = [rig.server.accept()[0] for _ in clients]
        rig.wait(lambda stats: stats["open_connections"] == 200)
        for number, client in enumerate(clients):
            client.sendall(b"%d." % number)
            client.shutdown(socket.SHUT_WR)
        for server in servers:
            server.sendall(read_all(server) * 2)
            server.close()
        for number, client in enumerate(clients):
            assert read_all(client) == b"%d.%d." % (number, number)
            client.close()
        rig.wait(lambda stats: stats["counters"]["completed"] == 200)

    final = rig.run(use)
    assert final["station"]["served_packets"] == 200 + 2 * 2 * 200


def test_drain_stops_reading_and_keeps_connections(tmp_path: Path) -> None:
    """After drain nothing new is accepted or read, what was read has arrived; stop then resets what is open."""
    rig = Rig(tmp_path)

    def use() -> None:
        client, server = rig.pair()
        client.sendall(b"before")
        assert server.recv(100) == b"before"
        assert request(rig.control, "drain")["draining"] is True
        assert rig.drained == 1
        client.sendall(b"after")
        assert rig.stats()["counters"]["read_bytes"] == 6
        final = request(rig.control, "stop")
        assert final["counters"]["cut"] == 1
        assert final["open_connections"] == 0
        with pytest.raises(ConnectionResetError):
            server.recv(1)
        client.close()
        server.close()

    final = rig.run(use)
    assert final["draining"] is True
    assert rig.drained == 1


def test_a_signal_stops_it_and_held_bytes_arrive(tmp_path: Path) -> None:
    """Bytes that wait in the station when the signal comes are delivered before the end."""
    rig = Rig(tmp_path, StationModel(50_000_000, None, None, 4096, "test"))
    seen: list[bytes] = []

    def use() -> None:
        client, server = rig.pair()
        client.sendall(b"held")
        rig.wait(lambda stats: stats["buffered_bytes"] == 4)
        os.kill(os.getpid(), signal.SIGTERM)
        with contextlib.suppress(ConnectionResetError):
            while part := server.recv(100):
                seen.append(part)
        client.close()
        server.close()

    final = rig.run(use, end=lambda: None)
    assert b"".join(seen) == b"held"
    assert final["counters"]["sent_bytes"] == 4


def test_without_descriptors_it_waits_instead_of_spinning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of descriptors, it leaves the backlog alone until a connection ends, then goes on accepting."""
    rig = Rig(tmp_path)
    real = rig.listener
    refusals = [1]

    class Short:
        """The listener of a process that has no descriptor left, once a first connection is open."""

        def fileno(self) -> int:
            return real.fileno()

        def accept(self) -> tuple[socket.socket, Any]:
            accepted = real.accept()
            if refusals and refusals.pop():
                held.append(accepted[0])
                raise OSError(24, "Too many open files")
            return accepted

    held: list[socket.socket] = []

    def use() -> None:
        client, server = rig.pair()
        monkeypatch.setattr(rig._daemon._proxy, "_listener", Short())
        with rig.connect():
            rig.wait(lambda stats: stats["counters"]["accept_paused"] == 1)
            client.close()
            server.close()
            rig.wait(lambda stats: stats["counters"]["completed"] == 1)
            again, other = rig.pair()
            again.close()
            other.close()
        rig.wait(lambda stats: stats["counters"]["completed"] == 2)

    rig.run(use)
    for sock in held:
        sock.close()


def test_the_port_must_be_free() -> None:
    """One clear line when somebody listens there already."""
    with listen(0) as first, pytest.raises(GatewayError, match=r"cannot listen on port \d+: Address already in use"):
        listen(first.getsockname()[1])
