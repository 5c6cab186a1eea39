"""Traffic that goes on while something happens, in a virtual-time kernel, and an account of what became of it.

One thread sends a probe every 100 us, of each flow in turn, and a packet of every TCP stream each 500 us. The
clock stands still while it works, so everything leaves on time.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType

from emulator.engine.host import HostHandle
from emulator.linux.timer import Timer, reset_timer_slack

PROBE_EVERY_NS = 100_000
STREAM_EVERY = 5
"""Probes from one piece of the streams to the next. A piece is one packet."""
PIECE_BYTES = 8_000
_DRAIN_EVERY = 100
_PORT = 7001
_NUMBER = struct.Struct("!Q")
_RECEIVE_BYTES = 1 << 20
_BUFFER_BYTES = 64 << 20
_SO_RCVBUFFORCE = 33
_RETRANSMITS = struct.Struct("=100xI")
"""``tcpi_total_retrans`` in ``struct tcp_info``."""
_SETTLE_NS = 500_000_000


@dataclass(frozen=True)
class Flow:
    """Probes over UDP.

    Attributes:
        source, target: Hosts.
        ip: Address of the target, as the source knows it.
    """

    source: HostHandle
    target: HostHandle
    ip: str


@dataclass(frozen=True)
class Stream:
    """Bytes over TCP.

    Attributes:
        source, target: Hosts.
        ip, port: Where the source finds the target.
        target_port: Where the target listens.
    """

    source: HostHandle
    target: HostHandle
    ip: str
    port: int
    target_port: int


class _Probes:
    def __init__(self, flow: Flow, stack: ExitStack) -> None:
        with flow.target.namespace():
            self._receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        with flow.source.namespace():
            self._sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self._receiver.setblocking(False)
        self._receiver.bind((flow.ip, _PORT))
        self._sender.connect((flow.ip, _PORT))
        self.sent = 0
        self.arrived: list[int] = []

    def send(self) -> None:
        self._sender.send(_NUMBER.pack(self.sent))
        self.sent += 1

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self.arrived.append(*_NUMBER.unpack(self._receiver.recv(64)))


class _Bytes:
    def __init__(self, stream: Stream, stack: ExitStack) -> None:
        with stream.target.namespace():
            listener = stack.enter_context(socket.create_server(("", stream.target_port)))
        with stream.source.namespace():
            self._sender = stack.enter_context(socket.create_connection((stream.ip, stream.port)))
        self._receiver = stack.enter_context(listener.accept()[0])
        for one in (self._sender, self._receiver):
            one.setblocking(False)
        self.sent = self.arrived = 0

    def send(self, size_bytes: int = PIECE_BYTES) -> None:
        assert self._sender.send(bytes(size_bytes)) == size_bytes, "the stream stalls"
        self.sent += size_bytes

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while data := self._receiver.recv(_RECEIVE_BYTES):
                self.arrived += len(data)

    @property
    def retransmits(self) -> int:
        found: int = _RETRANSMITS.unpack(self._sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))[0]
        return found


class SteadyLoad:
    """Sends from `begin` to `finish`, as often as wanted; what goes wrong on the way is raised there.

    A context manager, which closes the sockets.

    Args:
        flows, streams: What is sent.
    """

    def __init__(self, flows: Sequence[Flow], streams: Sequence[Stream]) -> None:
        self._stack = ExitStack()
        try:
            self._probes = [_Probes(flow, self._stack) for flow in flows]
            self._streams = [_Bytes(stream, self._stack) for stream in streams]
        except BaseException:
            self._stack.close()
            raise
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Send from now on."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            reset_timer_slack()
            with Timer() as timer:
                self._learn(timer)
                count = 0
                while not self._stop.is_set():
                    timer.wait(PROBE_EVERY_NS)
                    self._probes[count % len(self._probes)].send()
                    if count % STREAM_EVERY == 0:
                        for stream in self._streams:
                            stream.send()
                    if count % _DRAIN_EVERY == 0:
                        self._drain()
                    count += 1
                timer.wait(_SETTLE_NS)
            self._drain()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error

    def _learn(self, timer: Timer) -> None:
        """Let switches cache each flow: packets that follow a new flow's first one closely may overtake it."""
        for probes in self._probes:
            probes.send()
        for stream in self._streams:
            stream.send(1)
        timer.wait(_SETTLE_NS)

    def _drain(self) -> None:
        for probes in self._probes:
            probes.drain()
        for stream in self._streams:
            stream.drain()

    def finish(self) -> int:
        """Send no more, and make sure that all that was ever sent arrived, once, in order, and TCP repeated nothing.

        Returns:
            How many probes there were.
        """
        self._end()
        if self._error is not None:
            raise self._error
        for probes in self._probes:
            assert probes.arrived == list(range(probes.sent))
        for stream in self._streams:
            assert stream.arrived == stream.sent
            assert stream.retransmits == 0
        return sum(probes.sent for probes in self._probes)

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> SteadyLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._stack.close()
