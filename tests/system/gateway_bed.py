"""Runs inside an emulated machine: a few hosts on one bridge, a data plane between them, and experiments on it.

``python tests/system/gateway_bed.py EXPERIMENT…`` writes what each experiment measured to ``result.json`` in the job's
folder. Each experiment has network namespaces of its own and leaves nothing behind for the next.

::

    a ---\
          sw (bridge) --- b        every line is a veth with netem (rate, delay) at both ends
    g ---/                         a and b send what is for each other to g, which forwards it by the same interface
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from emulator.errors import GatewayError
from emulator.model.profile import StationModel
from gateway.client import request

REPOSITORY = Path(__file__).resolve().parents[2]
WORK = Path("/tmp/bed")
DELAY_NS = 5_000
RATE_BPS = 100_000_000_000
CORE = StationModel(100_000, 500_000, None, 4096, "test")
GATEWAY = StationModel(5_000, None, 100_000_000_000, 4096, "test")
OVERHEAD_BYTES = 24
NVME_PORT = 4420
_setns = __import__("ctypes").CDLL(None, use_errno=True).setns


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

    def __init__(self, line: Line = Line(), hosts: str = "agb") -> None:
        self.line = line
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
                    "delay", f"{line.delay_ns / 1000}us", "rate", f"{line.rate_bps}bit", str(OVERHEAD_BYTES), "limit", str(line.limit),
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
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{host}") as there:
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

    def stats(self) -> dict:
        return request(self.control, "stats")

    def alive(self) -> bool:
        """Whether it answers (its socket's file may be one that a dead daemon left)."""
        with contextlib.suppress(GatewayError):
            return bool(self.stats())
        return False

    def stop(self) -> dict:
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


def wall_s() -> float:
    """The host's clock, which the emulated machine can only see in a file that the host keeps touching; else 0."""
    return 0.0


# --- forwarding


def ping_rtts_ns(bed: Bed, count: int = 10, payload: int = 56) -> list[int]:
    out = bed.inside("a", "ping", "-n", "-c", str(count), "-i", "0.01", "-s", str(payload), bed.ip("b"))
    return [round(float(text) * 1e6) for text in re.findall(r"time=([\d.]+) ms", out)]


def raw_rtts_ns(bed: Bed, count: int = 20, frame_bytes: int = 98) -> list[int]:
    """Round trips of UDP datagrams from a to b's echo, by the sender's clock: one reading before, one after."""
    payload = bytes(frame_bytes - 42)
    with bed.namespace("b"):
        echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        echo.bind((bed.ip("b"), 7))
    with bed.namespace("a"):
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        probe.connect((bed.ip("b"), 7))

    def serve() -> None:
        while data_address := echo.recvfrom(10_000):
            data, address = data_address
            if not data:
                return
            echo.sendto(data, address)

    thread = threading.Thread(target=serve)
    thread.start()
    rtts = []
    for _ in range(count):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        probe.send(payload)
        probe.recv(10_000)
        rtts.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - before)
        time.sleep(0.001)
    probe.send(b"")
    thread.join()
    echo.close()
    probe.close()
    return rtts


def forward_rtt() -> dict:
    """Unloaded round trips through the forwarder, next to theory."""
    results = []
    for latency_ns in (0, 1_000, 5_000, 100_000):
        with Bed() as bed:
            daemon = bed.daemon("forward", replace(GATEWAY, latency_ns=latency_ns))
            rtts = raw_rtts_ns(bed)
            pings = ping_rtts_ns(bed)
            one_way = 4 * (DELAY_NS + serialization_ns(98)) + max(latency_ns, serialization_ns(98) + 1)
            results.append(
                {
                    "latency_ns": latency_ns,
                    "rtt_ns": rtts,
                    "ping_ns": pings,
                    "theory_ns": 2 * one_way,
                    "end": daemon.stop(),
                }
            )
    return {"runs": results}


