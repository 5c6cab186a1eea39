"""What the controller does when things break, with real Open vSwitch: ports, cables, other controllers, intruders."""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import controller.green  # noqa: F401 - first, it makes Ryu importable
from controller import ryu_codec as codec
from controller.client import ControllerClient, Unavailable, wait_ready
from emulator.model.fabric import Fabric
from tests.support.controller_fabrics import leaf_spine, services_of
from tests.support.controller_process import RunningController, running_controller
from tests.support.dummy_ovs import DummyOvs, dummy_ovs, missing
from tests.support.openflow_socket import openflow_socket
from tests.support.waiting import until

WAIT_NS = 60_000_000_000
FABRIC = leaf_spine(gpus=3, storage=2)
SERVICES = services_of(FABRIC, 4420)
SWITCHES = len(FABRIC.switches)


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    if missing():
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing())}")


@dataclass
class Network:
    """A controller and its switches."""

    ovs: DummyOvs
    controller: RunningController
    client: ControllerClient


@contextmanager
def built(folder: Path, *options: str, cabled: Fabric = FABRIC, wait: bool = True) -> Iterator[Network]:
    """Start everything; the switches may be cabled otherwise than the controller is told."""
    services = () if "--store" in options else SERVICES
    (folder / "ovs").mkdir()
    with (
        dummy_ovs(folder / "ovs") as ovs,
        running_controller(folder, FABRIC, "shortest-path", services, *options) as controller,
    ):
        ovs.build(cabled, f"tcp:{controller.openflow}")
        client = ControllerClient(f"http://{controller.rest}")
        if wait:
            wait_ready(client.url, SWITCHES, WAIT_NS)
        yield Network(ovs, controller, client)


def events(client: ControllerClient, kind: str, after: int = 0) -> list[dict[str, Any]]:
    return list(client.get("/v1/events", kind=kind, after=after, limit=1000)["events"])


def put(rest: str, path: str, body: dict[str, Any]) -> int:
    return ControllerClient(f"http://{rest}").put(path, body).status


def mac(text: str | None) -> bytes:
    return bytes.fromhex((text or "").replace(":", ""))


def between(source: str, target: str) -> str:
    """A UDP flow between two hosts, for tracing."""
    here, there = FABRIC.by_name[source], FABRIC.by_name[target]
    assert here.ip
    assert there.ip
    return f"udp,dl_src={here.mac},dl_dst={there.mac},nw_src={here.ip.ip},nw_dst={there.ip.ip},nw_ttl=64"


@dataclass
class Entries:
    """The entries of all switches, how old each was, and when they were read."""

    age_ns: dict[tuple[Any, ...], int]
    begun_ns: int
    done_ns: int

    def stayed(self, later: Entries) -> bool:
        """Whether these are the later ones and none was installed anew meanwhile (Open vSwitch counts ms)."""
        passed_ns = later.begun_ns - self.done_ns - 20_000_000
        return self.age_ns.keys() == later.age_ns.keys() and all(
            later.age_ns[key] - age_ns >= passed_ns for key, age_ns in self.age_ns.items()
        )


def entries(client: ControllerClient) -> Entries:
    """Ask all switches for their entries."""
    begun_ns = time.monotonic_ns()
    ages = {(f["dpid"], f["table"], f["priority"], str(f["match"])): f["duration_ns"] for f in client.flows()}
    return Entries(ages, begun_ns, time.monotonic_ns())


# --- links ------------------------------------------------------------------------------------------------------------


def test_ports_that_go_are_routed_around_and_used_again(tmp_path: Path) -> None:
    """Packets take other ways after a failure, and the first ones again after it; no flow rule is touched.

    Steps: take all ports of s0 away, then put them back.
    Verify: every pair of hosts reaches each other at each stage, s0 is passed by nobody while it is cut off, and all
    entries of all switches are as old as before.
    """
    with built(tmp_path) as network:
        before = entries(network.client)
        pairs = [(a.name, b.name) for a in FABRIC.hosts for b in FABRIC.hosts if a is not b][::5]
        groups = _groups(network)
        spine = [link for link in FABRIC.links if link.a == "s0"]
        for link in spine:
            network.ovs.vsctl("del-port", "s0", link.a_interface)
        names = {link.name for link in spine}
        until(lambda: {e["fields"]["link"] for e in events(network.client, "link")} >= names, "links are down")
        until(lambda: not _towards(network, "s0"), "nobody sends to s0")
        for source, target in pairs:
            assert network.ovs.trace(FABRIC, source, between(source, target))[0] == target
        for link in spine:
            network.ovs.vsctl(
                *("add-port", "s0", link.a_interface, "--", "set", "interface", link.a_interface, "type=patch"),
                *(f"options:peer={link.b_interface}", f"ofport_request={link.a_port}"),
            )
        assert network.client.get("/v1/health", wait_ms=20_000)["ready"] is True
        until(lambda: _groups(network) == groups, "the groups are as at first")
        for source, target in pairs:
            assert network.ovs.trace(FABRIC, source, between(source, target))[0] == target
        assert before.stayed(entries(network.client))
        updates = events(network.client, "paths")
        assert updates
        assert all(not update["fields"]["slow"] for update in updates)


