"""Tests of the tenants' mode that run inside a virtual-time kernel; `tests/system/test_tenants_virtual.py` boots it.

Two tenants with the same addresses on one fabric: who reaches whom is held against what the controller says it should
be, told from the declared resources.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from controller.client import ControllerClient, wait_ready
from emulator.experiment.dataplane import data_plane
from emulator.model.profile import profile
from emulator.network import Network, build
from tests.support.controller_process import running_controller
from topologies import icgw

OPENFLOW, REST = "127.0.0.1:6653", "127.0.0.1:8080"
FABRIC = icgw(gpus=4, compute=1, storage=1)
MEMBERS = {("red", "g1"): 10, ("red", "g2"): 11, ("blue", "g3"): 10, ("blue", "g4"): 11}
"""Last byte of the address in 192.168.0.0/24, which both VPCs have."""
NODE_PORT, VOLUME_PORT = 7000, 4420
TIMEOUT_S = 2.0


CLIENT = ControllerClient(f"http://{REST}")


def put(path: str, body: dict[str, Any]) -> None:
    """Declare a resource."""
    assert CLIENT.put(f"/v1/{path}", body).created


def get(path: str, **query: str | int) -> dict[str, Any]:
    """Read a resource."""
    found: dict[str, Any] = CLIENT.get(f"/v1/{path}", 90, **query)
    return found


def declare() -> None:
    """Two tenants with equal addresses, a volume each behind the same endpoint; blue's nodes may not talk."""
    for name, port in (("red", 4420), ("blue", 4421)):
        put(f"tenants/{name}", {})
        put(f"vpcs/{name}", {"tenant": name, "cidrs": ["192.168.0.0/24"]})
        put(f"services/volume-{name}", {"kind": "block", "node": "s1", "port": port, "vpcs": [name]})
        endpoint = {"service": f"volume-{name}", "ip": "192.168.0.100", "port": VOLUME_PORT}
        put(f"vpcs/{name}/endpoints/volume", endpoint)
    for (vpc, node), number in MEMBERS.items():
        put(f"vpcs/{vpc}/nodes/{node}", {"ip": f"192.168.0.{number}"})
    put("policies/red-all", {"vpc": "red", "action": "allow"})
    put("policies/blue-volume", {"vpc": "blue", "action": "allow", "destination": {"endpoints": ["volume"]}})
    assert get("health", wait_ms=60_000)["ready"]