def iperf(bed: Bed, size: str, *options: str) -> dict:
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


def wait_for_listener(bed: Bed, host: str, port: int) -> None:
    for _ in range(10_000):
        if f":{port} " in bed.inside(host, "ss", "-Hltn"):
            return
        time.sleep(0.001)
    raise RuntimeError(f"nobody listens on port {port}")


def forward_throughput() -> dict:
    """Bulk TCP at 100 Gbit/s, MTU 9000, true packets, through the forwarder."""
    with Bed() as bed:
        daemon = bed.daemon("forward", GATEWAY, *(["--no-batch"] if os.environ.get("NB") else []))
        mark("throughput begins")
        figures = iperf(bed, "1G")
        mark("throughput ends")
        return {"iperf": figures, "end": daemon.stop()}


def kernel_throughput() -> dict:
    """The same with the kernel's own forwarding in g, which costs no virtual time: what the lines alone take."""
    with Bed() as bed:
        bed.inside("g", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0",
                   "net.ipv4.conf.g0.send_redirects=0")  # fmt: skip
        mark("kernel begins")
        figures = iperf(bed, "1G")
        mark("kernel ends")
        return {"iperf": figures}


def direct_throughput() -> dict:
    """The same without a forwarder: two lines."""
    with Bed(hosts="ab") as bed:
        mark("direct begins")
        figures = iperf(bed, "1G")
        mark("direct ends")
        return {"iperf": figures}


def mark(text: str) -> None:
    """Tell the engine's log, which has the host's time."""
    with open("/dev/console", "w") as console:
        console.write(f"MARK {text}\n")


