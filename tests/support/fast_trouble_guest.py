"""Tests of the fast gateway when things go wrong: killed, interrupted, refused, or robbed of what it needs.

Natively: ``python -m pytest tests/support/fast_trouble_guest.py``, as root; `tests/system` boots a machine.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from gateway.client import ControlClient
from tests.support.fast_guest import REPOSITORY, comes, datagram, routed, running, settings
from tests.support.offload_guest import folder
from tests.support.rings_bed import GW_LEFT_MAC, GW_RIGHT_MAC, LEFT_MAC, RIGHT_MAC, Bed, may_make_namespaces

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
__all__ = ["folder"]  # a fixture
INTERRUPTED_WHEN_OPEN = """
import os, sys
import gateway.fast.run as run
opened = run.open_ports
def interrupted(*arguments):
    ports = opened(*arguments)
    os.kill(os.getpid(), int(sys.argv[1]))
    return ports
run.open_ports = interrupted
from gateway.cli import main
raise SystemExit(main(sys.argv[2:]))
"""


def with_program(built: Bed) -> list[str]:
    """The gateway's interfaces that run an XDP program."""
    listed = json.loads(built.gw.run(["ip", "-j", "-d", "link", "show"]).stdout)
    return [link["ifname"] for link in listed if "xdp" in link]


def names_in(folder: Path) -> list[str]:
    """What a BPF file system holds but for the kernel's own two files."""
    return [path.name for path in folder.rglob("*") if path.suffix != ".debug"]


def started(built: Bed, tmp_path: Path, config: dict[str, Any], *before: str) -> subprocess.CompletedProcess[str]:
    """Run a daemon that ends by itself."""
    path = tmp_path / "fast.json"
    path.write_text(json.dumps(config))
    argv = [sys.executable, *(before or ("-m", "gateway")), "fast"]
    argv += ["--config", str(path), "--control", str(tmp_path / "control")]
    return built.gw.run(argv, check=False, cwd=REPOSITORY, timeout=120)


@pytest.mark.parametrize("mode", ["af_xdp", "packet_mmap"])
def test_idle_flows_are_forgotten(tmp_path: Path, mode: str) -> None:
    """A flow without a packet for `idle_s` is not in the table any more, with the offload or without it."""
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "d", settings(mode, idle_s=1)) as daemon,
    ):
        left.send(datagram(1000))
        assert comes(right, 1000, 5.0)
        for _ in range(100):
            told = daemon.ask("stats")["pipeline"]
            if told["expired_flows"]:
                break
            assert not comes(right, 1000, 0.1)
        assert (told["expired_flows"], told["flows"]) == (1, 0)
        daemon.end()


def test_a_killed_daemon_leaves_no_program(tmp_path: Path) -> None:
    """Without the offload nothing stays on the interfaces, and the next daemon can begin at once."""
    with routed() as built, built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right:
        with running(built, tmp_path / "one", settings("af_xdp")) as daemon:
            assert with_program(built) == ["gl", "gr"]
            daemon.process.kill()
            daemon.process.communicate()
        assert with_program(built) == []
        with running(built, tmp_path / "two", settings("af_xdp")) as daemon:
            left.send(datagram(1000))
            assert comes(right, 1000, 5.0)
            daemon.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_it_is_set_up_ends_it_in_order(tmp_path: Path, folder: Path, number: signal.Signals) -> None:
    """However early the signal comes, the daemon ends well, says its figures, and takes everything off."""
    with routed() as built:
        config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64})
        done = started(built, tmp_path, config, "-c", INTERRUPTED_WHEN_OPEN, str(int(number)))
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["draining"]
        assert with_program(built) == []
        assert names_in(folder) == []
        assert not (tmp_path / "control").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"endpoints": [settings("socket")["endpoints"][0]] * 2}, "192.168.7.7"),
        ({"ports": [{"interface": "gl"}, {"interface": "gr"}, {"interface": "lo"}]}, "lo is not an Ethernet interface"),
        ({"ports": [{"interface": "gl"}, {"interface": "gr"}, {"interface": "x\0"}]}, "there is no interface x"),
        ({"ports": [{"interface": "gl"}, {"interface": "gr", "queues": 2}]}, "AF_XDP on gr, queue 1"),
    ],
)
def test_who_cannot_begin_leaves_nothing(tmp_path: Path, folder: Path, change: dict[str, Any], says: str) -> None:
    """What is wrong is noticed late, is said in one line, and neither programs nor maps nor sockets stay."""
    with routed() as built:
        config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64}, **change)
        done = started(built, tmp_path, config)
        assert done.returncode in (2, 6)
        assert done.stderr.startswith("error: ")
        assert says in done.stderr
        assert done.stderr.count("\n") == 1
        assert with_program(built) == []
        assert names_in(folder) == []
        assert not (tmp_path / "control").exists()


