"""The controller and real Open vSwitch together, without root: rules, paths, counters, reconnects, REST shapes."""

from __future__ import annotations

import json
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path

import pytest

from controller.client import ControllerClient, wait_ready
from controller.designs import Design, plan
from controller.flows import IP_PROTO_ICMP, IP_PROTO_UDP
from controller.frame import Frame
from controller.pathtrace import Tracer
from emulator.errors import ControllerError
from emulator.model.fabric import Fabric, Role
from tests.support.controller_fabrics import leaf_spine, services_of
from tests.support.controller_process import RunningController, running_controller
from tests.support.dummy_ovs import DummyOvs, dummy_ovs, missing
from tests.support.waiting import until

WAIT_NS = 60_000_000_000
FABRIC = leaf_spine(gpus=3, storage=2)
SERVICES = services_of(FABRIC, 4420)
ADD_PORT = ("add-port", "l0", "l0-eth3", "--", "set", "interface", "l0-eth3", "type=dummy")
SWITCHES = len(FABRIC.switches)


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    if missing():
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing())}")


@pytest.fixture(scope="module", params=[design.value for design in Design])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """All three designs, each with its own controller and switches."""
    with built(tmp_path_factory.mktemp("ovs"), request.param) as network:
        yield network


@dataclass
class Network:
    """A controller and its switches, all ready."""

    ovs: DummyOvs
    controller: RunningController
    design: Design
    client: ControllerClient


@contextmanager
def built(folder: Path, design: str, fabric: Fabric = FABRIC) -> Iterator[Network]:
    """Start everything and wait until it is ready."""
    (folder / "ovs").mkdir()
    with (
        dummy_ovs(folder / "ovs") as ovs,
        running_controller(folder, fabric, design, services_of(fabric, 4420)) as controller,
    ):
        ovs.build(fabric, f"tcp:{controller.openflow}")
        client = wait_ready(f"http://{controller.rest}", len(fabric.switches), WAIT_NS)
        yield Network(ovs, controller, Design(design), client)


def flow_text(frame: Frame) -> str:
    kind = {IP_PROTO_ICMP: "icmp", IP_PROTO_UDP: "udp"}.get(frame.ip_proto or 0, "tcp")
    text = f"{kind},dl_src={frame.eth_src},dl_dst={frame.eth_dst},nw_src={frame.ipv4_src},nw_dst={frame.ipv4_dst}"
    text += f",nw_ttl={frame.ttl}"
    if kind == "tcp":
        text += f",tp_src={frame.tcp_src},tp_dst={frame.tcp_dst}"
    return text


def udp_packet(frame: Frame, size_bytes: int) -> bytes:
    def mac(text: str) -> bytes:
        return bytes.fromhex(text.replace(":", ""))

    source, target = (IPv4Address(text or "").packed for text in (frame.ipv4_src, frame.ipv4_dst))
    udp = struct.pack("!HHHH", 1000, 2000, size_bytes - 34, 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, size_bytes - 14, 0, 0, frame.ttl, IP_PROTO_UDP, 0) + source + target
    return (mac(frame.eth_dst) + mac(frame.eth_src) + b"\x08\x00" + ip + udp).ljust(size_bytes, b"\0")


def emissions(tracer: Tracer, fabric: Fabric) -> dict[tuple[str, Frame], tuple[str, str]]:
    """Every packet that any host sends in any exchange, with the host that must get it and how it is addressed then."""
    found: dict[tuple[str, Frame], tuple[str, str]] = {}
    for source in fabric.hosts:
        for target in fabric.hosts:
            if source is target:
                continue
            for protocol, port in (("icmp", 0), ("udp", 0), ("tcp", 4420), ("tcp", 22)):
                journey = tracer.journey(source.name, target.name, protocol, port)
                for leg in journey.there + journey.back:
                    hosts = [step for step in leg.steps if not fabric.by_name[step.node].is_switch]
                    for here, there in pairwise(hosts):
                        arrived = there.frame.eth_dst if there.what != "forwards" else fabric.by_name[there.node].mac
                        found[here.node, here.frame] = (there.node, arrived or "")
    return found


