"""Tests of the fast gateway with many queues, changed policies and vanishing interfaces; see `fast_guest`."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from gateway.client import ControlClient
from tests.support.fast_guest import MODES, comes, datagram, routed, running, settings
from tests.support.offload_guest import folder, next_ip
from tests.support.rings_bed import (
    GW_LEFT_MAC,
    GW_RIGHT_MAC,
    LEFT_MAC,
    RIGHT_MAC,
    SOL_PACKET,
    may_make_namespaces,
)

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
__all__ = ["folder"]  # a fixture
PACKET_AUXDATA = 8
POLICIES = {
    "tenants": [{"number": 0, "ports": [0, 1]}],
    "next_hops": [
        {"port": 0, "target_mac": LEFT_MAC, "source_mac": GW_LEFT_MAC, "max_bytes": 1514},
        {"port": 1, "target_mac": RIGHT_MAC, "source_mac": GW_RIGHT_MAC, "max_bytes": 1514},
    ],
    "routes": [
        {"tenant": 0, "network": "10.0.1.0/24", "next_hop": 1},
        {"tenant": 0, "network": "10.0.2.0/24", "next_hop": 2},
    ],
}
DENIED = {"allow": False, "protocol": 17, "source_ports": [1000, 1000]}


def test_every_queue_is_served(tmp_path: Path) -> None:
    """Flows that the kernel spreads over two queues all come through, each by a queue of the same number."""
    config = settings("af_xdp", ports=[{"interface": "gl", "queues": 2}, {"interface": "gr", "queues": 2}])
    with (
        routed(queues=2) as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "d", config) as daemon,
    ):
        for port in range(1, 65):
            left.send(datagram(port))
            assert next_ip(right)[UDP].sport == port
        ports = daemon.end()["ports"]
    received = {port["queue"]: port["counters"]["rx_frames"] for port in ports if port["interface"] == "gl"}
    sent = {port["queue"]: port["counters"]["tx_frames"] for port in ports if port["interface"] == "gr"}
    assert sum(received.values()) == 64
    assert min(received.values()) > 0, "the kernel used both queues"
    assert sent == received


def test_policies_reach_offloaded_flows(tmp_path: Path, folder: Path) -> None:
    """A flow that is denied over the control socket is not forwarded in the kernel either, until it is allowed."""
    config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64}, idle_s=3600)
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "d", config) as daemon,
        ControlClient(daemon.control) as client,
    ):

        def passes(port: int) -> bool:
            left.send(datagram(port))
            return comes(right, port, 5.0 if port != 1000 or allowed else 0.2)

        allowed = True
        assert all(passes(port) for port in (1000, 1001))
        assert daemon.ask("stats")["offload"]["flows"] == 2
        assert all(passes(port) for port in (1000, 1001))
        assert daemon.ask("stats")["offload"]["outcomes"]["hit"] == 2
        client.call("policies.set", policies={**POLICIES, "rules": [DENIED, {"allow": True}]})
        allowed = False
        assert daemon.ask("stats")["offload"]["flows"] == 1
        assert not passes(1000)
        assert passes(1001)
        [key] = [flow["key"] for flow in client.call("flows.list")["flows"] if flow["key"]["source_port"] == 1000]
        decision = {"key": key, "allow": True, "next_hop": 2}
        client.call("flows.install", flows=[decision])
        allowed = True
        assert passes(1000), "one flow was decided on from outside"
        client.call("policies.set", policies={**POLICIES, "rules": [{"allow": True}]})
        assert all(passes(port) for port in (1000, 1000))
        client.call("reload")
        assert all(passes(port) for port in (1000, 1001))
        figures = daemon.end()
    assert figures["pipeline"]["reasons"]["denied"]["frames"] == 1
    assert figures["offload"]["audit"]["agrees"]


@pytest.mark.parametrize("mode", MODES)
def test_tags_tell_tenants(tmp_path: Path, mode: str) -> None:
    """In each mode a tagged frame is its VLAN's tenant's, not that of its port, and leaves with its next hop's tag."""
    config = settings(mode, tenants={"by_port": {"gl": 0}, "by_vlan": {"5": 3}}, rules=[{"allow": True, "tenant": 3}])
    config["next_hops"]["r"]["vlan"] = 9
    config["routes"] = [{"network": "0.0.0.0/0", "next_hop": "r", "tenant": tenant} for tenant in (0, 3)]
    config["endpoints"] = []
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "d", config) as daemon,
    ):
        plain = datagram(1000)
        for tag in (b"", b"\x81\0\xe0\5", b"\x81\0\0\6"):
            left.send(plain[:12] + tag + plain[12:])
        right.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        while True:
            data, [(_, _, note)], _, _ = right.recvmsg(2000, 100)
            if data[12:14] == b"\x08\0":
                break
        assert (int.from_bytes(note[16:18], "little") & 0xFFF, Ether(data)[UDP].sport) == (9, 1000)
        figures = daemon.end()
    reasons = figures["pipeline"]["reasons"]
    assert (reasons["forwarded"]["frames"], reasons["denied"]["frames"], reasons["no_tenant"]["frames"]) == (1, 1, 1)
    classes = {one["tenant"]: one["frames"] for one in figures["pipeline"]["classes"]}
    assert classes == {0: 1, 3: 1}


def test_what_the_program_cannot_do_is_not_offloaded(tmp_path: Path, folder: Path) -> None:
    """A flow whose next hop wants a tag goes through the daemon packet by packet, and never leaves without it."""
    config = settings("af_xdp", offload={"folder": str(folder), "capacity": 64})
    config["next_hops"]["r"]["vlan"] = 9
    with (
        routed() as built,
        built.raw(built.left, "lh") as left,
        built.raw(built.right, "rh") as right,
        running(built, tmp_path / "d", config) as daemon,
    ):
        right.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        for _ in range(3):
            left.send(datagram(1000))
            while True:
                data, [(_, _, note)], _, _ = right.recvmsg(2000, 100)
                if data[12:14] == b"\x08\0":
                    break
            assert int.from_bytes(note[16:18], "little") & 0xFFF == 9
        figures = daemon.end()
    told = figures["offload"]
    assert (told["installed"], told["not_offloadable"], told["outcomes"]["hit"]) == (0, 1, 0)
    assert figures["pipeline"]["reasons"]["forwarded"]["frames"] == 3


@pytest.mark.parametrize("mode", ["af_xdp", "packet_mmap"])
def test_a_vanished_interface_ends_the_daemon(tmp_path: Path, mode: str) -> None:
    """It says so in one line, with the exit code of the gateway, instead of serving nothing."""
    with routed() as built, running(built, tmp_path / "d", settings(mode)) as daemon:
        built.gw.run(["ip", "link", "delete", "gl"])
        _, errors = daemon.process.communicate(timeout=60)
        assert errors == "error: the interface gl is gone\n"
        assert daemon.process.returncode == 6
        assert not daemon.control.exists()