def test_a_busy_control_socket_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    """Where another daemon listens nothing begins, and that one goes on."""
    with routed() as built, running(built, tmp_path, settings("packet_mmap")) as daemon:
        config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64})
        done = started(built, tmp_path, config)
        assert done.stderr == f"error: control socket {daemon.control}: another daemon listens there\n"
        assert with_program(built) == []
        assert names_in(folder) == []
        daemon.end()


@pytest.mark.parametrize(("one", "other"), [("socket", "packet_mmap"), ("af_xdp", "af_xdp")])
def test_two_daemons_do_not_serve_one_interface(tmp_path: Path, one: str, other: str) -> None:
    """The second is refused in one line, before each packet leaves twice; when the first is killed there is room."""
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "one", settings(one)) as first,
    ):
        done = started(built, tmp_path, settings(other))
        assert done.returncode == 6
        assert re.fullmatch(r"error: (another gateway serves gl: .*|AF_XDP on gl, queue 0: .* busy)\n", done.stderr)
        left.send(datagram(1000))
        assert comes(right, 1000, 5.0)
        first.process.kill()
        first.process.communicate()
        with running(built, tmp_path / "two", settings(other)) as second:
            left.send(datagram(1001))
            assert comes(right, 1001, 5.0)
            second.end()


def test_each_daemon_has_a_folder_of_its_own(tmp_path: Path, folder: Path) -> None:
    """Another daemon that names a folder in use is refused, and does not touch the flows of the one that has it."""
    offload = {"folder": str(folder), "capacity": 64}
    one = settings("af_xdp", offload=offload, idle_s=3600)
    del one["endpoints"]
    other = {"mode": "af_xdp", "ports": [{"interface": "spare"}], "ring_entries": 64, "offload": offload}
    with routed() as built, built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right:
        built.gw.run(["ip", "link", "add", "spare", "type", "veth", "peer", "name", "eraps"])
        # The mount has to be seen by both.
        folder.mkdir()
        subprocess.run(["mount", "-t", "bpf", "bpf", str(folder)], check=True)
        with running(built, tmp_path / "one", one) as daemon:
            left.send(datagram(1000))
            assert comes(right, 1000, 5.0)
            done = started(built, tmp_path, other)
            assert done.stderr == (
                f"error: {folder} belongs to another daemon that runs: each needs a folder of its own\n"
            )
            assert daemon.ask("stats")["offload"]["flows"] == 1
            daemon.process.kill()
            daemon.process.communicate()
        assert with_program(built) == ["gr", "gl"] or with_program(built) == ["gl", "gr"]
        # Whoever has the folder next takes off what it has no use for.
        with running(built, tmp_path / "two", other) as daemon:
            assert with_program(built) == ["spare"]
            daemon.end()
        assert with_program(built) == []
        assert names_in(folder) == []


@pytest.mark.parametrize("mode", ["af_xdp", "socket"])
def test_an_interface_of_the_same_name_is_another_one(tmp_path: Path, mode: str) -> None:
    """The daemon ends when its interface goes, even if the next one of that name is there when it looks."""
    with routed() as built, running(built, tmp_path / "d", settings(mode)) as daemon:
        daemon.process.send_signal(signal.SIGSTOP)
        built.gw.run(["ip", "link", "delete", "gl"])
        built.gw.run(["ip", "link", "add", "gl", "type", "veth", "peer", "name", "lg"])
        daemon.process.send_signal(signal.SIGCONT)
        _, errors = daemon.process.communicate(timeout=60)
        assert errors == "error: the interface gl is gone, another one has its name\n"
        assert daemon.process.returncode == 6


def test_a_program_that_was_taken_off_is_missed(tmp_path: Path, folder: Path) -> None:
    """Without its program on an interface the daemon would hear nothing any more, so it says so and ends."""
    config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64})
    with routed() as built, running(built, tmp_path / "d", config) as daemon:
        built.gw.run(["ip", "link", "set", "gl", "xdp", "off"])
        _, errors = daemon.process.communicate(timeout=60)
        assert errors == "error: somebody took the gateway's XDP program off gl\n"
        assert daemon.process.returncode == 6


