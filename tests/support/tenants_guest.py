"""Tests of the tenants' mode that run inside a virtual-time kernel; `tests/system/test_tenants_virtual.py` boots it.

Two tenants with the same addresses on one fabric: who reaches whom is held against what the controller says it should
be, told from the declared resources.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from emulator.experiment.dataplane import INTERCEPTED_PORTS, data_plane
from emulator.experiment.observe import vantages
from emulator.measure import PacketCapture
from emulator.model.profile import profile
from emulator.network import Network, build
from tests.support import tenants_servers as servers
from tests.support.controller_process import running_controller
from tests.support.tenants_bed import (
    DESIGNS,
    FABRIC,
    GATES,
    MEMBERS,
    NODE_PORT,
    SERVICES,
    Api,
    address,
    join_vpcs,
)

OPENFLOW = "127.0.0.1:6653"
API = Api("127.0.0.1:8080")
UPLINKS = {link.b_interface for link in FABRIC.links if {link.a, link.b} <= {node.name for node in FABRIC.switches}}
"""One end of each link between switches; both ways are seen there."""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """One network for all tests; each starts a controller of its own, which finds what the one before left."""
    sysctls = {"net.ipv4.tcp_syn_retries": "1"}  # what is refused in silence is given up soon
    with build(FABRIC, controller=f"tcp:{OPENFLOW}", checksum_offload=False, sysctls=sysctls) as made:
        join_vpcs(made)
        yield made


def started(stack: ExitStack, design: str) -> Path:
    """Start a controller and declare everything; returns a folder for files."""
    folder = Path(tempfile.mkdtemp())
    where = {"listen": OPENFLOW, "rest": API.rest}
    stack.enter_context(running_controller(folder, FABRIC, design, (), "--store", ":memory:", **where))
    API.wait_ready()
    API.declare()
    return folder


def forged() -> dict[str, Any]:
    """Frames that g0, of red, must not send; by the reason for which each is to be dropped."""
    from scapy.layers.dhcp import BOOTP, DHCP
    from scapy.layers.inet import ICMP, IP, TCP, UDP
    from scapy.layers.l2 import ARP, Dot1Q, Ether

    own, peer, victim = (FABRIC.by_name[name].mac or "" for name in ("g0", "g1", "g2"))
    mine, theirs = "192.168.0.10", "192.168.0.11"
    return {
        "ip-spoofing": Ether(src=own, dst=peer) / IP(src="192.168.0.77", dst=theirs) / ICMP(),
        "mac-spoofing": Ether(src=victim, dst=peer) / IP(src=mine, dst=theirs) / ICMP(),
        "arp-spoofing": Ether(src=own, dst=peer) / ARP(op=2, hwsrc=own, psrc="192.168.0.100", hwdst=peer, pdst=theirs),
        "vlan-hopping": Ether(src=own, dst=victim) / Dot1Q(vlan=3) / IP(src=mine, dst=mine) / ICMP(),
        "dhcp-server": Ether(src=own, dst="ff:ff:ff:ff:ff:ff")
        / IP(src=mine, dst="255.255.255.255")
        / UDP(sport=67, dport=68)
        / BOOTP(op=2)
        / DHCP(options=[("message-type", "offer"), "end"]),
        "lldp-forgery": Ether(src=own, dst="01:80:c2:00:00:0e", type=0x88CC) / bytes.fromhex("0207040000000000010000"),
        "not-allowed": Ether(src=own, dst=victim) / IP(src=mine, dst="192.168.0.100") / TCP(dport=22, flags="S"),
    }


def test_what_a_host_must_not_send_is_dropped_counted_and_reported(network: Network) -> None:
    """Every kind of forgery, four times each: no other host sees a frame, and the controller tells who sent it."""
    with ExitStack() as stack:
        started(stack, "shortest-path")
        frames = forged()
        listeners = {}
        for name in ("g1", "g2", "g3", "st0"):
            with network.host(name).namespace():
                listeners[name] = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
            listeners[name].setblocking(False)
        with network.host("g0").namespace(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("g0-eth0", 0))
            for frame in frames.values():
                for _ in range(4):
                    sender.send(bytes(frame))
        expected = dict.fromkeys(frames, 4)
        for _ in range(50):  # the switch's daemon fetches its datapath's counters only now and then
            counted = {entry["reason"]: entry["packets"] for entry in API.get("violations")["violations"]}
            if counted == expected:
                break
            time.sleep(0.1)
        assert counted == expected
        source = (FABRIC.by_name["g0"].mac or "").replace(":", "")
        for name, listener in listeners.items():
            seen = []
            with suppress(BlockingIOError):
                while True:
                    seen.append(listener.recv(2000))
            assert not [data for data in seen if data[6:12].hex() == source or b"\xc0\xa8\x00" in data[14:40]], name
        events = API.get("events", kind="violation")["events"]
        assert {event["fields"]["reason"] for event in events} == set(frames)
        assert all("g0" in event["message"] for event in events)


class Servers:
    """All services of both tenants and a greeting on each of their nodes, running; asks them for names."""

    def __init__(self, network: Network, folder: Path, stack: ExitStack) -> None:
        self._network, self._folder = network, folder
        addresses = [host.ip for host in network.hosts]
        for (vpc, kind), behind in SERVICES.items():
            host, owner = network.host(behind.node), f"{vpc}/{kind}"
            if kind == "file":
                stack.enter_context(servers.file_server(host, behind.port, owner, addresses, folder))
            elif kind == "object":
                stack.enter_context(servers.object_server(host, behind.port, owner, folder))
        for vpc, node in MEMBERS:
            stack.enter_context(servers.object_server(network.host(node), NODE_PORT, f"{vpc}/{node}", folder))

    def node(self, client: str, number: int) -> str:
        """Which node answers a client at a node's address."""
        return servers.read_object(self._network.host(client), address(number), NODE_PORT)

    def pinged(self, client: str, number: int) -> bool:
        """Whether a node's address answers an echo request."""
        argv = ["ping", "-n", "-q", "-c", "1", "-W", str(servers.TIMEOUT_S), address(number)]
        return self._network.host(client).run(argv, check=False).returncode == 0

    def service(self, client: str, kind: str) -> list[str]:
        """Whose service answers a client at an endpoint."""
        host, (number, port) = self._network.host(client), GATES[kind]
        at = (address(number), port)
        if kind == "file":
            return [servers.read_file(host, *at, self._folder)]
        if kind == "object":
            return [servers.read_object(host, *at)]
        owners = {SERVICES[vpc, kind].node: f"{vpc}/{kind}" for vpc in ("red", "blue")}
        found = servers.volumes_reached(host, [self._network.host(name) for name in owners], at)
        return [owners[name] for name in found]


