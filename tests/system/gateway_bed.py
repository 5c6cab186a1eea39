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

from emulator.model.profile import StationModel
from gateway.client import request

REPOSITORY = Path(__file__).resolve().parents[2]
WORK = Path("/tmp/bed")
DELAY_NS = 5_000
RATE_BPS = 100_000_000_000
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

    def daemon(self, mode: str, station: StationModel, *options: str, host: str = "g") -> Daemon:
        station_file = WORK / f"station-{host}.json"
        station_file.write_text(json.dumps(asdict(station)))
        control = WORK / f"{mode}-{host}.sock"
        arguments = [mode, "--station", str(station_file), "--control", str(control), *options]
        if mode == "forward":
            neighbours = WORK / "neighbours.json"
            neighbours.write_text(json.dumps({self.ip(name): self.mac(name) for name in self.hosts}))
            arguments += ["--interface", f"{host}0", "--neighbours", str(neighbours)]
        process = self.start(host, sys.executable, "-m", "gateway", *arguments)
        while not control.exists():
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


EXPERIMENTS = {
    function.__name__: function
    for function in (forward_rtt, forward_throughput, kernel_throughput, direct_throughput)
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
