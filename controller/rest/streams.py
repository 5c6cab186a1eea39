"""Sends events as they happen, to a bounded number of readers, none of whom can make it keep anything for them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from controller.green import eventlet
from controller.rest.events import Follow
from controller.rest.http import Problem

MOST_STREAMS = 64
HEARTBEAT_S = 15.0
SLOW_S = 10.0
"""A reader that takes nothing for so long is cut off."""
_SEND_BUFFER_BYTES = 65_536
HEARTBEAT = b": heartbeat\n\n"


class Streams:
    """The streams of one server.

    Args:
        most: How many there may be.
        heartbeat_s: How often something is sent when nothing happens.
        slow_s: How long a reader may take nothing.
    """

    def __init__(self, most: int = MOST_STREAMS, heartbeat_s: float = HEARTBEAT_S, slow_s: float = SLOW_S) -> None:
        self._most = most
        self._heartbeat_s = heartbeat_s
        self._slow_s = slow_s
        self.count = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Room for one stream.

        Raises:
            Problem: There is none.
        """
        if self.count >= self._most:
            detail = f"there are {self._most} streams of events already, which is the most there can be"
            raise Problem(503, detail, {"Retry-After": "15"})
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    def run(self, sock: Any, follow: Follow) -> None:
        """Send until the reader leaves or is too slow. Raises: OSError."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        woken = _Bell()
        stop_listening = follow.journal.listen(lambda _: woken.ring())
        watcher = eventlet.spawn(_watch, sock, woken)
        try:
            while not woken.ended:
                sent = False
                for chunk in follow.chunks():
                    self._send(sock, chunk)
                    sent = True
                if not woken.wait(self._heartbeat_s) and not sent:
                    self._send(sock, HEARTBEAT)
        except _Slow:
            return
        finally:
            stop_listening()
            watcher.kill()

    def _send(self, sock: Any, chunk: bytes) -> None:
        with eventlet.Timeout(self._slow_s, _Slow()):
            sock.sendall(chunk)


class _Slow(Exception):
    """A reader takes nothing."""


class _Bell:
    """Wakes one green thread, also if it was rung before that one waited."""

    def __init__(self) -> None:
        self._event = eventlet.event.Event()
        self.ended = False

    def ring(self) -> None:
        if not self._event.ready():
            self._event.send(None)

    def end(self) -> None:
        self.ended = True
        self.ring()

    def wait(self, timeout_s: float) -> bool:
        """Whether it was rung in time."""
        with eventlet.Timeout(timeout_s, False):
            self._event.wait()
        rung: bool = self._event.ready()
        if rung:
            self._event = eventlet.event.Event()
        return rung


def _watch(sock: Any, bell: _Bell) -> None:
    """Notice that the reader left; whatever else it sends is not looked at."""
    with contextlib.suppress(OSError):
        while sock.recv(4096):
            pass
    bell.end()