def _groups(network: Network) -> dict[str, list[str]]:
    """All groups of all switches, as Open vSwitch shows them."""
    shown = {}
    for node in FABRIC.switches:
        text = network.ovs.ofctl("dump-groups", node.name)
        shown[node.name] = sorted(line.strip() for line in text.splitlines() if "group_id" in line)
    return shown


def _towards(network: Network, spine: str) -> list[str]:
    """Groups of other switches with a port to a spine."""
    ports = {(link.b, link.b_port) if link.a == spine else (link.a, link.a_port) for link in FABRIC.links_of(spine)}
    shown = _groups(network)
    return [
        line
        for switch, port in ports
        for line in shown[switch]
        if f"watch_port:{port}," in line or f'watch_port:"{switch}-eth{port}",' in line
    ]


def test_a_switch_without_control_is_avoided_and_used_again(tmp_path: Path) -> None:
    """After the grace its neighbours go other ways; when it is back, it is used again, and it lost no entry."""
    with built(tmp_path) as network:
        before, groups = entries(network.client), _groups(network)
        # A port where nobody listens: without any controller configured, Open vSwitch would flush its tables.
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            network.ovs.vsctl("set-controller", "s1", f"tcp:127.0.0.1:{nobody.getsockname()[1]}")
            until(lambda: not _towards(network, "s1"), "nobody sends to s1")
            for source, target in (("g0", "g1"), ("g1", "g2"), ("st0", "g2")):
                assert network.ovs.trace(FABRIC, source, between(source, target))[0] == target
        network.ovs.vsctl("set-controller", "s1", f"tcp:{network.controller.openflow}")
        assert network.client.get("/v1/health", wait_ms=20_000)["ready"] is True
        until(lambda: _groups(network) == groups, "s1 is used again")
        assert before.stayed(entries(network.client))


# --- discovery --------------------------------------------------------------------------------------------------------


def test_crossed_cables_are_named(tmp_path: Path) -> None:
    """Two cables of s0 exchanged: one line for each end that leads elsewhere, in health and events, and no way over it.

    Steps: cable s0's ports 1 and 2 to l1 and l0 instead of l0 and l1.
    """
    first, second = FABRIC.links[0], FABRIC.links[1]
    crossed = replace(
        FABRIC,
        links=(
            replace(first, b=second.b, b_port=second.b_port),
            replace(second, b=first.b, b_port=first.b_port),
            *FABRIC.links[2:],
        ),
    )
    expected = {
        "s0 port 1 should lead to l0 port 1, leads to l1 port 1",
        "s0 port 2 should lead to l1 port 1, leads to l0 port 1",
        "l0 port 1 should lead to s0 port 1, leads to s0 port 2",
        "l1 port 1 should lead to s0 port 2, leads to s0 port 1",
    }
    with built(tmp_path, cabled=crossed, wait=False) as network:
        until(lambda: expected <= set(network.client.health()["problems"]), "the contradictions are found")
        assert {event["message"] for event in events(network.client, "discovery")} >= expected
        assert network.client.health()["ready"] is False
        until(lambda: not _crossing(network), "nobody sends by the wrong cables")


def _crossing(network: Network) -> list[str]:
    return [line for switch in ("l0", "l1") for line in _groups(network)[switch] if "watch_port:1," in line]


def test_rounds_of_discovery_find_a_link_that_says_nothing(tmp_path: Path) -> None:
    """A link that drops LLDP while its ports are up is avoided, by name, until it is heard again.

    Steps: have l0 drop LLDP from s0, by a rule of somebody else above the controller's.
    """
    with built(tmp_path, "--lldp-interval", "0.1") as network:
        rule = "table=0,priority=60000,in_port=1,dl_type=0x88cc"
        network.ovs.ofctl("add-flow", "l0", f"{rule},actions=drop")
        problem = "l0 port 1 should lead to s0 port 1, nothing is heard from there"
        until(lambda: problem in network.client.health()["problems"], "it is found")
        link = FABRIC.links[0].name
        until(lambda: any(e["fields"]["link"] == link for e in events(network.client, "link")), "it is avoided")
        network.ovs.ofctl("--strict", "del-flows", "l0", rule)
        assert network.client.get("/v1/health", wait_ms=20_000)["ready"] is True
        assert events(network.client, "link")[-1]["message"] == f"{link} is used again"


