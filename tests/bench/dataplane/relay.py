"""TCP proxies of the plainest kind, for comparison: bytes are read into user space and written out, or spliced.

``python -m tests.bench.dataplane.relay (copies|splice) ADDRESS PORT TARGET TARGET_PORT``
"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

_PIECE = 1 << 20
_SPLICE_F_MOVE, _SPLICE_F_NONBLOCK = 1, 2
_F_SETPIPE_SZ = 1031


@dataclass
class _Way:
    """One direction of a connection.

    Attributes:
        source, target: Its ends.
        buffer: What was read and not yet written, with copies.
        begin, end: Where in the buffer that lies.
        pipe: The same without: both ends of a pipe.
        held: Bytes in the pipe.
        closed: The source has ended.
    """

    source: socket.socket
    target: socket.socket
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(_PIECE)))
    begin: int = 0
    end: int = 0
    pipe: tuple[int, int] = (-1, -1)
    held: int = 0
    closed: bool = False


def _copy(way: _Way) -> bool:
    """Move what there is through a buffer; whether anything moved."""
    moved = False
    if way.begin == way.end and not way.closed:
        try:
            way.begin, way.end = 0, way.source.recv_into(way.buffer)
        except BlockingIOError:
            return False
        moved = True
        if not way.end:
            way.closed = True
            way.target.shutdown(socket.SHUT_WR)
    while way.begin < way.end:
        try:
            way.begin += way.target.send(way.buffer[way.begin : way.end])
            moved = True
        except BlockingIOError:
            break
    return moved


def _splice(way: _Way) -> bool:
    """Move what there is through a pipe, without seeing it; whether anything moved."""
    moved = False
    if not way.closed:
        try:
            count = os.splice(way.source.fileno(), way.pipe[1], _PIECE, flags=_SPLICE_F_MOVE | _SPLICE_F_NONBLOCK)
            way.held += count
            moved = True
            if not count and not way.held:
                way.closed = True
                way.target.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
    while way.held:
        try:
            way.held -= os.splice(way.pipe[0], way.target.fileno(), way.held, flags=_SPLICE_F_MOVE | _SPLICE_F_NONBLOCK)
            moved = True
        except BlockingIOError:
            break
    return moved


_WAYS: dict[str, Callable[[_Way], bool]] = {"copies": _copy, "splice": _splice}


class Relay:
    """Takes connections and relays each to the target."""

    def __init__(self, kind: str, own: tuple[str, int], target: tuple[str, int]) -> None:
        self._move = _WAYS[kind]
        self._pipes = kind == "splice"
        self._target = target
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(own)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._both: dict[int, tuple[_Way, _Way]] = {}
        self._reader, self._writer = socket.socketpair()
        self._selector.register(self._reader, selectors.EVENT_READ)

    @property
    def address(self) -> tuple[str, int]:
        """Where it takes connections."""
        host, port = self._listener.getsockname()
        return host, port

    def stop(self) -> None:
        """Let `run` return, from another thread."""
        self._writer.send(b"!")

    def _accept(self) -> None:
        left, _ = self._listener.accept()
        right = socket.create_connection(self._target)
        ways = _Way(left, right), _Way(right, left)
        for sock in (left, right):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(sock, selectors.EVENT_READ)
            self._both[sock.fileno()] = ways
        if self._pipes:
            for way in ways:
                way.pipe = os.pipe()
                fcntl.fcntl(way.pipe[1], _F_SETPIPE_SZ, _PIECE)

    def _end(self, ways: tuple[_Way, _Way]) -> None:
        for way in ways:
            self._watch(way.source, 0)
            del self._both[way.source.fileno()]
            way.source.close()
            for end in way.pipe:
                if end >= 0:
                    os.close(end)

    def _serve(self, ways: tuple[_Way, _Way]) -> None:
        try:
            while sum(self._move(way) for way in ways):
                pass
        except OSError:
            self._end(ways)
            return
        if all(way.closed for way in ways):
            self._end(ways)
            return
        for way, back in (ways, ways[::-1]):
            # What cannot be written yet waits for room, not for more to come.
            waits = way.begin < way.end or way.held > 0
            events = selectors.EVENT_WRITE if waits else 0
            if not back.closed and not (back.begin < back.end or back.held):
                events |= selectors.EVENT_READ
            self._watch(way.target, events)

    def _watch(self, sock: socket.socket, events: int) -> None:
        registered = sock in self._selector.get_map()
        if registered and events:
            self._selector.modify(sock, events)
        elif events:
            self._selector.register(sock, events)
        elif registered:
            self._selector.unregister(sock)

    def run(self) -> None:
        """Until it is stopped."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._reader:
                    self._close()
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd in self._both:
                    self._serve(self._both[key.fd])

    def _close(self) -> None:
        while self._both:
            self._end(next(iter(self._both.values())))
        for sock in (self._listener, self._reader, self._writer):
            sock.close()
        self._selector.close()


def main() -> None:
    """Say when it is ready, and relay."""
    kind, address, port, target, target_port = sys.argv[1:]
    relay = Relay(kind, (address, int(port)), (target, int(target_port)))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    relay.run()


if __name__ == "__main__":
    main()
