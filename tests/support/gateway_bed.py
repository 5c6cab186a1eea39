"""Inside an emulated machine: a few hosts on one bridge, and data planes started on them.

::

    a ---\\
          sw (bridge) --- b        every line is a veth with netem (rate, delay) at both ends
    g ---/                         a and b send what is for each other to g, which forwards it by the same interface
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from emulator.errors import GatewayError
from emulator.model.profile import StationModel
from gateway.client import request

REPOSITORY = Path(__file__).resolve().parents[2]
WORK = Path("/tmp/bed")
DELAY_NS = 8_000
"""A whole number of microseconds and of the kernel's 64 ns ticks: ``tc`` rounds others down."""

RATE_BPS = 100_000_000_000
OVERHEAD_BYTES = 24
NVME_PORT = 4420
SO_RCVLOWAT, SO_RCVBUFFORCE, LOW_WATER_BYTES = 18, 33, 1 << 20
CORE = StationModel(100_000, 500_000, None, 4096, "test")
GATEWAY = StationModel(5_000, None, 100_000_000_000, 4096, "test")
_setns = ctypes.CDLL(None, use_errno=True).setns


@dataclass(frozen=True)
class Line:
    """One line of the bed."""

    rate_bps: int = RATE_BPS
    delay_ns: int = DELAY_NS
    mtu_bytes: int = 9000
    limit: int = 100_000
    offloads: bool = False


def call(*argv: str, check: bool = True) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