def test_open_vswitch_sends_every_packet_where_the_model_says(network: Network) -> None:
    """For every packet of every exchange, ofproto/trace over all switches agrees with the in-memory tables.

    Steps: ask Open vSwitch where each packet comes out that a host, proxy or forwarder would send.
    Verify: the same host as in the model, addressed to that host.
    """
    expected = emissions(Tracer(plan(FABRIC, network.design, SERVICES)), FABRIC)
    assert len(expected) > 300
    for (host, frame), (target, eth_dst) in expected.items():
        assert network.ovs.trace(FABRIC, host, flow_text(frame)) == (target, eth_dst), (host, frame)


def test_unknown_destinations_are_dropped(network: Network) -> None:
    """Neither broadcasts nor addresses of nobody leave the switch."""
    sender = FABRIC.by_name["g0"]
    for target in ("ff:ff:ff:ff:ff:ff", "02:00:de:ad:be:ef", "01:80:c2:00:00:0e"):
        flow = f"dl_type=0x88b5,dl_src={sender.mac},dl_dst={target}"
        assert network.ovs.trace(FABRIC, "g0", flow) == (None, target)


def test_paths_from_installed_flows_equal_the_planned_ones(network: Network) -> None:
    """What is read back from the switches leads packets the same way as the plan."""
    for protocol, port in (("icmp", None), ("udp", None), ("tcp", 4420), ("tcp", 80)):
        for source, target in (("g0", "st0"), ("g2", "st1"), ("c0", "st0"), ("st1", "g1"), ("g0", "g1")):
            planned = network.client.paths(source, target, protocol=protocol, port=port)
            installed = network.client.paths(source, target, protocol=protocol, port=port, installed=True)
            assert planned["delivered"] is True
            assert (planned.pop("source"), installed.pop("source")) == ("plan", "installed")
            assert planned == installed


def test_flows_are_exactly_the_plan(network: Network) -> None:
    """Every planned rule is there, nothing else is, and each says why."""
    flows = network.client.flows()
    assert all(flow["planned"] for flow in flows)
    assert len(flows) == len(plan(FABRIC, network.design, SERVICES).rules)
    assert all(flow["purpose"] and flow["note"] for flow in flows)


def test_counters_count_what_went_through(network: Network) -> None:
    """Ports and rules count the packets and bytes that were sent, by the role of the node at the other end.

    Steps: let ten packets of 400 bytes come in from a client to a storage node, as UDP.
    Verify: the first hop of the design got them, and no other role; the steering rule counted them.
    """
    before, flows_before = network.client.counters(), network.client.flows()
    journey = Tracer(plan(FABRIC, network.design, SERVICES)).journey("g0", "st0", "udp")
    first = journey.there[0].steps[0]
    for _ in range(10):
        network.ovs.send(FABRIC, "g0", udp_packet(first.frame, 400))
    network.ovs.appctl("revalidator/purge")  # pushes the datapath's counters into the rules
    after, flows_after = network.client.counters(), network.client.flows()
    towards = {role: after["roles"][role]["to_bytes"] - before["roles"][role]["to_bytes"] for role in after["roles"]}
    receiver = {Design.SHORTEST_PATH: "storage", Design.GATEWAY: "gateway", Design.CONVENTIONAL: "router"}
    assert towards == {role: 4000 if role == receiver[network.design] else 0 for role in towards}
    assert after["roles"]["gpu"]["from_packets"] - before["roles"]["gpu"]["from_packets"] == 10
    counted = {
        (new["purpose"], new["packets"] - old["packets"], new["bytes"] - old["bytes"])
        for new, old in zip(flows_after, flows_before, strict=True)
        if new["packets"] != old["packets"] and new["table"] == "steer"
    }
    purpose = "default" if network.design is Design.SHORTEST_PATH else "steer"
    assert (purpose, 10, 4000) in counted
    by_port = {(port["switch"], port["port"]): port for port in after["ports"]}
    assert set(by_port) == {
        end
        for link in FABRIC.links
        for end in ((link.a, link.a_port), (link.b, link.b_port))
        if FABRIC.by_name[end[0]].is_switch
    }
    assert all(port["interface"] == f"{port['switch']}-eth{port['port']}" for port in after["ports"])