def predicted(source: tuple[str, str], target: tuple[str, str], port: int | None) -> bool:
    """Whether the controller says that a node may open a connection to a node or an endpoint; no port: ping it."""
    question: dict[str, str | int] = {"src": "/".join(source), "dst": "/".join(target)}
    question |= {"protocol": "icmp"} if port is None else {"protocol": "tcp", "port": port}
    answer = API.get("reachability", **question)
    assert answer["reason"]
    return bool(answer["allowed"])


@pytest.mark.parametrize("design", DESIGNS)
def test_tenants_with_equal_addresses_reach_their_own_and_nothing_else(network: Network, design: str) -> None:
    """The whole matrix, of all nodes and all services with real servers, is what the controller says it should be.

    Steps: every node asks at every address of a node or endpoint who is there, and pings the nodes of its own VPC;
    volumes are written and read. Meanwhile the links between switches are captured, for others to look at.
    Verify: for every pair of nodes, and every node and service, of one tenant or of two: it was reached exactly if
    ``/v1/reachability`` says so. Storage nodes' own addresses, and ports that no endpoint has, lead nowhere.
    """
    with ExitStack() as stack:
        folder = started(stack, design)
        hosts = {host.name: host for host in network.hosts}
        ports = (*INTERCEPTED_PORTS, *(behind.port for behind in SERVICES.values()))
        stack.enter_context(data_plane(FABRIC, hosts, design, profile("documents"), folder, ports))
        running = Servers(network, folder, stack)
        out = Path(os.environ["GUEST_OUT"]) / design
        out.mkdir()
        found, told, pinged, ping_told = {}, {}, {}, {}
        with PacketCapture(vantages(FABRIC, network, UPLINKS), out):
            for source, own in MEMBERS.items():
                for target, number in MEMBERS.items():
                    if source != target:
                        answer = running.node(source[1], number) if number != own else ""
                        found[source, target] = answer == "/".join(target)
                        told[source, target] = predicted(source, target, NODE_PORT)
                    if source[0] == target[0] and source != target:
                        pinged[source, target] = running.pinged(source[1], number)
                        ping_told[source, target] = predicted(source, target, None)
                for kind, (_, port) in GATES.items():
                    answers = running.service(source[1], kind)
                    for vpc in ("red", "blue"):
                        found[source, (vpc, kind)] = f"{vpc}/{kind}" in answers
                        told[source, (vpc, kind)] = predicted(source, (vpc, kind), port)
        assert found == told
        assert pinged == ping_told
        assert (sum(found.values()), sum(pinged.values())) == (13, 4)
        gates = {(address(number), port) for number, port in GATES.values()}
        for behind in SERVICES.values():
            for ip in (network.host(behind.node).ip, *(gate[0] for gate in gates)):
                if (ip, behind.port) not in gates:
                    assert not servers.opens(network.host("g0"), ip, behind.port)
        segments = {vpc: API.get(f"vpcs/{vpc}")["segment"] for vpc in ("red", "blue")}
        seen = {"reached": [pair for pair, yes in found.items() if yes], "pinged": [*pinged]}
        (out / "seen.json").write_text(json.dumps({"segments": segments, **seen}))
