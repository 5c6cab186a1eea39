"""Experiments with the forwarding daemon, run inside an emulated machine. Each returns what it measured."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from emulator.engine.progress import report
from tests.support.gateway_bed import (
    CORE,
    DELAY_NS,
    GATEWAY,
    NVME_PORT,
    WORK,
    Bed,
    Daemon,
    Line,
    call,
    carry,
    connect,
    now_ns,
    ping_rtts_ns,
    read_all,
    serialization_ns,
    serve_sink,
    steady_goodput_bps,
    tcp_rtts_ns,
    wait_for,
)


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


def forward_rtt() -> dict[str, Any]:
    """Unloaded round trips through the forwarder, next to theory."""
    results = []
    for latency_ns in (0, 1_000, 5_000, 100_000):
        with Bed() as bed:
            daemon = bed.daemon("forward", replace(GATEWAY, latency_ns=latency_ns))
            rtts = raw_rtts_ns(bed)
            pings = ping_rtts_ns(bed)
            one_way = 4 * (DELAY_NS + serialization_ns(98)) + max(latency_ns, GATEWAY.service_ns(98))
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


def forward_throughput(size_bytes: int = 150_000_000) -> dict[str, Any]:
    """Bulk TCP at 100 Gbit/s, MTU 9000, true packets, through the forwarder; with batches and without."""
    runs = []
    for options in ((), ("--no-batch",)):
        with Bed() as bed:
            daemon = bed.daemon("forward", GATEWAY, *options)
            runs.append({"goodput_bps": steady_goodput_bps(bed, size_bytes), "end": daemon.stop()})
    return {**runs[0], "unbatched": runs[1]}


COSTLY_BYTES = 2_000_000_000


def forward_gigabyte() -> dict[str, Any]:
    """Some gigabytes of the same, for the cost in wall time."""
    with Bed() as bed:
        daemon = bed.daemon("forward", GATEWAY)
        return {"virtual_ns": _timed(bed, "forwarding"), "end": daemon.stop()}


def _timed(bed: Bed, name: str) -> int:
    """Say when the bytes begin and when they are there; how long that took in virtual time."""
    report(f"{name} begins")
    began = now_ns()
    carry(bed, COSTLY_BYTES)
    taken = now_ns() - began
    report(f"{name} ends")
    return taken


def kernel_throughput() -> dict[str, Any]:
    """The same with the kernel's own forwarding in g, which costs no virtual time: what the lines alone take."""
    with Bed() as bed:
        bed.inside("g", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.send_redirects=0",
                   "net.ipv4.conf.g0.send_redirects=0")  # fmt: skip
        return {"virtual_ns": _timed(bed, "kernel")}


def direct_throughput() -> dict[str, Any]:
    """The same without a forwarder: two lines."""
    with Bed(hosts="ab") as bed:
        return {"virtual_ns": _timed(bed, "direct")}


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


def forward_capacity() -> dict[str, Any]:
    """A station of half a million packets/s with a short queue, offered far more."""
    station = replace(GATEWAY, packet_rate=500_000, bit_rate_bps=None, queue_packets=100)
    with Bed() as bed:
        daemon = bed.daemon("forward", station)
        sent, numbers, times = blast(bed, 5000)
        return {"sent": sent, "numbers": numbers, "gaps_ns": [b - a for a, b in pairwise(times)],
                "arrival_gap_ns": serialization_ns(14 + 28 + 64), "end": daemon.stop()}  # fmt: skip


def forward_small_ring() -> dict[str, Any]:
    """A ring of one block, offered more than it holds."""
    with Bed() as bed:
        daemon = bed.daemon("forward", replace(GATEWAY, latency_ns=1_000_000_000), "--ring-bytes", "131072")
        sent, numbers, _ = blast(bed, 100)
        return {"sent": sent, "numbers": numbers, "end": daemon.stop()}


