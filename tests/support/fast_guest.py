"""Tests of the fast gateway's daemon that run where network namespaces may be made; `tests/system` boots a machine.

Natively: ``python -m pytest tests/support/fast_guest.py``, as root.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from gateway.client import request
from tests.support.offload_guest import correct, next_ip
from tests.support.rings_bed import GW_LEFT_MAC, GW_RIGHT_MAC, LEFT_MAC, RIGHT_MAC, Bed, bed, may_make_namespaces

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
REPOSITORY = Path(__file__).resolve().parents[2]
MODES = ("af_xdp", "packet_mmap", "socket")


def settings(mode: str, **more: Any) -> dict[str, Any]:
    """A gateway between two networks, with a service on the right that is reached by an address of its own."""
    return {
        "mode": mode,
        "ports": [{"interface": "gl"}, {"interface": "gr"}],
        "next_hops": {"l": {"port": "gl", "mac": LEFT_MAC}, "r": {"port": "gr", "mac": RIGHT_MAC}},
        "routes": [{"network": "10.0.1.0/24", "next_hop": "l"}, {"network": "10.0.2.0/24", "next_hop": "r"}],
        "endpoints": [
            {"protocol": "tcp", "address": "192.168.7.7", "port": 80, "backend": "10.0.2.1", "backend_port": 8080}
        ],
        "rules": [{"allow": False, "protocol": "udp", "target_ports": [53, 53]}, {"allow": True}],
        "ring_entries": 256,
        "frames": 2048,
        **more,
    }


class Daemon:
    """A running daemon in the gateway's namespace."""

    def __init__(self, built: Bed, folder: Path, config: dict[str, Any]) -> None:
        self.control = folder / "control"
        path = folder / "fast.json"
        path.write_text(json.dumps(config))
        argv = [sys.executable, "-m", "gateway", "fast", "--config", str(path), "--control", str(self.control)]
        self.process = built.gw.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY)
        self._wait_ready()

    def _wait_ready(self) -> None:
        ended = os.pidfd_open(self.process.pid)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        while not self.control.exists():
            if poll.poll(5):
                raise AssertionError(self.process.communicate())
        os.close(ended)

    def ask(self, op: str) -> dict[str, Any]:
        return request(self.control, op)

    def end(self) -> dict[str, Any]:
        """Stop it in order; its final figures."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert err == ""
        assert self.process.returncode == 0
        figures: dict[str, Any] = json.loads(out)
        return figures


@contextmanager
def running(built: Bed, folder: Path, config: dict[str, Any]) -> Iterator[Daemon]:
    folder.mkdir(exist_ok=True)
    daemon = Daemon(built, folder, config)
    try:
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.communicate()


@contextmanager
def routed(**options: Any) -> Iterator[Bed]:
    """A bed whose hosts reach each other by the gateway."""
    with bed(**options) as built:
        for host, name, gateway, mac in (
            (built.left, "lh", "10.0.1.254", GW_LEFT_MAC),
            (built.right, "rh", "10.0.2.254", GW_RIGHT_MAC),
        ):
            host.run(["ip", "route", "add", "default", "via", gateway])
            host.run(["ip", "neigh", "replace", gateway, "lladdr", mac, "dev", name, "nud", "permanent"])
        yield built


# Nobody has the address 10.0.2.7: the host on the right looks at what comes for it and answers nothing.
def datagram(port: int, target_port: int = 9999, **ip: Any) -> bytes:
    head = Ether(src=LEFT_MAC, dst=GW_LEFT_MAC) / IP(**{"src": "10.0.1.1", "dst": "10.0.2.7", **ip})
    return bytes(head / UDP(sport=port, dport=target_port) / Raw(b"x" * 30))


def comes(sock: socket.socket, port: int, seconds: float) -> bool:
    """Whether a datagram from a port comes; what else comes is passed over."""
    sock.settimeout(seconds)
    try:
        while True:
            got = next_ip(sock)
            if UDP in got and got[UDP].sport == port:
                return True
    except TimeoutError:
        return False


def empty(sock: socket.socket) -> None:
    """Throw away what has come."""
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.recv(20_000)


@pytest.mark.parametrize("mode", MODES)
def test_frames_are_forwarded_filtered_and_counted(tmp_path: Path, mode: str) -> None:
    """Each mode forwards what may pass with right headers, and gives every other frame a reason; nothing is lost."""
    with routed() as built, built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right:
        with running(built, tmp_path / "d", settings(mode)) as daemon:
            for number in range(100):
                left.send(datagram(1000 + number % 7, ttl=64))
                got = next_ip(right)
                assert (got.src, got.dst, got[IP].ttl, got[UDP].sport) == (
                    GW_RIGHT_MAC,
                    RIGHT_MAC,
                    63,
                    1000 + number % 7,
                )
                assert correct(got)
            odd = [
                datagram(1, 53),
                datagram(1, ttl=1),
                datagram(1, dst="172.16.0.1"),
                datagram(1, flags="MF"),
                bytes(
                    Ether(src=LEFT_MAC, dst=GW_LEFT_MAC)
                    / IPv6(src="fd00::1", dst="fd00::2")
                    / UDP(sport=7, dport=7)
                    / Raw(b"q")
                ),
            ]
            for data in odd:
                left.send(data)
            left.send(datagram(4242))
            assert next_ip(right)[UDP].sport == 4242
            ping = built.left.run(["ping", "-c", "1", "10.0.1.254"])
            assert "1 received" in ping.stdout, "the gateway's own addresses are its kernel's"
            figures = daemon.end()
        reasons = {name: one["frames"] for name, one in figures["pipeline"]["reasons"].items() if one["frames"]}
        assert reasons["forwarded"] == 101
        assert (reasons["denied"], reasons["ttl_expired"], reasons["fragment"], reasons["no_route"]) == (1, 1, 1, 2)
        copies = figures["copies"]["frames"]
        ports = figures["ports"]
        arrived = sum(port["counters"]["rx_frames"] for port in ports)
        sent = sum(port["counters"]["tx_frames"] for port in ports)
        assert arrived == figures["pipeline"]["frames_in"]
        assert sent == 101
        assert copies == (arrived + sent if mode == "socket" else 0), "copies of frames in user space, counted"
        assert all(port["lost_frames"] == 0 for port in ports)
        if mode == "af_xdp":
            in_rings = sum(sum(port["accounting"].values()) for port in ports)
            assert figures["frames"]["free"] + figures["frames"]["lent"] + in_rings == figures["frames"]["all"]


def stream(built: Bed, address: str, port: int, listen: int, total_bytes: int) -> None:
    """Let a TCP connection carry bytes both ways between the hosts."""
    with built.right.namespace():
        listener = socket.create_server(("10.0.2.1", listen))
    data = bytes(range(251)) * (total_bytes // 251)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            got = bytearray()
            while len(got) < len(data):
                got += connection.recv(1 << 20)
            connection.sendall(got)

    server = threading.Thread(target=serve)
    server.start()
    with listener:
        with built.left.namespace():
            client = socket.create_connection((address, port), timeout=30)
        with client:
            sender = threading.Thread(target=client.sendall, args=(data,))
            sender.start()
            back = bytearray()
            while len(back) < len(data):
                piece = client.recv(1 << 20)
                assert piece
                back += piece
            sender.join()
        server.join()
    assert back == data


@pytest.mark.parametrize(("mode", "mtu"), [("af_xdp", 9000), ("packet_mmap", 9000), ("socket", 1500)])
def test_translated_tcp_passes(tmp_path: Path, mode: str, mtu: int) -> None:
    """A connection to a service's address is carried to its backend and back, byte for byte, jumbo frames too."""
    with routed(mtu=mtu) as built:
        if mode != "af_xdp":  # packet sockets carry unfinished and super-packets as what they are
            built.left.run(["ethtool", "-K", "lh", "tx", "on", "tso", "on"])
            built.right.run(["ethtool", "-K", "rh", "tx", "on", "tso", "on"])
        with running(built, tmp_path / "d", settings(mode)) as daemon:
            stream(built, "192.168.7.7", 80, 8080, 600_000)
            figures = daemon.end()
        reasons = {name: one["frames"] for name, one in figures["pipeline"]["reasons"].items() if one["frames"]}
        assert set(reasons) == {"forwarded"} | (set(reasons) & {"not_ip", "own_address", "group"})