# --- several controllers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_standby_takes_over_without_touching_an_entry(tmp_path: Path, end: signal.Signals) -> None:
    """Killed or ended, the other controller decides soon, with all that was declared, and reconciles nothing away.

    Steps: two controllers share a store, all switches know both; declare through the first one; end it; declare
    through the second one.
    Verify: the second refuses changes before; afterwards every entry is as old as it was, and the change is installed.
    """
    store = ("--store", str(tmp_path / "store.db"), "--redundant")
    with ExitStack() as stack:
        for name in ("ovs", "one", "two"):
            (tmp_path / name).mkdir()
        ovs = stack.enter_context(dummy_ovs(tmp_path / "ovs"))
        one = stack.enter_context(running_controller(tmp_path / "one", FABRIC, "gateway", (), *store))
        first = ControllerClient(f"http://{one.rest}")
        until(lambda: first.health()["controller"]["active"], "the first controller decides")
        two = stack.enter_context(running_controller(tmp_path / "two", FABRIC, "gateway", (), *store))
        second = ControllerClient(f"http://{two.rest}")
        ovs.build(FABRIC, f"tcp:{one.openflow}")
        for node in FABRIC.switches:
            ovs.vsctl("set-controller", node.name, f"tcp:{one.openflow}", f"tcp:{two.openflow}")
        wait_ready(first.url, SWITCHES, WAIT_NS)
        until(lambda: set(second.health()["states"].values()) == {"standby"}, "the second stands by")
        assert put(one.rest, "/v1/tenants/t", {}) == 201
        assert put(one.rest, "/v1/vpcs/v", {"tenant": "t", "cidrs": ["192.168.0.0/24"]}) == 201
        for index in range(3):
            assert put(one.rest, f"/v1/vpcs/v/nodes/g{index}", {"ip": f"192.168.0.{index + 1}"}) == 201
        assert first.get("/v1/health", wait_ms=20_000)["ready"] is True
        with pytest.raises(Unavailable, match="this controller stands by"):
            put(two.rest, "/v1/policies/p", {"vpc": "v", "action": "allow"})
        before = entries(first)
        one.end(end)
        until(lambda: second.health()["controller"]["active"], "the second decides")
        wait_ready(second.url, SWITCHES, WAIT_NS)
        after = entries(second)
        assert before.stayed(after)
        assert put(two.rest, "/v1/policies/p", {"vpc": "v", "action": "allow"}) == 201
        assert second.get("/v1/health", wait_ms=20_000)["ready"] is True
        assert len(entries(second).age_ns) > len(after.age_ns)
        role = [event["fields"].get("role") for event in events(second, "controller")]
        assert role.count("active") == 1


def test_a_switch_with_another_master_makes_the_controller_step_back(tmp_path: Path) -> None:
    """Somebody becomes a switch's master with a later generation: the controller notices, says so, and lives.

    Steps: declare a VPC; ask l0 for the role of the master with a huge generation; attach a node, which changes l0.
    Verify: the controller steps back. It notices when l0 refuses something, and that may be the attachment's rules or,
    before them, a packet of discovery; so the attachment is done or, by a controller that stands by, refused.
    """
    with built(tmp_path, "--store", str(tmp_path / "store.db"), "--redundant") as network:
        rest = network.controller.rest
        assert put(rest, "/v1/tenants/t", {}) == 201
        assert put(rest, "/v1/vpcs/v", {"tenant": "t", "cidrs": ["192.168.0.0/24"]}) == 201
        with openflow_socket(network.ovs.folder / "l0.mgmt") as other:
            assert other.change([codec.role_request(other.datapath, "master", 1 << 40)]) == []
            with suppress(Unavailable):
                assert put(rest, "/v1/vpcs/v/nodes/g0", {"ip": "192.168.0.1"}) == 201
            until(
                lambda: any("a switch knows a later one" in e["message"] for e in events(network.client, "controller")),
                "it steps back",
            )
        assert network.controller.end() == 0


# --- intruders --------------------------------------------------------------------------------------------------------


def udp(eth_src: bytes, eth_dst: bytes, source: str, target: str, port: int = 9) -> bytes:
    payload = struct.pack("!HHHH", 1000, port, 8, 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0)
    ip += socket.inet_aton(source) + socket.inet_aton(target)
    return (eth_dst + eth_src + b"\x08\x00" + ip + payload).ljust(60, b"\0")


def arp(eth_src: bytes, sender: str, target: str) -> bytes:
    body = b"\0\1\x08\0\6\4\0\1" + eth_src + socket.inet_aton(sender) + bytes(6) + socket.inet_aton(target)
    return (b"\xff" * 6 + eth_src + b"\x08\x06" + body).ljust(60, b"\0")


