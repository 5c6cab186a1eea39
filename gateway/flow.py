"""One proxied connection: two TCP connections, and a buffer of finite length in each direction between them.

A direction (`Lane`) copies: bytes are received into memory of this process, held until the station lets them go, and
sent from there. When the receiver is slow the lane fills up to its limit and is read no more, so the sender's TCP
window closes. The order of bytes is kept, and the end of a stream takes its turn behind them (half-close).

::

    OPENING --connected--> COPYING --both ends passed on--> CLOSED
       |                      |
       +------failed----------+--reset by either side-----> CLOSED (both sides are reset)
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

CHUNK_BYTES = 65_536
"""Most that is read at once; of it, whole segments, so that a full chunk costs no part of a packet too much."""

SOCKET_BUFFER_BYTES = 16 << 20
"""Send and receive buffer of each socket: 100 Gbit/s times more than 1 ms, so that no window is the limit by chance."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_FALLBACK_MSS = 536
"""RFC 9293, 3.7.1: the segment size where none was negotiated."""


def size_buffers(sock: socket.socket) -> None:
    """Give a socket its buffers; before it connects or listens, for the window scale is settled then."""
    for forced, plain in ((_SO_RCVBUFFORCE, socket.SO_RCVBUF), (_SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BUFFER_BYTES)
        except PermissionError:
            # Without the right to go beyond the host's limit: as much as it allows.
            sock.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BUFFER_BYTES)


def reset(sock: socket.socket) -> None:
    """Close a connection with a reset."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    sock.close()


class Read(Enum):
    """What came of reading."""

    DATA = auto()
    NOTHING = auto()
    END = auto()
    BROKEN = auto()


class Lane:
    """One direction of a flow.

    Attributes:
        flow: Whose.
        source, sink: Where bytes come from and go to.
        readable: There may be something to read.
        queued: It waits for the station's server.
        ended: The source's end was read.
        done: The end was passed on.
        buffered_bytes: Bytes read and not yet sent.
        mss_bytes: Segment size of the source's connection.
        chunk_bytes: Most that is read at once.
        delivered_bytes: Bytes sent.
    """

    __slots__ = (
        "_outbox",
        "buffered_bytes",
        "chunk_bytes",
        "delivered_bytes",
        "done",
        "ended",
        "flow",
        "hung_up",
        "mss_bytes",
        "queued",
        "readable",
        "sink",
        "source",
    )

    def __init__(self, flow: Flow, source: socket.socket, sink: socket.socket) -> None:
        self.flow = flow
        self.source = source
        self.sink = sink
        self.readable = False
        self.queued = False
        self.ended = False
        self.done = False
        self.hung_up = False
        self.buffered_bytes = 0
        self.delivered_bytes = 0
        self.mss_bytes = segment_bytes(source)
        self.chunk_bytes = max(1, CHUNK_BYTES // self.mss_bytes) * self.mss_bytes
        self._outbox: deque[memoryview | None] = deque()

    def wants_server(self, limit_bytes: int) -> bool:
        """Whether it should be queued for the server."""
        return self.readable and not self.queued and not self.ended and self.buffered_bytes < limit_bytes

    def read(self, limit_bytes: int) -> tuple[Read, bytes]:
        """Receive one chunk, at most as much as the buffer has room for."""
        wanted = min(self.chunk_bytes, limit_bytes - self.buffered_bytes)
        try:
            data = self.source.recv(wanted)
        except BlockingIOError:
            self.readable = False
            return Read.NOTHING, b""
        except OSError:
            return Read.BROKEN, b""
        if not data:
            self.readable = False
            self.ended = True
            return Read.END, b""
        # A short read emptied the socket; what comes next is announced anew, unless the end was announced already.
        if len(data) < wanted and not self.hung_up:
            self.readable = False
        self.buffered_bytes += len(data)
        return Read.DATA, data

    def deliver(self, data: bytes | None) -> bool:
        """Send a chunk, or pass the end on (None), behind what could not be sent before.

        Returns:
            False: the connection is broken.
        """
        self._outbox.append(None if data is None else memoryview(data))
        return len(self._outbox) > 1 or self.flush()

    def flush(self) -> bool:
        """Send as much as the sink takes.

        Returns:
            False: the connection is broken.
        """
        outbox = self._outbox
        while outbox:
            part = outbox[0]
            try:
                if part is None:
                    self.sink.shutdown(socket.SHUT_WR)
                    self.done = True
                else:
                    sent = self.sink.send(part)
                    self.buffered_bytes -= sent
                    self.delivered_bytes += sent
                    if sent < len(part):
                        outbox[0] = part[sent:]
                        return True
            except BlockingIOError:
                return True
            except OSError:
                return False
            outbox.popleft()
        return True


def segment_bytes(sock: socket.socket) -> int:
    """The segment size that a connection settled on."""
    try:
        return max(1, sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
    except OSError:
        return _FALLBACK_MSS


class Flow:
    """A client's connection and the one that the proxy opens for it.

    Args:
        client: Accepted, non-blocking.
        target: Where the client wanted to go.
    """

    __slots__ = ("_lanes", "client", "closed", "queued", "server", "target")

    def __init__(self, client: socket.socket, target: tuple[str, int]) -> None:
        self.client = client
        self.target = target
        self.server: socket.socket | None = None
        self.closed = False
        self.queued = False
        self._lanes: tuple[Lane, ...] = ()

    def connect(self) -> socket.socket:
        """Begin to connect to the target.

        Raises:
            OSError: It failed at once.
        """
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.server = server
        server.setblocking(False)
        size_buffers(server)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BlockingIOError):
            server.connect(self.target)
        return server

    def connected(self) -> tuple[Lane, Lane]:
        """The target answered: the two directions, from the client and from the server."""
        server = self.server
        if server is None:
            raise RuntimeError("a flow is connected before it connects")
        lanes = Lane(self, self.client, server), Lane(self, server, self.client)
        self._lanes = lanes
        return lanes

    @property
    def buffered_bytes(self) -> int:
        """Bytes read and not yet sent, both directions."""
        return sum(lane.buffered_bytes for lane in self._lanes)

    @property
    def finished(self) -> bool:
        """Whether both ends were passed on."""
        return bool(self._lanes) and all(lane.done for lane in self._lanes)

    def close(self, close: Callable[[socket.socket], None]) -> None:
        """Close both connections, in a way of the caller's choice (`reset`, or plainly)."""
        self.closed = True
        for sock in (self.client, self.server):
            if sock is not None:
                close(sock)