def test_flows_are_offloaded_and_adopted(tmp_path: Path) -> None:
    """First packets come to the daemon, later ones do not; a killed daemon's flows go on, and the next one has them."""
    folder = tmp_path / "bpf"
    config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64}, idle_s=3600)
    mount = ["mount", "-t", "bpf", "bpf", str(folder)]
    folder.mkdir()
    subprocess.run(mount, check=True)
    try:
        with routed() as built, built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right:
            with running(built, tmp_path / "one", config) as daemon:
                for number in range(20):
                    left.send(datagram(1000 + number % 2))
                    got = next_ip(right)
                    assert (got.dst, got[IP].ttl) == (RIGHT_MAC, 63)
                    assert correct(got)
                stream(built, "192.168.7.7", 80, 8080, 100_000)
                empty(right)
                figures = daemon.ask("stats")
                assert figures["offload"]["outcomes"]["hit"] > 18 + 50
                assert figures["pipeline"]["reasons"]["forwarded"]["frames"] < 2 + 40
                assert figures["offload"]["flows"] == 4
                assert figures["offload"]["audit"]["agrees"]
                daemon.process.kill()
            for number in range(10):
                left.send(datagram(1000 + number % 2))
                assert comes(right, 1000 + number % 2, 5.0), "no daemon runs, and the flows go on"
            denied = {**config, "rules": [{"allow": False, "protocol": "udp"}, {"allow": True}]}
            for name, rules, flows, rejected in (("two", config, 4, 0), ("three", denied, 2, 2)):
                with running(built, tmp_path / name, rules) as daemon:
                    figures = daemon.ask("stats")["offload"]
                    assert figures["adopted"]
                    assert (figures["flows"], figures["rejected"]) == (flows, rejected)
                    left.send(datagram(1000))
                    assert comes(right, 1000, 5.0 if flows == 4 else 0.2) is (flows == 4)
                    if flows == 4:
                        daemon.process.kill()
                    else:
                        daemon.end()
            left.send(datagram(1000))
            assert not comes(right, 1000, 0.2), "a daemon that was stopped in order leaves nothing"
            assert not list(folder.rglob("if*"))
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_tunnels_begin_and_end_here(tmp_path: Path) -> None:
    """Frames to a tenant's host behind a tunnel leave in VXLAN; what comes in VXLAN is taken out."""
    for mode in MODES[:2]:
        more: dict[str, Any] = {
            "tunnel_ends": ["10.0.2.254"],
            "tenants": {"by_port": {"gl": 0}, "by_vni": {"77": 0}},
            "routes": [{"network": "10.0.1.0/24", "next_hop": "l"}, {"network": "10.9.0.0/16", "next_hop": "t"}],
        }
        config = settings(mode, **more)
        inside = {"vni": 77, "local": "10.0.2.254", "remote": "10.0.2.1", "inner_mac": "02:00:00:00:09:01"}
        config["next_hops"]["t"] = {"port": "gr", "mac": RIGHT_MAC, "tunnel": inside}
        with (
            routed() as built,
            built.raw(built.left, "lh") as left,
            built.raw(built.right, "rh") as right,
            running(built, tmp_path / mode, config) as daemon,
        ):
            left.send(datagram(1000, dst="10.9.0.5"))
            got = next_ip(right)
            assert (got[IP].src, got[IP].dst, got[UDP].dport) == ("10.0.2.254", "10.0.2.1", 4789)
            carried = got[VXLAN][Ether] if VXLAN in got else Ether(bytes(got[UDP].payload)[8:])
            assert (carried.dst, carried[IP].dst, carried[IP].ttl) == ("02:00:00:00:09:01", "10.9.0.5", 63)
            assert correct(carried)
            back = (
                Ether(src="02:00:00:00:09:01", dst=GW_RIGHT_MAC)
                / IP(src="10.9.0.5", dst="10.0.1.1")
                / UDP(sport=7, dport=7)
                / Raw(b"b")
            )
            outer = Ether(src=RIGHT_MAC, dst=GW_RIGHT_MAC) / IP(src="10.0.2.1", dst="10.0.2.254")
            right.send(bytes(outer / UDP(sport=5555, dport=4789) / VXLAN(vni=77, flags="Instance") / back))
            home = next_ip(left)
            assert (home.dst, home[IP].src, home[IP].ttl) == (LEFT_MAC, "10.9.0.5", 63)
            daemon.end()
