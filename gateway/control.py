"""The control socket: a Unix stream socket that carries JSON objects, one a line, versioned.

::

    -> {"v": 1, "op": "stats"}
    <- {"v": 1, "ok": true, "op": "stats", "stats": {...}}
    -> {"v": 1, "op": "fly"}
    <- {"v": 1, "ok": false, "error": "'op' is 'fly': it is one of drain, stats, stop"}

``stats`` answers at once; ``drain`` (take in no more, let out what is held) and ``stop`` (the same, then end) answer
with the final figures when nothing is held any more. Any message that is not understood is answered with an error and
harms nothing. Not responsible for what the operations do: that is the daemon's (`Controlled`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from emulator.errors import GatewayError
from gateway.loop import Loop

VERSION = 1
MAX_LINE_BYTES = 65_536
MAX_CLIENTS = 32
_MAX_PATH_BYTES = 107


class Op(str, Enum):
    """What a client can ask for."""

    DRAIN = "drain"
    STATS = "stats"
    STOP = "stop"


class RequestError(ValueError):
    """A message that is not a request; its text is the answer."""


class Controlled(Protocol):
    """What a daemon offers to the control socket."""

    def stats(self) -> dict[str, Any]:
        """All figures, as plain data."""
        ...

    def drain(self) -> None:
        """Take in no more; call `ControlServer.finished` when nothing is held any more."""
        ...

    def stop(self) -> None:
        """Drain, then end."""
        ...


def parse_request(line: bytes) -> Op:
    """Read one line.

    Raises:
        RequestError: It is not a request of this version.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestError("not a JSON object on one line") from None
    if not isinstance(message, dict):
        raise RequestError("not a JSON object")
    version = message.get("v")
    if type(version) is not int or version != VERSION:
        raise RequestError(f"'v' is {_shown(version)}: this daemon speaks version {VERSION}")
    if unknown := sorted(set(message) - {"v", "op"}):
        raise RequestError(f"unknown key {_shown(unknown[0])}")
    op = message.get("op")
    try:
        return Op(op)
    except ValueError:
        raise RequestError(f"'op' is {_shown(op)}: it is one of {', '.join(Op)}") from None


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps({"v": VERSION, **message}, separators=(",", ":")).encode() + b"\n"


class _Client:
    """One connection: what has been read of a line, what is still to be written."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.inbox = b""
        self.outbox = b""
        self.closing = False


class ControlServer:
    """Listens from the moment it is made until it is closed; the socket's file shows that the daemon is ready.

    Args:
        path: Where to listen; what a dead daemon left there is replaced.
        loop: Where to wait.
        daemon: Who carries the operations out.

    Raises:
        GatewayError: A living daemon listens there, or the path cannot be used.
    """

    def __init__(self, path: Path, loop: Loop, daemon: Controlled) -> None:
        self._path = path
        self._loop = loop
        self._daemon = daemon
        self._clients: dict[int, _Client] = {}
        self._waiting: list[tuple[_Client, Op]] = []
        self._listener = _listen(path)
        self._identity = path.stat().st_ino
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
        if events & select.EPOLLIN and not client.closing:
            try:
                data = client.socket.recv(MAX_LINE_BYTES)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self._drop(client)
                return
            client.inbox += data or b""
            self._read_lines(client)
        elif events & (select.EPOLLHUP | select.EPOLLERR):
            self._drop(client)
            return
        if client.outbox:
            self._flush(client)

    def _read_lines(self, client: _Client) -> None:
        while b"\n" in client.inbox and not client.closing:
            line, client.inbox = client.inbox.split(b"\n", 1)
            if len(line) > MAX_LINE_BYTES:
                break
            if line.strip():
                self._handle(client, line)
        if len(client.inbox) > MAX_LINE_BYTES:
            client.outbox += _encode({"ok": False, "error": f"a line is longer than {MAX_LINE_BYTES} bytes"})
            client.closing = True

    def _handle(self, client: _Client, line: bytes) -> None:
        try:
            op = parse_request(line)
        except RequestError as error:
            client.outbox += _encode({"ok": False, "error": str(error)})
            return
        if op is Op.STATS:
            client.outbox += self._answer(op)
            return
        self._waiting.append((client, op))
        if op is Op.DRAIN:
            self._daemon.drain()
        else:
            self._daemon.stop()

    def _answer(self, op: Op) -> bytes:
        return _encode({"ok": True, "op": op.value, "stats": self._daemon.stats()})

    def finished(self) -> None:
        """Answer all who wait for the end of draining."""
        waiting, self._waiting = self._waiting, []
        for client, op in waiting:
            if self._clients.get(client.socket.fileno()) is client:
                client.outbox += self._answer(op)
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
            if self._path.stat().st_ino == self._identity:
                self._path.unlink()


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
    listener.setblocking(False)
    return listener


def _remove_left_over(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise GatewayError(f"control socket {path}: there is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise GatewayError(f"control socket {path}: another daemon listens there")