def test_topology_shows_what_is_connected(network: Network) -> None:
    """All switches are connected, all links up, and clients name the nodes that they pass."""
    topology = network.client.topology()
    assert all(node["connected"] for node in topology["nodes"] if "dpid" in node)
    assert all(link["up"] for link in topology["links"])
    via = {len(node["via"]) for node in topology["nodes"] if node["role"] == Role.GPU.value}
    assert via == {{Design.SHORTEST_PATH: 0, Design.GATEWAY: 1, Design.CONVENTIONAL: 2}[network.design]}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Network]:
    """One network of its own, for tests that break something."""
    with built(tmp_path, "gateway") as network:
        yield network


def _wait_connected(ovs: DummyOvs) -> list[str]:
    rows = json.loads(ovs.vsctl("--format=json", "--columns=_uuid", "list", "controller"))["data"]
    words: list[str] = []
    for ((_, uuid),) in rows:
        words += ["--", "wait-until", "controller", uuid, "is_connected=true"]
    return words[1:]


def test_killed_controller_leaves_forwarding_and_finds_its_rules_again(gateway: Network, tmp_path: Path) -> None:
    """Forwarding does not depend on the controller, and a restart touches only what differs.

    Steps: kill the controller; delete one rule, add a stale one; start the controller again on the same port.
    Verify: packets are forwarded meanwhile; afterwards the plan holds again and untouched rules kept their age.
    """
    client, storage = FABRIC.by_name["g0"], FABRIC.by_name["st0"]
    assert client.ip
    assert storage.ip
    flow = f"udp,dl_src={client.mac},dl_dst={storage.mac},nw_src={client.ip.ip},nw_dst={storage.ip.ip},nw_ttl=64"
    arrived = gateway.ovs.trace(FABRIC, "g0", flow)
    before = {(f["dpid"], f["table"], str(f["match"])): f["duration_ns"] for f in gateway.client.flows()}
    listen = gateway.controller.openflow
    assert gateway.controller.end(signal.SIGKILL) == -signal.SIGKILL
    assert gateway.ovs.trace(FABRIC, "g0", flow) == arrived
    gateway.ovs.ofctl("del-flows", "l0", f"table=6,dl_dst={storage.mac}")
    gateway.ovs.ofctl("add-flow", "l0", "table=0,priority=999,actions=drop")
    assert gateway.ovs.trace(FABRIC, "g0", flow)[0] is None
    (tmp_path / "again").mkdir()
    with running_controller(tmp_path / "again", FABRIC, "gateway", SERVICES, listen=listen) as controller:
        again = wait_ready(f"http://{controller.rest}", SWITCHES, WAIT_NS)
        assert gateway.ovs.trace(FABRIC, "g0", flow) == arrived
        flows = again.flows()
        assert all(entry["planned"] for entry in flows)
        after = {(f["dpid"], f["table"], str(f["match"])): f["duration_ns"] for f in flows}
        assert after.keys() == before.keys()
        younger = [key for key in after if after[key] < before[key]]
        assert {key[0] for key in younger} == {FABRIC.by_name["l0"].dpid}
        assert all(key[1] == "route" and str(storage.mac) in key[2] for key in younger)


def test_entries_that_cannot_be_expressed_cost_a_clean_slate(gateway: Network, tmp_path: Path) -> None:
    """Entries of others, whatever they do, are gone after the controller has connected."""
    listen = gateway.controller.openflow
    gateway.controller.end()
    for entry in (
        "table=9,priority=5,actions=drop",
        "table=0,priority=5,ip,nw_src=10.0.0.0/24,actions=normal",
        "table=1,priority=9,idle_timeout=60,actions=goto_table:2",
        "table=2,priority=9,ip,actions=dec_ttl,output:2",
    ):
        gateway.ovs.ofctl("add-flow", "s0", entry)
    (tmp_path / "again").mkdir()
    with running_controller(tmp_path / "again", FABRIC, "conventional", SERVICES, listen=listen) as controller:
        client = wait_ready(f"http://{controller.rest}", SWITCHES, WAIT_NS)
        assert all(entry["planned"] for entry in client.flows())