class Bed:
    """Hosts on a bridge."""

    def __init__(self, line: Line | None = None, hosts: str = "agb") -> None:
        self.line = line or Line()
        self.hosts = hosts
        self._processes: list[subprocess.Popen[str]] = []
        WORK.mkdir(exist_ok=True)

    def ip(self, host: str) -> str:
        return f"10.0.0.{self.hosts.index(host) + 1}"

    def mac(self, host: str) -> str:
        return f"02:00:0a:00:00:{self.hosts.index(host) + 1:02x}"

    def __enter__(self) -> Bed:
        line = self.line
        call("ip", "netns", "add", "sw")
        call("ip", "-n", "sw", "link", "add", "name", "bridge0", "type", "bridge", "stp_state", "0")
        call("ip", "-n", "sw", "link", "set", "bridge0", "mtu", str(line.mtu_bytes), "up")
        for host in self.hosts:
            call("ip", "netns", "add", host)
            call("ip", "-n", host, "link", "set", "lo", "up")
            end = f"{host}0"
            call("ip", "link", "add", end, "netns", host, "type", "veth", "peer", "name", f"s-{host}", "netns", "sw")
            call("ip", "-n", host, "link", "set", end, "address", self.mac(host))
            call("ip", "-n", "sw", "link", "set", f"s-{host}", "master", "bridge0")
            for namespace, interface in ((host, end), ("sw", f"s-{host}")):
                call("ip", "-n", namespace, "link", "set", interface, "mtu", str(line.mtu_bytes), "up")
                if not line.offloads:
                    self.inside(namespace, "ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off")
                self.inside(
                    namespace, "tc", "qdisc", "add", "dev", interface, "root", "netem",
                    "delay", f"{line.delay_ns // 1000}us", "rate", f"{line.rate_bps}bit", str(OVERHEAD_BYTES),
                    "limit", str(line.limit),
                )  # fmt: skip
            call("ip", "-n", host, "addr", "add", f"{self.ip(host)}/24", "dev", end)
        for host in self.hosts:
            for other in self.hosts:
                if other != host:
                    via = "g" if "g" in self.hosts and host != "g" and other != "g" else other
                    call("ip", "-n", host, "neigh", "replace", self.ip(other), "lladdr", self.mac(via),
                         "dev", f"{host}0", "nud", "permanent")  # fmt: skip
        # The bridge has to know where everybody is, or the first frame is flooded.
        for host in self.hosts:
            self.inside(host, "ping", "-c", "1", "-W", "1", "-b", "10.0.0.255", check=False)
        return self

    def inside(self, host: str, *argv: str, check: bool = True) -> str:
        return call("ip", "netns", "exec", host, *argv, check=check)

    def start(self, host: str, *argv: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", host, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        self._processes.append(process)
        return process

    @contextlib.contextmanager
    def namespace(self, host: str) -> Iterator[None]:
        """Put this thread into a host's network namespace."""
        with Path("/proc/thread-self/ns/net").open() as before, Path(f"/run/netns/{host}").open() as there:
            if _setns(there.fileno(), 0):
                raise OSError("setns")
            try:
                yield
            finally:
                _setns(before.fileno(), 0)

    def daemon(self, mode: str, station: StationModel, *options: str, host: str = "g", fresh: bool = True) -> Daemon:
        station_file = WORK / f"station-{host}.json"
        station_file.write_text(json.dumps(asdict(station)))
        control = WORK / f"{mode}-{host}.sock"
        arguments = [mode, "--station", str(station_file), "--control", str(control), *options]
        if mode == "forward":
            neighbours = WORK / "neighbours.json"
            neighbours.write_text(json.dumps({self.ip(name): self.mac(name) for name in self.hosts}))
            arguments += ["--interface", f"{host}0", "--neighbours", str(neighbours)]
        process = self.start(host, sys.executable, "-m", "gateway", *arguments)
        while fresh and not control.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the daemon ended: {process.communicate()[1]}")
            time.sleep(0.001)
        return Daemon(process, control)

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for host in (*self.hosts, "sw"):
            call("ip", "netns", "del", host)


@dataclass
class Daemon:
    """A running daemon."""

    process: subprocess.Popen[str]
    control: Path

    def stats(self) -> dict[str, Any]:
        return request(self.control, "stats")

    def alive(self) -> bool:
        """Whether it answers (its socket's file may be one that a dead daemon left)."""
        with contextlib.suppress(GatewayError):
            return bool(self.stats())
        return False

    def stop(self) -> dict[str, Any]:
        """End it by the control socket; returns the final figures and how it ended."""
        answered = request(self.control, "stop")
        out, err = self.process.communicate(timeout=30)
        return {
            "answered": answered,
            "printed": json.loads(out),
            "stderr": err,
            "exit": self.process.returncode,
            "socket_left": self.control.exists(),
        }


def serialization_ns(frame_bytes: int, rate_bps: int = RATE_BPS) -> int:
    return (frame_bytes + OVERHEAD_BYTES) * 8 * 10**9 // rate_bps


def wait_for(condition: Callable[[], bool], tries: int = 10_000) -> None:
    for _ in range(tries):
        if condition():
            return
        time.sleep(0.0001)
    raise RuntimeError("the condition did not come true")


def wait_for_listener(bed: Bed, host: str, port: int) -> None:
    for _ in range(10_000):
        if f":{port} " in bed.inside(host, "ss", "-Hltn"):
            return
        time.sleep(0.001)
    raise RuntimeError(f"nobody listens on port {port}")


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def iperf(bed: Bed, size: str, *options: str) -> dict[str, Any]:
    server = bed.start("b", "iperf3", "-s", "-1", "-p", "5201")
    with bed.namespace("b"):
        wait_for_listener(bed, "b", 5201)
    out = bed.inside("a", "iperf3", "-c", bed.ip("b"), "-n", size, "-i", "0", "-Z", "-J", *options)
    server.communicate()
    end = json.loads(out)["end"]
    return {
        "sent_bps": end["sum_sent"]["bits_per_second"],
        "received_bps": end["sum_received"]["bits_per_second"],
        "retransmits": end["sum_sent"].get("retransmits"),
    }


def ping_rtts_ns(bed: Bed, count: int = 10, payload: int = 56) -> list[int]:
    out = bed.inside("a", "ping", "-n", "-c", str(count), "-i", "0.01", "-s", str(payload), bed.ip("b"))
    return [round(float(text) * 1e6) for text in re.findall(r"time=([\d.]+) ms", out)]


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def serve_sink(bed: Bed, port: int = NVME_PORT) -> tuple[threading.Thread, dict[str, Any]]:
    """A server on b that reads a stream to its end, then answers with its hash and ends too."""
    with bed.namespace("b"):
        server = socket.create_server((bed.ip("b"), port))
    came = [(0, 0)]
    seen: dict[str, Any] = {"came": came}

    def serve() -> None:
        sock, peer = server.accept()
        server.close()
        seen["peer"] = peer[0]
        digest = hashlib.sha256()
        while data := sock.recv(1 << 20):
            digest.update(data)
            came.append((came[-1][0] + len(data), now_ns()))
        sock.sendall(digest.digest())
        sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread, seen


def connect(bed: Bed, port: int = NVME_PORT) -> socket.socket:
    with bed.namespace("a"):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.connect((bed.ip("b"), port))
    return sock


def echo_server(bed: Bed, port: int) -> threading.Thread:
    with bed.namespace("b"):
        server = socket.create_server((bed.ip("b"), port))

    def serve() -> None:
        sock, _ = server.accept()
        server.close()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := sock.recv(1 << 16):
            sock.sendall(data)
        sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def tcp_rtts_ns(bed: Bed, port: int, count: int = 20, size: int = 72) -> list[int]:
    thread = echo_server(bed, port)
    sock = connect(bed, port)
    rtts = []
    for _ in range(count):
        time.sleep(0.01)
        begin = now_ns()
        sock.sendall(bytes(size))
        got = 0
        while got < size:
            got += len(sock.recv(size))
        rtts.append(now_ns() - begin)
    sock.close()
    thread.join()
    return rtts


def carry(bed: Bed, size_bytes: int) -> None:
    """Send so much from a to b, which wakes up for each MiB and not for each packet: what lies between them counts."""
    with bed.namespace("b"):
        server = socket.create_server((bed.ip("b"), NVME_PORT))
    # The kernel makes windows that fit what is waited for, and no longer grows them.
    server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 * LOW_WATER_BYTES)

    def serve() -> None:
        sock, _ = server.accept()
        server.close()
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVLOWAT, LOW_WATER_BYTES)
        buffer = bytearray(2 * LOW_WATER_BYTES)
        left = size_bytes
        while left:
            # MSG_TRUNC: the kernel throws the bytes away instead of copying them here.
            left -= sock.recv_into(buffer, min(left, len(buffer)), socket.MSG_TRUNC)
            if left < LOW_WATER_BYTES:
                sock.setsockopt(socket.SOL_SOCKET, SO_RCVLOWAT, max(1, left))
        sock.sendall(b"!")
        sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    sock = connect(bed)
    piece = bytes(LOW_WATER_BYTES)
    for _ in range(size_bytes // len(piece)):
        sock.sendall(piece)
    sock.sendall(bytes(size_bytes % len(piece)))
    sock.recv(1)
    sock.close()
    thread.join()


def steady_goodput_bps(bed: Bed, size_bytes: int) -> float:
    """Goodput at the receiver from the first 50 MB on, when slow start is over and all buffers are full."""
    thread, seen = serve_sink(bed)
    sock = connect(bed)
    sock.sendall(bytes(size_bytes))
    sock.shutdown(socket.SHUT_WR)
    read_all(sock)
    sock.close()
    thread.join()
    came, last = seen["came"], seen["came"][-1]
    first = next(one for one in came if one[0] > 50_000_000)
    return float((last[0] - first[0]) * 8 * 10**9 / (last[1] - first[1]))