def test_forgeries_are_reported_once_a_second_with_who_and_where(tmp_path: Path) -> None:
    """Each kind of forgery becomes an event with reason, port and node; a thousand packets become a few.

    Steps: as g0, member of a VPC, send from another MAC and IP, ARP as a neighbour, LLDP, a tagged frame, as a DHCP
    server, and to somebody who is not allowed; then a thousand of one kind.
    """
    with built(tmp_path, "--store", ":memory:") as network:
        rest = network.controller.rest
        put(rest, "/v1/tenants/t", {})
        put(rest, "/v1/vpcs/v", {"tenant": "t", "cidrs": ["192.168.0.0/24"]})
        put(rest, "/v1/vpcs/v/nodes/g0", {"ip": "192.168.0.1"})
        put(rest, "/v1/vpcs/v/nodes/g1", {"ip": "192.168.0.2"})
        assert network.client.get("/v1/health", wait_ms=20_000)["ready"] is True
        me, other = mac(FABRIC.by_name["g0"].mac), mac(FABRIC.by_name["g1"].mac)
        right = udp(me, other, "192.168.0.1", "192.168.0.2")
        forged = {
            "mac-spoofing": udp(other, me, "192.168.0.1", "192.168.0.2"),
            "ip-spoofing": udp(me, other, "192.168.0.7", "192.168.0.2"),
            "arp-spoofing": arp(me, "192.168.0.2", "192.168.0.1"),
            "lldp-forgery": bytes.fromhex("0180c200000e") + me + b"\x88\xcc" + bytes(46),
            "vlan-hopping": right[:12] + b"\x81\x00\x00\x07" + right[12:],
            "dhcp-server": (right[:34] + struct.pack("!HHHH", 67, 68, 8, 0) + right[42:]),
            "not-allowed": right,
        }
        for packet in forged.values():
            network.ovs.send(FABRIC, "g0", packet)
        seen = until(
            lambda: (
                (found := events(network.client, "violation"))
                and {event["fields"]["reason"] for event in found} == set(forged)
                and found
            ),
            "all are reported",
        )
        for event in seen:
            assert (event["fields"]["node"], event["fields"]["switch"], event["fields"]["port"]) == ("g0", "l0", 3)
        by_reason = {event["fields"]["reason"]: event["fields"] for event in seen}
        assert by_reason["ip-spoofing"]["packet"]["ip_src"] == "192.168.0.7"
        assert by_reason["arp-spoofing"]["packet"]["arp_mac"] == FABRIC.by_name["g0"].mac
        assert by_reason["vlan-hopping"]["packet"]["vlans"] == [7]
        last = network.client.get("/v1/events")["last"]
        for index in range(1000):
            network.ovs.send(FABRIC, "g0", udp(me, other, f"192.168.1.{index % 200}", "192.168.0.2"))
        until(
            lambda: any(e["fields"]["count"] > 1 for e in events(network.client, "violation", last)), "they are counted"
        )
        flood = events(network.client, "violation", last)
        assert len(flood) < 60
        assert network.client.health()["ready"] is True


# --- switches that are none -------------------------------------------------------------------------------------------

HELLO = struct.pack("!BBHI", 4, 0, 8, 1)
PORTS = struct.pack("!BBHIHH4x", 4, 19, 16, 3, 13, 0)


@contextmanager
def _as_switch(controller: RunningController, dpid: int) -> Iterator[socket.socket]:
    """Shake hands as a switch without ports."""
    host, port = controller.openflow.split(":")
    with socket.create_connection((host, int(port)), 20) as sock:
        sock.sendall(HELLO + struct.pack("!BBHIQIBB2xII", 4, 6, 32, 2, dpid, 256, 254, 0, 0x4F, 0) + PORTS)
        yield sock


def test_two_switches_with_one_datapath_id(tmp_path: Path) -> None:
    """The newer one gets in some times; then the one that is in stays, and the controller says what is going on."""
    with running_controller(tmp_path, FABRIC, "gateway", SERVICES) as controller, ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(_as_switch(controller, 1))
        until(lambda: "claims the same datapath id" in controller.log.read_text(), "it is said")
        assert "connected a second time" in controller.log.read_text()
        assert ControllerClient(f"http://{controller.rest}").health()["switches"]["connected"] == 1
        assert controller.end() == 0


def test_thousands_of_connections_leave_room_for_switches(tmp_path: Path) -> None:
    """3000 connections that say nothing: those that wait longest are closed, and a switch still gets in."""
    with running_controller(tmp_path, FABRIC, "gateway", SERVICES) as controller, ExitStack() as stack:
        host, port = controller.openflow.split(":")
        for _ in range(3000):
            stack.enter_context(socket.create_connection((host, int(port)), 20))
        stack.enter_context(_as_switch(controller, 1))
        client = ControllerClient(f"http://{controller.rest}")
        until(lambda: client.health()["switches"]["connected"], "the switch is in")
        assert "those that say nothing are closed" in controller.log.read_text()
        assert controller.end() == 0