def test_ports_that_go_and_come_show_in_health(gateway: Network) -> None:
    """A missing or down port is a problem by name, until it is back; rules stay verified.

    Verify by waiting in the controller for readiness, which must not come while the port is missing.
    """
    gateway.ovs.vsctl("del-port", "l0", "l0-eth3")
    health = gateway.client.get("/v1/health", wait_ms=200)
    assert health["ready"] is False
    assert health["problems"] == ["l0 has no port 3 (l0-eth3)"]
    assert health["switches"]["installed"] == SWITCHES
    link = next(link for link in gateway.client.topology()["links"] if "l0-eth3" in link["name"])
    assert link["up"] is False
    gateway.ovs.vsctl(
        "add-port", "l0", "l0-eth3", "--", "set", "interface", "l0-eth3", "type=dummy", "ofport_request=3"
    )
    assert gateway.client.get("/v1/health", wait_ms=10_000)["ready"] is True


def test_a_port_with_another_number_is_named(gateway: Network) -> None:
    """Rules name ports by number, so a renumbered port is reported as what it is."""
    gateway.ovs.vsctl("del-port", "l0", "l0-eth3")
    gateway.ovs.vsctl(
        "add-port", "l0", "l0-eth3", "--", "set", "interface", "l0-eth3", "type=dummy", "ofport_request=40"
    )
    health = gateway.client.get("/v1/health", wait_ms=200)
    assert health["problems"] == ["l0: l0-eth3 is port 40 and should be port 3"]


def test_unknown_switches_are_ignored(gateway: Network) -> None:
    """A switch that is not in the fabric gets no rules, is named in health, and disturbs nobody."""
    gateway.ovs.vsctl(
        *("add-br", "other", "--", "set", "bridge", "other", "datapath_type=dummy", "fail_mode=secure"),
        *("other-config:datapath-id=00000000deadbeef", "protocols=OpenFlow13"),
        *("--", "set-controller", "other", f"tcp:{gateway.controller.openflow}"),
    )
    gateway.ovs.vsctl("--", *_wait_connected(gateway.ovs))
    assert until(lambda: gateway.client.health()["strangers"], "the stranger is noticed") == [0xDEADBEEF]
    assert gateway.client.health()["ready"] is True
    assert "cookie" not in gateway.ovs.ofctl("dump-flows", "other")
    assert gateway.client.get("/stats/switches") == [1, 2, 3, 4, 5]
    with pytest.raises(ControllerError, match="404"):
        gateway.client.get("/v1/flows", dpid=0xDEADBEEF)
    assert "unknown datapath id 0xdeadbeef" in gateway.controller.log.read_text()


def test_a_switch_that_leaves_is_missed(gateway: Network) -> None:
    """Its absence shows in health, its counters answer 503, and other switches are not affected."""
    gateway.ovs.vsctl("del-controller", "s1")
    assert until(lambda: gateway.client.health()["problems"], "its absence is noticed") == ["s1 is not connected"]
    with pytest.raises(ControllerError, match="503"):
        gateway.client.get("/v1/counters", dpid=2)
    assert gateway.client.get("/v1/counters", dpid=1)["ports"]
    gateway.ovs.vsctl("set-controller", "s1", f"tcp:{gateway.controller.openflow}")
    assert gateway.client.get("/v1/health", wait_ms=10_000)["ready"] is True


def test_a_larger_fabric_is_installed_and_verified(tmp_path: Path) -> None:
    """Four spines with parallel links: thousands of rules in one go, all verified, and paths as planned."""
    fabric = leaf_spine(spines=4, leaves=4, gpus=16, computes=4, routers=1, gateways=4, storage=8, parallel=2)
    with built(tmp_path, "conventional", fabric) as network:
        assert network.client.health()["rules"]["planned"] > 2000
        assert network.client.paths("g15", "st7", protocol="tcp", port=4420, installed=True)["delivered"] is True