@pytest.mark.parametrize("offloaded", [False, True])
def test_frames_fit_what_an_interface_carries_now(tmp_path: Path, folder: Path, offloaded: bool) -> None:
    """When an interface's MTU shrinks, packets that are too long for it are counted; when it grows they pass again."""
    more = {"offload": {"folder": str(folder), "capacity": 64}} if offloaded else {}
    head = Ether(src=LEFT_MAC, dst=GW_LEFT_MAC) / IP(src="10.0.1.1", dst="10.0.2.7")
    long = bytes(head / UDP(sport=1000, dport=9999) / Raw(bytes(1200)))
    denied = {"tenant": 0, "protocol": 17, "source": "10.0.1.1", "target": "10.0.2.7", "source_port": 7}
    denied["target_port"] = 9999
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "d", settings("af_xdp", **more)) as daemon,
        ControlClient(daemon.control) as client,
    ):
        client.call("flows.install", flows=[{"key": denied, "allow": False}])
        for mtu, reaches in ((1500, True), (1000, False), (1500, True)):
            built.gw.run(["ip", "link", "set", "gr", "mtu", str(mtu)])
            client.call("stats")
            for _ in range(3):
                left.send(long)
                assert comes(right, 1000, 5.0 if reaches else 0.2) is reaches
        left.send(datagram(7))
        assert not comes(right, 7, 0.2), "what was told of a flow holds on"
        long_sent = 6
        while offloaded and long_sent < 100 and not client.call("stats")["stats"]["offload"]["flows"]:
            # What had to leave the kernel's table is offered again, as long as it has packets.
            assert not comes(left, 1, 0.1)
            left.send(long)
            assert comes(right, 1000, 5.0)
            long_sent += 1
        figures = daemon.end()
    reasons = {name: one["frames"] for name, one in figures["pipeline"]["reasons"].items() if one["frames"]}
    assert (reasons["too_long"], reasons["denied"]) == (3, 1)
    if offloaded:
        assert figures["offload"]["installed"] >= 2, "offered again"
        assert figures["offload"]["outcomes"]["hit"] + reasons["forwarded"] == long_sent


@pytest.mark.parametrize("mode", ["af_xdp", "packet_mmap"])
def test_it_ends_although_nothing_can_leave(tmp_path: Path, mode: str) -> None:
    """Frames for an interface that is down do not keep the daemon from ending."""
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        running(built, tmp_path / "d", settings(mode)) as daemon,
    ):
        built.gw.run(["ip", "link", "set", "gr", "down"])
        for port in range(1000, 1200):
            left.send(datagram(port))
        for _ in range(100):
            if daemon.ask("stats")["pipeline"]["frames_in"] >= 200:
                break
            assert not comes(left, 1, 0.05)
        figures = daemon.end()
        assert figures["pipeline"]["frames_in"] >= 200


def test_the_hosts_own_addresses_are_those_of_now(tmp_path: Path) -> None:
    """The stack gets what is for it over IPv6, and for addresses and tunnels' ends that came later, once told."""
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
    ):
        for host, name, address in ((built.left, "lh", "fd00:1::1"), (built.gw, "gl", "fd00:1::254")):
            host.run(["sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=0"])
            host.run(["ip", "addr", "add", f"{address}/64", "dev", name, "nodad"])

        def answers(*address: str) -> bool:
            done = built.left.run(["ping", "-c", "1", "-W", "1", *address], check=False)
            return "1 received" in done.stdout

        with (
            running(built, tmp_path / "d", settings("af_xdp")) as daemon,
            ControlClient(daemon.control) as client,
        ):
            assert answers("-6", "fd00:1::254")
            built.gw.run(["ip", "addr", "add", "10.0.1.253/32", "dev", "gl"])
            client.call("reload")
            assert answers("10.0.1.253")
            told = client.call("policies.get")["policies"]
            told["tunnel_ends"] = ["10.0.2.254"]
            told["tenants"] = [{"number": 0, "ports": [0, 1], "vnis": [77]}]
            client.call("policies.set", policies=told)
            inside = Ether(src="02:00:00:00:09:01", dst=GW_RIGHT_MAC) / IP(src="10.0.2.5", dst="10.0.1.1")
            outer = Ether(src=RIGHT_MAC, dst=GW_RIGHT_MAC) / IP(src="10.0.2.1", dst="10.0.2.254")
            carried = VXLAN(vni=77, flags="Instance") / inside / UDP(sport=7, dport=9999) / Raw(b"b")
            right.send(bytes(outer / UDP(sport=5555, dport=4789) / carried))
            assert comes(left, 7, 5.0)
            daemon.end()


def test_a_stranger_on_the_control_socket_is_not_taken_over(tmp_path: Path) -> None:
    """Who would take the place of something that is no daemon says so, and the interfaces stay as they were."""
    with routed() as built, socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(tmp_path / "control"))
        stranger.listen()
        path = tmp_path / "fast.json"
        path.write_text(json.dumps(settings("af_xdp")))
        argv = [sys.executable, "-m", "gateway", "fast", "--config", str(path)]
        argv += ["--control", str(tmp_path / "control"), "--take-over"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        successor = built.gw.popen(argv, cwd=REPOSITORY, **pipes)
        sock, _ = stranger.accept()
        with sock:
            sock.recv(1000)
            sock.sendall(b"220 mail.example.com ESMTP\r\n")
            _, errors = successor.communicate(timeout=60)
        assert errors == (
            f"error: control socket {tmp_path}/control: an answer that is not understood: "
            "b'220 mail.example.com ESMTP\\r\\n'\n"
        )
        assert successor.returncode == 6
        assert with_program(built) == []