def blast(bed: Bed, count: int, target: str = "b", payload: int = 64) -> tuple[int, list[int], list[int]]:
    """Send UDP datagrams from a as fast as its line takes them.

    Returns how many were sent, and number and time of arrival of each that came.
    """
    with bed.namespace("b"):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
        sink.bind((bed.ip("b"), 9))
    with bed.namespace("a"):
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        source.setsockopt(socket.SOL_SOCKET, 32, 1 << 26)
        source.connect((bed.ip(target), 9))
    numbers, times = [], []

    def receive() -> None:
        while True:
            data = sink.recv(2048)
            if len(data) < 8:
                return
            times.append(now_ns())
            numbers.append(int.from_bytes(data[:8], "big"))

    thread = threading.Thread(target=receive)
    thread.start()
    for number in range(count):
        source.send(number.to_bytes(8, "big") + bytes(payload - 8))
    time.sleep(2.5)
    source.send(b"end")
    time.sleep(2.5)
    with bed.namespace("b"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
        last.sendto(b"end", (bed.ip("b"), 9))
    thread.join()
    sink.close()
    source.close()
    return count, numbers, times


def forward_capacity() -> dict:
    """A station of half a million packets/s with a short queue, offered far more."""
    station = replace(GATEWAY, packet_rate=500_000, bit_rate_bps=None, queue_packets=100)
    with Bed() as bed:
        daemon = bed.daemon("forward", station)
        sent, numbers, times = blast(bed, 5000)
        return {"sent": sent, "numbers": numbers, "gaps_ns": [b - a for a, b in zip(times, times[1:])],
                "arrival_gap_ns": serialization_ns(14 + 28 + 64), "end": daemon.stop()}  # fmt: skip


def forward_small_ring() -> dict:
    """A ring of one block, offered more than it holds."""
    with Bed() as bed:
        daemon = bed.daemon("forward", replace(GATEWAY, latency_ns=1_000_000_000), "--ring-bytes", "131072")
        sent, numbers, _ = blast(bed, 100)
        return {"sent": sent, "numbers": numbers, "end": daemon.stop()}


def forward_stop_while_holding() -> dict:
    """Stopped by signal and by control socket while frames are held: they still go out."""
    runs = []
    for way in ("socket", "signal"):
        with Bed() as bed:
            daemon = bed.daemon("forward", replace(GATEWAY, latency_ns=1_000_000_000))
            with bed.namespace("a"):
                source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with bed.namespace("b"):
                sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sink.bind((bed.ip("b"), 9))
            for _ in range(10):
                source.sendto(bytes(100), (bed.ip("b"), 9))
            wait_for(lambda: daemon.stats()["held_frames"] == 10)
            if way == "socket":
                end = daemon.stop()
            else:
                daemon.process.terminate()
                out, err = daemon.process.communicate(timeout=30)
                end = {"printed": json.loads(out), "stderr": err, "exit": daemon.process.returncode,
                       "socket_left": daemon.control.exists()}  # fmt: skip
            time.sleep(0.01)
            sink.setblocking(False)
            came = 0
            with contextlib.suppress(BlockingIOError):
                while sink.recv(200):
                    came += 1
            runs.append({"way": way, "came": came, "end": end})
            source.close()
            sink.close()
    return {"runs": runs}


def wait_for(condition, tries: int = 10_000) -> None:
    for _ in range(tries):
        if condition():
            return
        time.sleep(0.0001)
    raise RuntimeError("the condition did not come true")


def forward_odd_frames() -> dict:
    """What is not forwarded, over real interfaces: own address, expired, no neighbour, ARP, VLAN, IPv6, garbage."""
    with Bed() as bed:
        daemon = bed.daemon("forward", GATEWAY)
        before = daemon.stats()["counters"]
        own = bed.inside("a", "ping", "-c", "2", "-i", "0.01", bed.ip("g"))
        bed.inside("a", "ping", "-c", "3", "-i", "0.01", "-W", "1", "-t", "1", bed.ip("b"), check=False)
        call("ip", "-n", "a", "neigh", "replace", "10.0.0.99", "lladdr", bed.mac("g"), "dev", "a0", "nud", "permanent")
        bed.inside("a", "ping", "-c", "4", "-i", "0.01", "-W", "1", "10.0.0.99", check=False)
        g, a = (bytes.fromhex(bed.mac(name).replace(":", "")) for name in "ga")
        with bed.namespace("a"), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
            raw.bind(("a0", 0))
            for tail in (b"\x81\x00\x00\x05\x08\x00" + bytes(60), b"\x86\xdd" + bytes(60), b"\x08\x00" + bytes(60),
                         b"\x08\x06" + bytes(28), b"\x08\x00\x45" + bytes(10)):  # fmt: skip
                raw.send(g + a + tail)
            raw.send(b"\xff" * 6 + a + b"\x12\x34" + bytes(50))
        time.sleep(0.1)
        return {"own_replies": own.count("bytes from"), "before": before, "end": daemon.stop()}


def forward_super_packets() -> dict:
    """Segmentation offload on: super-packets of up to 64 KiB, with pending checksums, arrive intact and are counted."""
    with Bed(Line(offloads=True)) as bed:
        daemon = bed.daemon("forward", GATEWAY)
        thread, _ = serve_sink(bed)
        sock = connect(bed)
        data = hashlib.sha256(b"super").digest() * (20_000_000 // 32)
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        answer = read_all(sock)
        thread.join()
        sock.close()
        return {"same": answer == hashlib.sha256(data).digest(), "bytes": len(data), "end": daemon.stop()}


def both_on_one_host() -> dict:
    """Proxy and forwarder side by side: TCP takes the proxy, the rest the forwarder, which never sees the TCP."""
    with Bed() as bed:
        forward = bed.daemon("forward", GATEWAY, "--ignore-tcp-ports", "4420,5201")
        proxy = bed.daemon("proxy", CORE, "--listen", "15001", "--interface", "g0")
        proxied = tcp_rtts_ns(bed, NVME_PORT, count=3)
        other = tcp_rtts_ns(bed, 8080, count=3)
        seen = forward.stats()["counters"]["rx_frames"]
        pings = ping_rtts_ns(bed, count=3)
        return {"proxied_ns": proxied, "other_ns": other, "ping_ns": pings, "other_frames": seen,
                "forward_end": forward.stop(), "end": proxy.stop()}  # fmt: skip


# --- proxying


def serve_sink(bed: Bed, port: int = NVME_PORT) -> tuple[threading.Thread, dict]:
    """A server on b that reads a stream to its end, then answers with its hash and ends too."""
    with bed.namespace("b"):
        server = socket.create_server((bed.ip("b"), port))
    seen: dict = {}

    def serve() -> None:
        sock, peer = server.accept()
        server.close()
        seen["peer"] = peer[0]
        digest = hashlib.sha256()
        while data := sock.recv(1 << 20):
            digest.update(data)
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


def proxy_integrity() -> dict:
    """100 MB through the proxy, with a half-close: the hash comes back after the client's end of stream."""
    with Bed() as bed:
        daemon = bed.daemon("proxy", CORE, "--listen", "15001")
        thread, seen = serve_sink(bed)
        sock = connect(bed)
        digest = hashlib.sha256()
        begin = now_ns()
        for number in range(100):
            block = hashlib.sha256(str(number).encode()).digest() * (1_000_000 // 32)
            digest.update(block)
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)
        answer = read_all(sock)
        duration = now_ns() - begin
        thread.join()
        sock.close()
        end = daemon.stop()
        tables = bed.inside("g", "nft", "list", "ruleset")
        return {"same": answer == digest.digest(), "peer": seen["peer"], "proxy": bed.ip("g"), "bytes": 100 * 31250 * 32,
                "duration_ns": duration, "rules_left": tables, "end": end}  # fmt: skip


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


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


def proxy_rtt() -> dict:
    """Round trips of small messages through the proxy: one traversal each way."""
    runs = []
    for latency_ns in (0, 5_000, 100_000):
        with Bed() as bed:
            daemon = bed.daemon("proxy", replace(CORE, latency_ns=latency_ns), "--listen", "15001")
            rtts = tcp_rtts_ns(bed, NVME_PORT)
            frame = 14 + 20 + 32 + 72
            theory = 2 * (4 * (DELAY_NS + serialization_ns(frame)) + max(latency_ns, 2_000))
            runs.append({"latency_ns": latency_ns, "rtt_ns": rtts, "theory_ns": theory, "end": daemon.stop()})
    return {"runs": runs}


def proxy_throughput() -> dict:
    """Bulk TCP through the proxy, whose core handles half a million packets a second."""
    runs = []
    for rate in (500_000, None):
        with Bed() as bed:
            daemon = bed.daemon("proxy", replace(CORE, packet_rate=rate), "--listen", "15001")
            mark(f"proxy {rate} begins")
            figures = iperf(bed, "300M")
            mark("proxy ends")
            runs.append({"packet_rate": rate, "iperf": figures, "end": daemon.stop()})
    return {"runs": runs}


def proxy_many_connections() -> dict:
    """Two thousand connections at the same time, each with a message of its own."""
    count = 2000
    with Bed() as bed:
        daemon = bed.daemon("proxy", CORE, "--listen", "15001")
        with bed.namespace("b"):
            server = socket.create_server((bed.ip("b"), NVME_PORT), backlog=4096)
        accepted: list[socket.socket] = []

        def serve() -> None:
            for _ in range(count):
                accepted.append(server.accept()[0])
            for sock in accepted:
                sock.sendall(read_all(sock)[::-1])
                sock.close()
            server.close()

        thread = threading.Thread(target=serve)
        thread.start()
        clients = [connect(bed) for _ in range(count)]
        wait_for(lambda: len(accepted) == count)
        open_connections = daemon.stats()["open_connections"]
        for number, sock in enumerate(clients):
            sock.sendall(b"connection %d" % number)
            sock.shutdown(socket.SHUT_WR)
        right = sum(read_all(sock) == (b"connection %d" % number)[::-1] for number, sock in enumerate(clients))
        for sock in clients:
            sock.close()
        thread.join()
        return {"count": count, "open": open_connections, "right": right, "end": daemon.stop()}


def outcome(function) -> str:
    try:
        return repr(function())
    except OSError as error:
        return type(error).__name__


def proxy_failures() -> dict:
    """Resets by either side, a closed port, a direct connection, a receiver that does not read, a killed daemon."""
    found: dict = {}
    with Bed() as bed:
        daemon = bed.daemon("proxy", CORE, "--listen", "15001")

        def pair() -> tuple[socket.socket, socket.socket]:
            with bed.namespace("b"):
                server = socket.create_server((bed.ip("b"), NVME_PORT))
            client = connect(bed)
            accepted = server.accept()[0]
            server.close()
            client.sendall(b"x")
            accepted.recv(1)
            return client, accepted

        for name, index in (("client_resets", 0), ("server_resets", 1)):
            ends = pair()
            ends[index].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            ends[index].close()
            found[name] = outcome(lambda: ends[1 - index].recv(1))
            ends[1 - index].close()
        sock = connect(bed)
        found["closed_port"] = outcome(lambda: sock.recv(1))
        sock.close()
        with bed.namespace("a"):
            direct = socket.create_connection((bed.ip("g"), 15001))
        found["direct"] = outcome(lambda: direct.recv(1))
        direct.close()

        client, server = pair()
        client.setblocking(False)
        pushed = 0
        while True:
            try:
                pushed += client.send(bytes(1 << 20))
            except BlockingIOError:
                if not select.select([], [client], [], 0.5)[1]:
                    break
        found["pushed"] = pushed
        found["held"] = daemon.stats()["buffered_bytes"]
        client.setblocking(True)
        client.shutdown(socket.SHUT_WR)
        found["came"] = len(read_all(server))
        server.sendall(b"late")
        server.close()
        found["answer"] = read_all(client).decode()
        client.close()

        found["before_kill"] = daemon.stats()
        daemon.process.kill()
        daemon.process.wait()
        found["rules_after_kill"] = bed.inside("g", "nft", "list", "ruleset").count("redirect")
        again = bed.daemon("proxy", CORE, "--listen", "15001", fresh=False)
        wait_for(lambda: again.alive())
        found["rules_after_restart"] = bed.inside("g", "nft", "list", "ruleset").count("redirect")
        client, server = pair()
        server.sendall(b"again")
        found["again"] = client.recv(5).decode()

        client.sendall(bytes(1000))
        drained = request(again.control, "drain")
        found["drained"] = [drained["draining"], drained["open_connections"]]
        found["rules_while_draining"] = bed.inside("g", "nft", "list", "ruleset").count("redirect")
        found["end"] = again.stop()
        found["cut_client"] = outcome(lambda: client.recv(1))
        found["rules_left"] = bed.inside("g", "nft", "list", "ruleset")
        client.close()
        server.close()
    return found


EXPERIMENTS = {
    function.__name__: function
    for function in (
        forward_rtt,
        forward_throughput,
        kernel_throughput,
        direct_throughput,
        proxy_integrity,
        proxy_rtt,
        proxy_throughput,
        proxy_many_connections,
        proxy_failures,
        both_on_one_host,
        forward_capacity,
        forward_small_ring,
        forward_stop_while_holding,
        forward_odd_frames,
        forward_super_packets,
    )
}


def main() -> int:
    results: dict[str, object] = {}
    for name in sys.argv[1:]:
        try:
            results[name] = EXPERIMENTS[name]()
        except Exception:
            results[name] = {"failed": traceback.format_exc()}
    (Path(os.environ["ICGW_OUT"]) / "result.json").write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
