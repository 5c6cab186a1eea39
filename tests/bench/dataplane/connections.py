"""Round trips and streams over TCP, between the hosts or through a proxy in the middle."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from emulator.errors import GatewayError
from tests.bench.dataplane.bed import GENERATOR_PRIORITY, Bench
from tests.bench.dataplane.interrupts import shielded
from tests.bench.dataplane.modes import STREAM_PORT
from tests.bench.dataplane.peer import ECHO, MESSAGE_BYTES, SWALLOW
from tests.bench.dataplane.processes import REPOSITORY

_PIECE = memoryview(bytes(1 << 18))
_WARM_S = 0.2
_WARM_TRIPS = 200
_PATIENCE_S = 10


@dataclass(frozen=True)
class Delays:
    """Round-trip times of messages of 64 bytes, in ns, one at a time."""

    p50: float
    p99: float
    p999: float
    count: int


@dataclass(frozen=True)
class Stream:
    """A connection that sends as much as it can.

    Attributes:
        bytes_per_s: How much came through.
        cpu_ns_per_kib: CPU time of the device for 1024 bytes.
        busy: Share of its CPU's time.
    """

    bytes_per_s: float
    cpu_ns_per_kib: float
    busy: float


@contextmanager
def peer(bench: Bench) -> Iterator[None]:
    """Let the host on the right answer."""
    argv = [sys.executable, "-m", "tests.bench.dataplane.peer", str(STREAM_PORT)]
    process = None
    try:
        with shielded():
            process = bench.bed.right.popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=REPOSITORY, start_new_session=True,
                preexec_fn=lambda: _on(bench.cpus.traffic),
            )  # fmt: skip
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise GatewayError("the host that is to answer does not run")
        yield
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def _on(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(GENERATOR_PRIORITY))


@contextmanager
def _as_traffic(bench: Bench) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    _on(bench.cpus.traffic)
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, before)


@contextmanager
def _connected(bench: Bench, address: str, what: bytes) -> Iterator[socket.socket]:
    with bench.bed.left.namespace():
        try:
            sock = socket.create_connection((address, STREAM_PORT), timeout=_PATIENCE_S)
        except OSError as error:
            raise GatewayError(f"no connection to {address} through the device: {error}") from None
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(what)
        yield sock


def measure_delays(bench: Bench, address: str, trips: int) -> Delays:
    """Send a message, wait until it is back, and so on.

    Raises:
        GatewayError: It does not come back.
    """
    taken = np.zeros(trips)
    message = bytes(MESSAGE_BYTES)
    with _connected(bench, address, ECHO) as sock, _as_traffic(bench), bench.urgent():
        try:
            for number in range(-_WARM_TRIPS, trips):
                began = time.perf_counter_ns()
                sock.send(message)
                if len(sock.recv(MESSAGE_BYTES, socket.MSG_WAITALL)) < MESSAGE_BYTES:
                    raise GatewayError(f"the connection to {address} ended")
                if number >= 0:
                    taken[number] = time.perf_counter_ns() - began
        except TimeoutError:
            raise GatewayError(f"a message to {address} does not come back") from None
    p50, p99, p999 = np.percentile(taken, (50, 99, 99.9)).tolist()
    return Delays(p50, p99, p999, trips)


def measure_stream(bench: Bench, address: str, seconds: float) -> Stream:
    """Send as much as can be.

    Raises:
        GatewayError: Nothing goes on.
    """
    with _connected(bench, address, SWALLOW) as sock, _as_traffic(bench):
        try:
            _send(sock, _WARM_S)
            began, before = time.monotonic(), sum(bench.cpu_ns())
            sent = _send(sock, seconds)
            taken, cpu_ns = time.monotonic() - began, sum(bench.cpu_ns()) - before
        except TimeoutError:
            raise GatewayError(f"a stream to {address} does not go on") from None
    return Stream(sent / taken, cpu_ns / max(1, sent) * 1024, cpu_ns / 1e9 / taken)


def _send(sock: socket.socket, seconds: float) -> int:
    sent = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sent += sock.send(_PIECE)
    return sent
