"""Tests of the fast gateway under a controller, and of what it is told over its control socket; see `fast_guest`."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from controller.client import ControllerClient
from controller.client.stream import Event
from gateway.client import ControlClient
from tests.support.controller_fabrics import leaf_spine
from tests.support.controller_process import running_controller
from tests.support.fast_guest import Daemon, datagram, routed, running, settings
from tests.support.offload_guest import next_ip
from tests.support.rings_bed import Bed, bed, may_make_namespaces
from tests.support.waiting import until as eventually

pytestmark = pytest.mark.skipif(not may_make_namespaces(), reason="network namespaces may not be made here")
FABRIC = leaf_spine(spines=1, leaves=1, gpus=2, computes=1, gateways=1, storage=1)
STICK: dict[str, Any] = {"mode": "packet_mmap", "ports": [{"interface": "gl"}], "frames": 256}


def until(events: Iterator[Event], pattern: str) -> str:
    """The message of the next event that fits."""
    for event in events:
        if re.search(pattern, event.message):
            return event.message
    raise AssertionError(f"the events end without {pattern!r}")


def declare(client: ControllerClient) -> None:
    """A tenant with two nodes, one of which may open a volume."""
    client.put("/v1/tenants/red", {})
    client.put("/v1/vpcs/red", {"tenant": "red", "cidrs": ["192.168.0.0/24"], "segment": 77})
    for number in range(2):
        client.put(f"/v1/vpcs/red/nodes/g{number}", {"ip": f"192.168.0.{10 + number}"})
    client.put("/v1/services/disk", {"kind": "block", "node": "st0", "port": 4420, "vpcs": ["red"]})
    client.put("/v1/vpcs/red/endpoints/disk", {"service": "disk", "ip": "192.168.0.100", "port": 4420})


def allow(client: ControllerClient) -> None:
    """The first of the two nodes may open the volume."""
    destination, source = {"endpoints": ["disk"]}, {"nodes": ["g0"]}
    body = {"vpc": "red", "action": "allow", "source": source, "destination": destination, "protocol": "tcp"}
    client.put("/v1/policies/disk", body)


def request_frame(target_port: int = 4420) -> bytes:
    """What the gateway gets when g0 opens the volume: translated, in the VPC's segment."""
    g0, gw0, st0 = (FABRIC.by_name[name] for name in ("g0", "gw0", "st0"))
    assert g0.ip
    assert st0.ip
    packet = IP(src=str(g0.ip.ip), dst=str(st0.ip.ip)) / TCP(sport=999, dport=target_port)
    return bytes(Ether(src=g0.mac, dst=gw0.mac) / Dot1Q(vlan=77) / packet)


def answer(sock: socket.socket) -> Ether:
    """The next frame of TCP; the kernel has taken its tag off."""
    while True:
        frame = Ether(sock.recv(2000))
        if TCP in frame:
            return frame


def rules_of(daemon: Daemon) -> list[dict[str, Any]]:
    with ControlClient(daemon.control) as control:
        found: list[dict[str, Any]] = control.call("policies.get")["policies"]["rules"]
        return found


def denied(client: ControllerClient) -> int:
    """Frames that the gateway refused."""
    frames: int = client.read("/v1/gateways/gw0").body["statistics"]["pipeline"]["reasons"]["denied"]["frames"]
    return frames


def on_a_stick(built: Bed) -> None:
    """The gateway's one interface has the address that the fabric's gateway has."""
    mac = FABRIC.by_name["gw0"].mac
    built.gw.run(["ip", "link", "set", "gl", "down"])
    built.gw.run(["ip", "link", "set", "gl", "address", str(mac)])
    built.gw.run(["ip", "link", "set", "gl", "up"])


