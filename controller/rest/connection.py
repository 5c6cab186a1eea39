"""One HTTP connection: requests in, answers out, each within its time. Every error has a problem body."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from controller.green import eventlet
from controller.rest.api import Api
from controller.rest.http import Problem, Response, problem_response
from controller.rest.streams import Streams
from controller.rest.wire import Head, parse_head, split_head

LOG = logging.getLogger("controller.rest")
_LINGER_S = 1.0
_LINGER_BYTES = 4 << 20
_CHUNK_BYTES = 65_536
_BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


@dataclass(frozen=True)
class Patience:
    """How long a client may take, in seconds.

    Attributes:
        idle_s: To begin with a request.
        head_s: For a head, from its first byte on.
        body_s: For a body.
        write_s: To take an answer.
        room_s: How long a connection may wait for its request before it has to make room for another one.
    """

    idle_s: float = 75.0
    head_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 60.0
    room_s: float = 1.0


MOST_UNREAD_BYTES = 64 << 20
_SMALL_BYTES = 65_536


class Outbox:
    """How much of large answers is in memory because clients have not read it yet, on all connections together.

    Args:
        most_bytes: At most so much; but one answer, however large, is always possible.
    """

    def __init__(self, most_bytes: int = MOST_UNREAD_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0

    @contextlib.contextmanager
    def place(self, size: int) -> Iterator[None]:
        """Room for an answer of some bytes.

        Raises:
            Problem: There is none.
        """
        if size <= _SMALL_BYTES:
            yield
            return
        if self._bytes and self._bytes + size > self._most_bytes:
            detail = f"{self._bytes} bytes of other answers wait to be read by slow clients"
            raise Problem(503, detail, {"Retry-After": "1"})
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size


class Gone(Exception):
    """The other side left, or was too slow for an answer to be of use."""


class Connection:
    """Serves one connection until it ends.

    Args:
        sock: A green socket.
        api: Answers.
        streams: Sends events as they happen.
        patience: How long the client may take.
        outbox: What large answers wait in.

    Attributes:
        waiting_since: When it began to wait for a request, on the monotonic clock in seconds; None: it has one.
    """

    def __init__(self, sock: Any, api: Api, streams: Streams, patience: Patience, outbox: Outbox) -> None:
        self._sock = sock
        self._api = api
        self._streams = streams
        self._patience = patience
        self._outbox = outbox
        self._received = bytearray()
        self.waiting_since: float | None = time.monotonic()

    def serve(self) -> None:
        """Answer requests until there are no more. Raises: OSError, Gone."""
        while True:
            try:
                head = self._head()
                body = self._body(head)
            except Problem as problem:
                self.refuse(problem)
                return
            if not self._exchange(head, body):
                return
            self.waiting_since = time.monotonic()
            eventlet.sleep(0)  # many requests in a row must not keep others waiting

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem that leaves no way to go on, and see that the answer arrives."""
        self._send(problem_response(problem, "*"), "GET", keep=False)
        self._sock.shutdown(1)
        # Closing with unread data in the socket would take the answer back.
        left = _LINGER_BYTES
        with eventlet.Timeout(_LINGER_S, False):
            while left > 0 and (chunk := self._sock.recv(_CHUNK_BYTES)):
                left -= len(chunk)

    def _head(self) -> Head:
        if self._received[:2] == b"\r\n":
            del self._received[:2]  # RFC 9112, 2.2
        if not self._received:
            with eventlet.Timeout(self._patience.idle_s, Gone("idle")):
                self._more()
            if self._received[:2] == b"\r\n":
                del self._received[:2]
        limit_s = self._patience.head_s
        with eventlet.Timeout(limit_s, Problem(408, f"the request's head took more than {limit_s:g} s")):
            while (end := split_head(self._received)) is None:
                self._more()
        data = bytes(self._received[:end])
        del self._received[:end]
        self.waiting_since = None
        return parse_head(data)

    def _body(self, head: Head) -> bytes:
        size = head.body_bytes()
        if size == 0:
            return b""
        if head.expects_continue and len(self._received) < size and head.minor >= 1:
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        limit_s = self._patience.body_s
        with eventlet.Timeout(limit_s, Problem(408, f"the body took more than {limit_s:g} s")):
            while len(self._received) < size:
                self._more()
        body = bytes(self._received[:size])
        del self._received[:size]
        return body

    def _more(self) -> None:
        chunk = self._sock.recv(_CHUNK_BYTES)
        if not chunk:
            raise Gone("closed")
        self._received += chunk

    def _exchange(self, head: Head, body: bytes) -> bool:
        """Answer one request; false: it was the last one."""
        response = self._api.answer(head.method, head.target, head.headers, body)
        LOG.debug("%s %s: %s", head.method, head.target, int(response.status))
        if response.follow is not None and head.method != "HEAD":
            try:
                with self._streams.place():
                    self._send(response, head.method, keep=False)
                    self._streams.run(self._sock, response.follow)
            except Problem as problem:
                self.refuse(problem)
            return False
        try:
            with self._outbox.place(len(response.body)):
                self._send(response, head.method, keep=head.keeps_alive)
        except Problem as problem:
            response = problem_response(problem, head.target.partition("?")[0])
            self._send(response, head.method, keep=head.keeps_alive)
        return head.keeps_alive

    def _send(self, response: Response, method: str, *, keep: bool) -> None:
        status = HTTPStatus(response.status)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Server: icgw", f"Date: {formatdate(usegmt=True)}"]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        if response.follow is not None:
            lines.append(f"Content-Type: {response.content_type}")
        elif status not in _BODILESS:
            if response.body:
                lines.append(f"Content-Type: {response.content_type}")
            lines.append(f"Content-Length: {len(response.body)}")
        if not keep:
            lines.append("Connection: close")
        data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        if method != "HEAD" and status not in _BODILESS:
            data += response.body
        with eventlet.Timeout(self._patience.write_s, Gone("does not read")):
            self._sock.sendall(data)