def _holds(daemon: Daemon, frames: int) -> bool:
    return bool(daemon.stats()["held_frames"] == frames)


def forward_stop_while_holding() -> dict[str, Any]:
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
            wait_for(partial(_holds, daemon, 10))
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


def forward_odd_frames() -> dict[str, Any]:
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


def forward_super_packets() -> dict[str, Any]:
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


def forward_clock_step() -> dict[str, Any]:
    """The clock is set back by an hour while frames are held for half a second."""
    with Bed() as bed:
        daemon = bed.daemon("forward", replace(GATEWAY, latency_ns=500_000_000))
        with bed.namespace("b"):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sink.bind((bed.ip("b"), 9))
        with bed.namespace("a"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            for _ in range(5):
                source.sendto(bytes(100), (bed.ip("b"), 9))
        wait_for(partial(_holds, daemon, 5))
        begin = now_ns()
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() - 3600 * 10**9)
        came = sum(len(sink.recv(200)) == 100 for _ in range(5))
        waited = [now_ns() - begin]
        with bed.namespace("a"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            for _ in range(3):
                begin = now_ns()
                source.sendto(bytes(100), (bed.ip("b"), 9))
                came += len(sink.recv(200)) == 100
                waited.append(now_ns() - begin)
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + 3600 * 10**9)
        sink.close()
        return {"came": came, "waited_ns": waited, "end": daemon.stop()}


def forward_interface_gone() -> dict[str, Any]:
    """The interface goes down and up again, then away for good."""
    with Bed() as bed:
        daemon = bed.daemon("forward", GATEWAY)
        for state in ("down", "up"):
            call("ip", "-n", "g", "link", "set", "g0", state)
        pings = ping_rtts_ns(bed, count=2)
        call("ip", "-n", "g", "link", "del", "g0")
        _, stderr = daemon.process.communicate(timeout=30)
        return {"pings": pings, "exit": daemon.process.returncode, "stderr": stderr}


def bad_starts(bed: Bed) -> dict[str, Any]:
    """Starts that must fail, on a host where a forwarder and a proxy run already."""
    forward = ("forward", "--interface", "g0", "--neighbours", str(WORK / "neighbours.json"))
    common = ("--station", str(WORK / "station-g.json"), "--control")
    fresh = str(WORK / "fresh.sock")
    outcomes = {}
    for name, arguments in (
        ("no_interface", (*forward[:2], "nosuch0", *forward[3:], *common, fresh)),
        ("socket_in_use", (*forward, *common, str(WORK / "forward-g.sock"))),
        ("port_in_use", ("proxy", "--listen", "15001", *common, fresh)),
        ("kernel_forwards", (*forward, *common, fresh)),
    ):
        bed.inside("g", "sysctl", "-qw", f"net.ipv4.ip_forward={int(name == 'kernel_forwards')}")
        process = bed.start("g", sys.executable, "-m", "gateway", *arguments)
        _, stderr = process.communicate()
        outcomes[name] = {"exit": process.returncode, "stderr": stderr}
    bed.inside("g", "sysctl", "-qw", "net.ipv4.ip_forward=0")
    return outcomes


def both_on_one_host() -> dict[str, Any]:
    """Proxy and forwarder side by side: TCP takes the proxy, the rest the forwarder, which never sees the TCP."""
    with Bed() as bed:
        forward = bed.daemon("forward", GATEWAY, "--ignore-tcp-ports", "4420,5201")
        proxy = bed.daemon("proxy", CORE, "--listen", "15001", "--interface", "g0")
        proxied = tcp_rtts_ns(bed, NVME_PORT, count=3)
        other = tcp_rtts_ns(bed, 8080, count=3)
        seen = forward.stats()["counters"]["rx_frames"]
        pings = ping_rtts_ns(bed, count=3)
        failed = bad_starts(bed)
        return {"bad_starts": failed, "proxied_ns": proxied, "other_ns": other, "ping_ns": pings, "other_frames": seen,
                "forward_end": forward.stop(), "end": proxy.stop()}  # fmt: skip


