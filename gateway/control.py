"""The control socket: a Unix stream socket that carries requests and answers, JSON objects, one a line.

What can be asked is in `gateway.control_requests`; here are only connections: lines that come in pieces or never end,
clients that do not read, that go away, that are too many. Nothing that a client does harms the daemon or other clients.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from emulator.errors import GatewayError
from gateway.control_requests import (
    MAX_LINE_BYTES,
    VERSION,
    Controlled,
    Op,
    Question,
    Reply,
    RequestError,
    answer_later,
    handle,
    parse_request,
    refusal,
    says_taken,
)
from gateway.loop import Loop

__all__ = ["MAX_CLIENTS", "MAX_LINE_BYTES", "VERSION", "ControlServer", "Op", "RequestError", "parse_request"]

MAX_CLIENTS = 32
_MAX_PATH_BYTES = 107
_MAX_OUTBOX_BYTES = 1 << 18
"""A client that has so much to read is not served until it has read it."""

_HAND_OVER_S = 10.0
"""How long a daemon stands still for a successor that does not say that it has taken over."""


class _Client:
    """One connection: what has been read of a line, what is still to be written, the version that it spoke last."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.inbox = bytearray()
        self.outbox = b""
        self.version = VERSION
        self.closing = False


class ControlServer:
    """Listens from the moment it is made until it is closed; the socket's file shows that the daemon is ready.

    Args:
        path: Where to listen; what a dead daemon left there is replaced.
        loop: Where to wait.
        daemon: Who carries the operations out.
        handed_over: Is called after an upgrade: whether the successor has taken everything, or the daemon is to go on.
        listener: The listening socket of the daemon that handed over to this one; None: a new one.

    Raises:
        GatewayError: A living daemon listens there, or the path cannot be used.
    """

    def __init__(
        self,
        path: Path,
        loop: Loop,
        daemon: Controlled,
        handed_over: Callable[[bool], None] = lambda _taken: None,
        listener: socket.socket | None = None,
    ) -> None:
        self._path = path
        self._loop = loop
        self._daemon = daemon
        self._handed_over = handed_over
        self._clients: dict[int, _Client] = {}
        self._waiting: list[tuple[_Client, Question]] = []
        self._listener = listener or _listen(path)
        self._listener.setblocking(False)
        self._identity = path.stat().st_ino
        self._is_ours = True
        loop.add(self._listener.fileno(), self._accept)

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        if len(self._clients) >= MAX_CLIENTS:
            sock.close()
            return
        sock.setblocking(False)
        self._clients[sock.fileno()] = client = _Client(sock)
        self._loop.add(sock.fileno(), lambda events: self._serve(client, events))

    def _serve(self, client: _Client, events: int) -> None:
        if events & select.EPOLLIN and not client.closing and not client.outbox:
            try:
                data = client.socket.recv(1 << 16)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self._drop(client)
                return
            client.inbox += data or b""
        elif events & (select.EPOLLHUP | select.EPOLLERR):
            self._drop(client)
            return
        self._advance(client)

    def _advance(self, client: _Client) -> None:
        """Answer the lines that are whole, as long as the client reads the answers."""
        while self._is_connected(client):
            if client.outbox:
                self._flush(client)
                if client.outbox:
                    return
            elif not self._read_lines(client):
                return

    def _is_connected(self, client: _Client) -> bool:
        return self._clients.get(client.socket.fileno()) is client

    def _read_lines(self, client: _Client) -> bool:
        """Handle lines until there is enough to send; False: there is nothing to do."""
        inbox = client.inbox
        start = 0
        while not client.closing and len(client.outbox) < _MAX_OUTBOX_BYTES:
            end = inbox.find(b"\n", start)
            if (end if end >= 0 else len(inbox)) - start > MAX_LINE_BYTES:
                client.outbox += refusal(client.version, f"a line is longer than {MAX_LINE_BYTES} bytes")
                client.closing = True
            elif end < 0:
                break
            else:
                line = bytes(inbox[start:end])
                start = end + 1
                if line.strip():
                    self._handle(client, line)
                    if not self._is_connected(client):
                        return False
        del inbox[:start]
        return bool(client.outbox)

    def _handle(self, client: _Client, line: bytes) -> None:
        reply, client.version = handle(line, self._daemon, client.version)
        if reply.hands_over:
            self._hand_over(client, reply)
        elif reply.later is not None:
            self._waiting.append((client, reply.later))
        else:
            client.outbox += reply.data

    def _hand_over(self, client: _Client, reply: Reply) -> None:
        """Send an answer with descriptors and the listening socket, and wait until the successor has taken everything.

        The daemon stands still meanwhile, for nothing may change that was sent. If the successor fails it goes on.
        """
        sock = client.socket
        sock.settimeout(_HAND_OVER_S)
        taken = False
        descriptors = [*reply.descriptors, self._listener.fileno()]
        with contextlib.suppress(OSError):
            # Descriptors come with the first byte that is sent along with them.
            sock.sendall(client.outbox)
            client.outbox = b""
            rights = array.array("i", descriptors)
            sent = sock.sendmsg([reply.data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            sock.sendall(reply.data[sent:])
            taken = _is_taken(sock)
        self._drop(client)
        self._is_ours = not taken
        self._handed_over(taken)

    def finished(self) -> None:
        """Answer all who wait for the end of draining."""
        waiting, self._waiting = self._waiting, []
        for client, question in waiting:
            if self._is_connected(client):
                client.outbox += answer_later(question, self._daemon.stats())
                self._flush(client)

    def _flush(self, client: _Client) -> None:
        try:
            sent = client.socket.send(client.outbox)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(client)
            return
        client.outbox = client.outbox[sent:]
        if not client.outbox and client.closing:
            self._drop(client)
            return
        # Who asks without reading the answers is not read from until it does.
        self._loop.modify(client.socket.fileno(), select.EPOLLOUT if client.outbox else select.EPOLLIN)

    def _drop(self, client: _Client) -> None:
        fd = client.socket.fileno()
        self._loop.remove(fd)
        del self._clients[fd]
        client.socket.close()

    def close(self) -> None:
        """Close everything and remove the socket's file, if it is still ours."""
        for client in list(self._clients.values()):
            self._drop(client)
        self._loop.remove(self._listener.fileno())
        self._listener.close()
        with contextlib.suppress(OSError):
            if self._is_ours and self._path.stat().st_ino == self._identity:
                self._path.unlink()


def _is_taken(sock: socket.socket) -> bool:
    """Whether the successor says that it has taken everything over, before it hangs up."""
    line = b""
    while b"\n" not in line and len(line) < MAX_LINE_BYTES:
        data = sock.recv(4096)
        if not data:
            return False
        line += data
    return says_taken(line)


def _listen(path: Path) -> socket.socket:
    raw = os.fsencode(path)
    if len(raw) > _MAX_PATH_BYTES:
        raise GatewayError(f"control socket {path}: the path is longer than {_MAX_PATH_BYTES} bytes")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_left_over(path)
        # Listening comes before the name shows up, so whoever sees the file can connect.
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        if len(os.fsencode(temporary)) <= _MAX_PATH_BYTES:
            listener.bind(str(temporary))
            listener.listen(MAX_CLIENTS)
            temporary.rename(path)
        else:
            listener.bind(str(path))
            listener.listen(MAX_CLIENTS)
    except OSError as error:
        listener.close()
        raise GatewayError(f"control socket {path}: {error.strerror}") from None
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_left_over(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise GatewayError(f"control socket {path}: there is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A daemon that lives but accepts nobody must not be waited for.
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass
    raise GatewayError(f"control socket {path}: another daemon listens there")