@contextmanager
def greeting(network: Network, host: str, port: int, text: str) -> Iterator[None]:
    """A server on a host that tells each client who it is."""
    with network.host(host).namespace():
        listener = socket.create_server(("", port))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(text.encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def asked(network: Network, host: str, ip: str, port: int) -> str:
    """Who answers a connection; empty: nobody."""
    with network.host(host).namespace(), socket.socket() as client:
        client.settimeout(TIMEOUT_S)
        try:
            client.connect((ip, port))
            return client.recv(100).decode()
        except OSError:
            return ""


def forged() -> dict[str, Any]:
    """Frames that g1, of red, must not send; by the reason for which each is to be dropped."""
    from scapy.layers.dhcp import BOOTP, DHCP
    from scapy.layers.inet import ICMP, IP, TCP, UDP
    from scapy.layers.l2 import ARP, Dot1Q, Ether

    own, peer, victim = (FABRIC.by_name[name].mac or "" for name in ("g1", "g2", "g3"))
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


def test_what_a_host_must_not_send_is_dropped_counted_and_reported() -> None:
    """Every kind of forgery, four times each: no other host sees a frame, and the controller tells who sent it."""
    folder = Path(tempfile.mkdtemp())
    with ExitStack() as stack:
        controller = stack.enter_context(
            running_controller(folder, FABRIC, "shortest-path", (), "--store", ":memory:", listen=OPENFLOW, rest=REST)
        )
        network = stack.enter_context(build(FABRIC, controller=f"tcp:{OPENFLOW}", checksum_offload=False))
        wait_ready(f"http://{REST}", len(FABRIC.switches), 60_000_000_000)
        declare()
        frames = forged()
        listeners = {}
        for name in ("g2", "g3", "g4", "s1"):
            with network.host(name).namespace():
                listeners[name] = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
            listeners[name].setblocking(False)
        with network.host("g1").namespace(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("g1-eth0", 0))
            for frame in frames.values():
                for _ in range(4):
                    sender.send(bytes(frame))
        expected = dict.fromkeys(frames, 4)
        for _ in range(50):  # the switch's daemon fetches its datapath's counters only now and then
            counted = {entry["reason"]: entry["packets"] for entry in get("violations")["violations"]}
            if counted == expected:
                break
            time.sleep(0.1)
        assert counted == expected
        source = (FABRIC.by_name["g1"].mac or "").replace(":", "")
        for name, listener in listeners.items():
            seen = []
            with suppress(BlockingIOError):
                while True:
                    seen.append(listener.recv(2000))
            assert not [data for data in seen if data[6:12].hex() == source or b"\xc0\xa8\x00" in data[14:40]], name
        events = get("events", kind="violation")["events"]
        assert {event["fields"]["reason"] for event in events} == set(frames)
        assert all("g1" in event["message"] for event in events)
        assert controller.end() == 0


@pytest.mark.parametrize("design", ["shortest-path", "gateway"])
def test_tenants_with_equal_addresses_reach_their_own_and_nothing_else(design: str) -> None:
    """Every node, to every address of its VPC, on the nodes' port and the volume's: as the resources say."""
    folder = Path(tempfile.mkdtemp())
    with ExitStack() as stack:
        stack.enter_context(
            running_controller(folder, FABRIC, design, (), "--store", ":memory:", listen=OPENFLOW, rest=REST)
        )
        network = stack.enter_context(build(FABRIC, controller=f"tcp:{OPENFLOW}", checksum_offload=False))
        wait_ready(f"http://{REST}", len(FABRIC.switches), 60_000_000_000)
        hosts = {host.name: host for host in network.hosts}
        stack.enter_context(data_plane(FABRIC, hosts, design, profile("documents"), folder))
        declare()
        for (_, node), number in MEMBERS.items():
            network.host(node).run(["ip", "address", "add", f"192.168.0.{number}/24", "dev", f"{node}-eth0"])
            stack.enter_context(greeting(network, node, NODE_PORT, node))
        stack.enter_context(greeting(network, "s1", 4420, "red's volume"))
        stack.enter_context(greeting(network, "s1", 4421, "blue's volume"))
        found, told = {}, {}
        for vpc, node in MEMBERS:
            for (other, peer), number in MEMBERS.items():
                if vpc == other and node != peer:
                    key = (node, number, NODE_PORT)
                    found[key] = asked(network, node, f"192.168.0.{number}", NODE_PORT)
                    answer = get("reachability", src=f"{vpc}/{node}", dst=peer, protocol="tcp", port=NODE_PORT)
                    told[key] = peer if answer["allowed"] else ""
            key = (node, 100, VOLUME_PORT)
            found[key] = asked(network, node, "192.168.0.100", VOLUME_PORT)
            answer = get("reachability", src=f"{vpc}/{node}", dst="volume", protocol="tcp", port=VOLUME_PORT)
            told[key] = f"{vpc}'s volume" if answer["allowed"] else ""
        assert found == told
        assert {who for who in told.values() if who} == {"g1", "g2", "red's volume", "blue's volume"}
        # Fabric addresses, the other tenant's port of the storage node, and other ports of the endpoint lead nowhere.
        storage = network.host("s1").ip
        for target in ((storage, 4420), (storage, 4421), ("192.168.0.100", 4421), (network.host("c1").ip, 22)):
            assert asked(network, "g1", *target) == ""