def _retransmissions(bed: Bed, host: str) -> int:
    names, values = (
        line.split() for line in bed.inside(host, "cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


def _ended(daemon: Daemon) -> dict[str, Any]:
    out, err = daemon.process.communicate(timeout=30)
    return {"exit": daemon.process.returncode, "printed": json.loads(out or "{}"), "stderr": err}


def forward_upgrade(size_bytes: int = 100_000_000) -> dict[str, Any]:
    """Three daemons take over one after the other, in the middle of a TCP stream at line rate."""
    with Bed() as bed:
        daemon = bed.daemon("forward", GATEWAY)
        thread, _ = serve_sink(bed)
        sock = connect(bed)
        data = hashlib.sha256(b"upgrade").digest() * (size_bytes // 32)
        sender = threading.Thread(target=sock.sendall, args=(data,))
        sender.start()
        ends = []
        for _ in range(3):
            time.sleep(0.001)
            successor = bed.daemon("forward", GATEWAY, "--take-over", fresh=False)
            ends.append(_ended(daemon))
            daemon = successor
        sender.join()
        sock.shutdown(socket.SHUT_WR)
        answer = read_all(sock)
        thread.join()
        sock.close()
        return {"same": answer == hashlib.sha256(data).digest(), "bytes": len(data), "ends": ends,
                "retransmissions": [_retransmissions(bed, host) for host in "ab"], "end": daemon.stop()}  # fmt: skip


def forward_upgrade_while_holding() -> dict[str, Any]:
    """Frames held for a second change hands twice, once to a daemon that fails; they leave when they are due."""
    count, latency_ns = 10, 1_000_000_000
    station = replace(GATEWAY, latency_ns=latency_ns)
    with Bed() as bed:
        daemon = bed.daemon("forward", station)
        with bed.namespace("a"):
            source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with bed.namespace("b"):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sink.bind((bed.ip("b"), 9))
        sent = []
        for number in range(count):
            sent.append(now_ns())
            source.sendto(bytes([number]), (bed.ip("b"), 9))
        wait_for(partial(_holds, daemon, count))
        # One that serves another interface gets everything, sees that it cannot use it, and gives it back.
        call("ip", "-n", "g", "link", "add", "other", "type", "veth", "peer", "name", "far")
        wrong = bed.start("g", sys.executable, "-m", "gateway", "forward", "--station", str(WORK / "station-g.json"),
                          "--control", str(daemon.control), "--neighbours", str(WORK / "neighbours.json"),
                          "--interface", "other", "--take-over")  # fmt: skip
        _, failure = wrong.communicate(timeout=30)
        after_failure = daemon.stats()["held_frames"]
        successor = bed.daemon("forward", replace(station, latency_ns=0), "--take-over", fresh=False)
        end = _ended(daemon)
        held = successor.stats()["held_frames"]
        # It has no latency of its own, yet is not to overtake.
        source.sendto(bytes([count]), (bed.ip("b"), 9))
        came = []
        for _ in range(count + 1):
            number = sink.recv(10)[0]
            came.append((number, now_ns() - sent[number] if number < count else 0))
        source.close()
        sink.close()
        nobody = bed.start("g", sys.executable, "-m", "gateway", "forward", "--station", str(WORK / "station-g.json"),
                           "--control", str(WORK / "nobody.sock"), "--neighbours", str(WORK / "neighbours.json"),
                           "--interface", "g0", "--take-over")  # fmt: skip
        _, alone = nobody.communicate(timeout=30)
        return {"latency_ns": latency_ns, "came": came, "failure": failure, "after_failure": after_failure,
                "held": held, "end": end, "alone": alone, "alone_exit": nobody.returncode,
                "last": successor.stop()}  # fmt: skip