def test_a_controller_tells_a_gateway_what_tenants_may_do(tmp_path: Path) -> None:
    """What is declared over REST is what the daemon lets through, also after it was killed and started again.

    A flow that is decided from outside is dropped although policies let it through, until it is forgotten.
    """
    folder = tmp_path / "d"
    folder.mkdir()
    more = ("--store", ":memory:", "--lldp-interval", "0", "--gateway", f"gw0={folder / 'control'}")
    with ExitStack() as stack, bed() as built, running_controller(tmp_path, FABRIC, "gateway", (), *more) as controller:
        on_a_stick(built)
        client = controller.client
        events = iter(stack.enter_context(client.events(after=0, kinds=["gateway"])))
        assert until(events, "") == f"gateway gw0: {folder / 'control'}: No such file or directory"
        [shown] = client.read("/v1/gateways").body["gateways"]
        assert (shown["state"], shown["rules"], shown["connections"]) == ("offline", 0, 0)
        with built.raw(built.left, "lh") as left, running(built, folder, STICK) as first:
            assert until(events, "has what") == "gateway gw0 (fast) has what it should: 0 rules, revision 1"
            assert rules_of(first) == [], "the file lets everything pass, the controller nothing"
            declare(client)
            allow(client)
            until(events, "has what it should: 2 rules")
            assert [rule["target_ports"] for rule in rules_of(first)] == [[4420, 4420], [0, 65535]]
            left.send(request_frame(22))
            left.send(request_frame())
            got = answer(left)
            assert (got.src, got.dst) == (FABRIC.by_name["gw0"].mac, FABRIC.by_name["st0"].mac)
            assert got[TCP].dport == 4420
            details = client.read("/v1/gateways/gw0").body
            reasons = details["statistics"]["pipeline"]["reasons"]
            assert (details["state"], details["mode"], details["problem"]) == ("ready", "fast", None)
            assert (reasons["forwarded"]["frames"], reasons["denied"]["frames"]) == (1, 1)
            flows = {flow["key"]["target_port"]: flow for flow in client.gateway_flows("gw0", tenant=77)}
            assert {port: flow["reason"] for port, flow in flows.items()} == {22: "denied", 4420: "forwarded"}
            opened = flows[4420]["key"]
            assert client.install_flows("gw0", [{"key": opened, "allow": False}]) == 2
            left.send(request_frame())
            eventually(lambda: denied(client) == 2, "the connection is cut")
            assert client.delete_flows("gw0", opened) == 1
            left.send(request_frame())
            assert answer(left)[TCP].dport == 4420, "it is decided anew"
            assert client.read("/v1/gateways/gw0").body["revision"] == 2, "nothing else was told"
            client.delete("/v1/policies/disk", if_match=client.read("/v1/policies/disk").etag)
            until(events, "has what it should: 0 rules")
            assert rules_of(first) == []
            allow(client)
            until(events, "has what it should: 2 rules")
            first.process.send_signal(signal.SIGKILL)
            first.process.communicate()
            assert until(events, "ended|reset").startswith("gateway gw0: ")
            assert client.read("/v1/gateways/gw0").body["statistics"] is None
        with built.raw(built.left, "lh") as left, running(built, folder, STICK) as second:
            assert until(events, "has what") == "gateway gw0 (fast) has what it should: 2 rules, revision 1"
            left.send(request_frame())
            assert answer(left)[TCP].dport == 4420
            [shown] = client.read("/v1/gateways").body["gateways"]
            assert (shown["connections"], shown["disconnections"], shown["refusals"]) == (2, 1, 0)
            second.end()
        assert controller.end() == 0
        assert "Traceback" not in controller.log.read_text()


def test_what_it_is_told_is_fitted_to_the_host(tmp_path: Path) -> None:
    """After policies without a word about the host, its own addresses are still its own, and frames fit its ports."""
    with routed() as built, built.raw(built.left, "lh") as left, built.raw(built.right, "rh") as right:
        with running(built, tmp_path / "d", settings("packet_mmap")) as daemon, ControlClient(daemon.control) as client:
            told = {
                "tenants": [{"number": 0, "ports": [0, 1]}],
                "rules": [{"allow": True}],
                "next_hops": [
                    {"port": 1, "target_mac": "02:00:00:00:02:01", "source_mac": "00:00:00:00:00:00", "max_bytes": 200}
                ],
                "routes": [{"tenant": 0, "network": "0.0.0.0/0", "next_hop": 1}],
            }
            client.call("policies.set", policies=told)
            said = client.call("policies.get")
            assert (said["revision"], said["policies"]["next_hops"][0]["max_bytes"]) == (1, 200)
            assert said["policies"]["routes"] == told["routes"], "what was told, not what became of it"
            assert client.call("policies.get", known=1) == {"revision": 1, "policies": None}
            for target in ("10.0.1.254", "10.0.2.7"):
                left.send(datagram(1000, dst=target))
            assert next_ip(right)[UDP].sport == 1000
            reasons = client.call("stats")["stats"]["pipeline"]["reasons"]
            assert (reasons["own_address"]["frames"], reasons["forwarded"]["frames"]) == (1, 1)
            path = tmp_path / "d" / "fast.json"
            path.write_text(json.dumps(settings("packet_mmap", rules=[{"allow": False}])))
            client.call("reload")
            said = client.call("policies.get")
            assert said["revision"] == 2
            assert [rule["allow"] for rule in said["policies"]["rules"]] == [False], "the file is in force again"
        daemon.process.wait()
