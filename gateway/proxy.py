"""The copying proxy: terminates TCP, and passes every byte through one service station. Time is an argument.

The station is the node's one core, shared by all connections and both directions. Its queue are the sockets: a
connection with something to read waits its turn (first come, first served), and is read when the core is free, up to
64 KiB at once. So a busy core finds more to read at a time, as real ones do, and a chunk of n bytes costs as much as
the ``ceil(n / MSS)`` packets that brought it. Chunks leave the station in order, each after its latency.

Opening a connection and passing on its end cost one packet each. Acknowledgements cost nothing: they are handled by
the kernel, and the figures for software forwarding are per data packet.
"""

from __future__ import annotations

import errno
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.counters import ProxyCounters
from gateway.flow import Flow, Lane, Read, reset
from gateway.loop import Loop, When
from gateway.station import Station

_ACCEPT_AT_ONCE = 64
_JOBS_AT_ONCE = 64
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_FLOW_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_HUNG_UP = select.EPOLLRDHUP | select.EPOLLHUP


class Proxy:
    """See the module.

    Args:
        listener: Listening, non-blocking socket.
        station: The core.
        loop: Where to wait.
        destination: Where an accepted connection wanted to go; raises OSError if it was not intercepted.
        buffer_bytes: Bytes held in each direction of a connection before reading stops.
    """

    def __init__(
        self,
        listener: socket.socket,
        station: Station,
        loop: Loop,
        destination: Callable[[socket.socket], tuple[str, int]],
        buffer_bytes: int,
    ) -> None:
        self._listener = listener
        self._loop = loop
        self._destination = destination
        self._limit = buffer_bytes
        self._flows: set[Flow] = set()
        self._ready: deque[Lane | Flow] = deque()
        self._held: deque[tuple[int, Lane | Flow, bytes | None]] = deque()
        self._accepting = False
        self._draining = False
        self.counters = ProxyCounters()
        self.station = station
        self._listen(True)

    @property
    def next_time_ns(self) -> int | None:
        """When `advance` is to be called again at the latest; None: only after events."""
        due = self._held[0][0] if self._held else None
        if self._ready:
            free = self.station.free_at_ns
            return free if due is None else min(due, free)
        return due

    @property
    def open_connections(self) -> int:
        """Connections that are proxied now."""
        return len(self._flows)

    def advance(self, now_ns: int) -> None:
        """Let out what is due, then let the core take up what waits for it."""
        self._depart(now_ns)
        ready, station = self._ready, self.station
        for _ in range(_JOBS_AT_ONCE):
            if not ready or station.free_at_ns > now_ns:
                break
            job = ready.popleft()
            job.queued = False
            if isinstance(job, Lane):
                self._read(job, now_ns)
            elif not job.closed:
                self._hold(job, None, now_ns, 0, 1)

    def _hold(self, job: Lane | Flow, data: bytes | None, now_ns: int, size: int, packets: int) -> None:
        due_ns = self.station.arrive(now_ns, size, packets)
        if due_ns is None:
            raise RuntimeError("the station refused a job although it was idle")
        self._held.append((due_ns, job, data))

    # --- accepting and connecting

    def _listen(self, wanted: bool) -> None:
        if wanted and not self._accepting:
            self._loop.add(self._listener.fileno(), self._accept, when=When.IDLE)
        elif self._accepting and not wanted:
            self._loop.remove(self._listener.fileno())
        self._accepting = wanted

    def _accept(self, _events: int) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    # The listener would stay readable: wait for a connection to end instead of spinning.
                    self.counters.accept_paused += 1
                    self._listen(False)
                    return
                continue
            self._take(client)

    def _take(self, client: socket.socket) -> None:
        self.counters.accepted += 1
        try:
            target = self._destination(client)
            refused = target == client.getsockname()
        except OSError:
            refused = True
        if refused:
            # Connecting on would come back here, for ever.
            self.counters.not_intercepted += 1
            reset(client)
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        flow = Flow(client, target)
        self._flows.add(flow)
        flow.queued = True
        self._ready.append(flow)

    def _connect(self, flow: Flow) -> None:
        try:
            server = flow.connect()
        except OSError:
            self._fail(flow)
            return
        self._loop.add(server.fileno(), lambda _events: self._connected(flow, server), _FLOW_EVENTS, When.IDLE)

    def _connected(self, flow: Flow, server: socket.socket) -> None:
        self._loop.remove(server.fileno())
        if server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail(flow)
            return
        up, down = flow.connected()
        # Edge-triggered, both directions at once; what is pending already is told at once.
        for sock, source, sink in ((flow.client, up, down), (server, down, up)):
            self._loop.add(sock.fileno(), self._handler(source, sink), _FLOW_EVENTS, When.IDLE)

    def _fail(self, flow: Flow) -> None:
        self.counters.connect_failed += 1
        self._forget(flow)
        flow.close(reset)

    # --- copying

    def _handler(self, source: Lane, sink: Lane) -> Callable[[int], None]:
        """What to do when the socket that *source* reads and *sink* writes has news."""

        def handle(events: int) -> None:
            if events & select.EPOLLERR:
                self._break(source.flow)
                return
            if events & select.EPOLLOUT and not self._flushed(sink):
                return
            if events & (select.EPOLLIN | _HUNG_UP):
                source.readable = True
                if events & _HUNG_UP:
                    source.hung_up = True
                self._queue(source)

        return handle

    def _queue(self, lane: Lane) -> None:
        if not self._draining and lane.wants_server(self._limit):
            lane.queued = True
            self._ready.append(lane)

    def _read(self, lane: Lane, now_ns: int) -> None:
        if lane.flow.closed or self._draining:
            return
        what, data = lane.read(self._limit)
        if what is Read.DATA:
            size = len(data)
            self.counters.chunks += 1
            self.counters.read_bytes += size
            self._hold(lane, data, now_ns, size, -(-size // lane.mss_bytes))
            self._queue(lane)
        elif what is Read.END:
            self._hold(lane, None, now_ns, 0, 1)
        elif what is Read.BROKEN:
            self._break(lane.flow)

    def _depart(self, now_ns: int) -> None:
        held = self._held
        while held and held[0][0] <= now_ns:
            _, job, data = held.popleft()
            if isinstance(job, Flow):
                if not job.closed:
                    self._connect(job)
            elif not job.flow.closed:
                before = job.delivered_bytes
                whole = job.deliver(data)
                self._settle(job, before, whole)

    def _flushed(self, lane: Lane) -> bool:
        before = lane.delivered_bytes
        whole = lane.flush()
        return self._settle(lane, before, whole)

    def _settle(self, lane: Lane, delivered_before: int, whole: bool) -> bool:
        """Account for what was sent; returns whether the flow still lives."""
        self.counters.sent_bytes += lane.delivered_bytes - delivered_before
        flow = lane.flow
        if not whole:
            self._break(flow)
        elif lane.done and flow.finished:
            self.counters.completed += 1
            self._unwatch(flow)
            flow.close(socket.socket.close)
        else:
            self._queue(lane)
        return not flow.closed

    # --- ending

    def _forget(self, flow: Flow) -> None:
        self._flows.discard(flow)
        if not self._accepting and not self._draining:
            self._listen(True)

    def _unwatch(self, flow: Flow) -> None:
        for sock in (flow.client, flow.server):
            if sock is not None:
                self._loop.discard(sock.fileno())
        self._forget(flow)

    def _break(self, flow: Flow) -> None:
        if flow.closed:
            return
        self.counters.reset += 1
        self._abandon(flow)

    def _abandon(self, flow: Flow) -> None:
        self.counters.discarded_bytes += flow.buffered_bytes
        self._unwatch(flow)
        flow.close(reset)

    def drain(self) -> None:
        """Accept and read no more; what was read is still delivered."""
        self._draining = True
        self._listen(False)
        self._ready.clear()

    @property
    def drained(self) -> bool:
        """Whether `drain` was called and all that was read has been delivered."""
        return self._draining and not self._held and not any(flow.buffered_bytes for flow in self._flows)

    def cut(self) -> None:
        """Reset every connection that is still open, and count what was not delivered."""
        self._held.clear()
        for flow in list(self._flows):
            self.counters.cut += 1
            self._abandon(flow)

    def as_json(self) -> dict[str, Any]:
        """Counters and station as plain data."""
        return {
            "mode": "proxy",
            "draining": self._draining,
            "open_connections": len(self._flows),
            "buffered_bytes": sum(flow.buffered_bytes for flow in self._flows),
            "counters": self.counters.as_json(),
            "station": self.station.as_json(),
        }
