"""What the compiled rules do to packets: admission, ARP, access, translation, carriers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from controller.flows import ETH_TYPE_ARP, ETH_TYPE_LLDP, FlowRule, PopVlan, Table
from controller.flowtable import overlap
from controller.frame import Frame
from controller.tenancy.arp import ENDPOINT_MAC
from controller.tenancy.compile import Compiler, shared_program, tenant_program, vpc_program
from controller.tenancy.kinds import Kind
from controller.tenancy.site import Site
from controller.tenancy.violations import Violation
from tests.support.tenancy_sites import Declaring, small_site
from tests.support.tenancy_world import CLIENT_PORT, World

DESIGNS = ["shortest-path", "gateway", "conventional"]


def two_tenants(site: Site) -> Declaring:
    """Tenants a and b with the same addresses, a volume each on one port of two nodes, and everything allowed."""
    declaring = Declaring(site)
    for tenant, (first, second), server in (("a", ("g0", "g1"), "st0"), ("b", ("g2", "g3"), "st1")):
        vpc = f"v{tenant}"
        declaring.tenant(tenant, vpc)
        # The fabric's own addresses on purpose: a VPC may use any.
        declaring.node(f"{vpc}/{first}", "10.0.0.1", "trainers").node(f"{vpc}/{second}", "10.0.0.14")
        declaring.service(f"vol-{tenant}", server, 4420)
        declaring.endpoint(f"{vpc}/vol", f"vol-{tenant}", "10.0.9.9", 3260)
        declaring.policy(f"all-{tenant}", tenant=tenant)
    return declaring


@pytest.mark.parametrize("design", DESIGNS)
def test_same_addresses_reach_their_own_volume(design: str) -> None:
    """Two tenants open the same address and port: each gets its own storage node, and answers from the endpoint."""
    site = small_site(design)
    world = World(site, two_tenants(site).state)
    for host, server in (("g0", "st0"), ("g2", "st1")):
        there = world.travel(host, world.opening(host, "10.0.9.9", "tcp", 3260))
        assert there[-1].host == server
        assert (there[-1].frame.ipv4_dst, there[-1].frame.tcp_dst) == (site.places[server].ip, 4420)
        assert there[-1].frame.vlan == 0
        # A proxy's connection may come to any proxy behind it.
        visited = [arrival.host for arrival in there[:-1]]
        assert visited in [list(path) for path in site.via.values() if path[:1] == site.via[host][:1]]
        back = world.answer(there)
        assert back[-1].host == host
        frame = back[-1].frame
        assert (frame.ipv4_src, frame.tcp_src) == ("10.0.9.9", 3260)
        assert (frame.ipv4_dst, frame.tcp_dst) == ("10.0.0.1", CLIENT_PORT)
        assert frame.vlan == 0


def test_a_proxy_may_come_to_any_proxy_behind_it() -> None:
    """A router's connection for g3 comes to the compute node of g1, which is behind the same router and in no VPC."""
    site = small_site("conventional")
    assert (site.via["g1"], site.via["g3"]) == (("r1", "c1"), ("r1", "c3"))
    declaring = Declaring(site).tenant("a", "va").node("va/g3", "10.0.0.1").service("vol", "st0", 4420)
    world = World(site, declaring.endpoint("va/vol", "vol", "10.0.9.9", 3260).policy("all", vpc="va").state)
    there = world.travel("g3", world.opening("g3", "10.0.9.9", "tcp", 3260))
    assert [arrival.host for arrival in there] == ["r1", "c1", "st0"]
    assert [arrival.host for arrival in world.answer(there)] == ["c1", "r1", "g3"]


@pytest.mark.parametrize("design", DESIGNS)
def test_same_addresses_stay_among_their_own(design: str) -> None:
    """Nodes of a VPC reach each other under addresses that another VPC, and the fabric, use as well."""
    site = small_site(design)
    world = World(site, two_tenants(site).state)
    for source, target, ip in (("g0", "g1", "10.0.0.14"), ("g2", "g3", "10.0.0.14"), ("g1", "g0", "10.0.0.1")):
        for protocol, port in (("tcp", 4420), ("udp", 53), ("icmp", None)):
            arrivals = world.travel(source, world.opening(source, ip, protocol, port))
            assert [arrival.host for arrival in arrivals] == [target]
            assert arrivals[0].frame.eth_dst == site.places[target].mac
            assert [arrival.host for arrival in world.answer(arrivals)] == [source]


def test_answers_of_a_peer_with_a_storage_address_are_not_translated() -> None:
    """A node whose VPC address is a storage node's fabric address cannot pass for the endpoint."""
    site = small_site()
    declaring = Declaring(site).tenant("a", "va", cidrs=("10.0.0.0/8",))
    declaring.node("va/g0", site.places["g0"].ip).node("va/g1", site.places["st0"].ip)
    declaring.service("vol", "st0", 4420).endpoint("va/vol", "vol", "10.9.9.9", 3260).policy("all", vpc="va")
    world = World(site, declaring.state)
    answer = replace(world.opening("g1", site.places["g0"].ip, "tcp", CLIENT_PORT), tcp_src=4420, tcp_ack=True)
    (arrival,) = world.send("g1", answer)
    assert (arrival.host, arrival.frame.ipv4_src, arrival.frame.tcp_src) == ("g0", site.places["st0"].ip, 4420)


def test_nothing_is_allowed_without_a_policy() -> None:
    """The default is no, and it is reported."""
    site = small_site()
    declaring = Declaring(site).tenant("a", "va").node("va/g0", "10.0.0.1").node("va/g1", "10.0.0.2")
    world = World(site, declaring.state)
    assert world.send("g0", world.opening("g0", "10.0.0.2", "icmp", None)) == []
    assert world.reports == [Violation.NOT_ALLOWED]


@pytest.mark.parametrize("host", ["g0", "g5", "st0", "gw0"])
@pytest.mark.parametrize(
    ("change", "violation"),
    [
        ({"vlan": 2}, Violation.VLAN_HOPPING),
        ({"vlan": 1}, Violation.VLAN_HOPPING),
        ({"vlan": 3, "inner_vlans": (2,)}, Violation.VLAN_HOPPING),
        ({"eth_src": "02:00:00:00:00:99"}, Violation.MAC_SPOOFING),
        ({"eth_src": "ff:ff:ff:ff:ff:ff"}, Violation.MAC_SPOOFING),
        ({"ipv4_src": "10.0.0.14"}, Violation.IP_SPOOFING),
        ({"ipv4_src": "0.0.0.0"}, Violation.IP_SPOOFING),
        ({"ipv4_src": "255.255.255.255"}, Violation.IP_SPOOFING),
        ({"ip_proto": 17, "tcp_src": None, "tcp_dst": None, "udp_src": 67, "udp_dst": 68}, Violation.DHCP_SERVER),
        ({"eth_type": ETH_TYPE_LLDP}, Violation.LLDP_FORGERY),
        ({"eth_src": "02:00:00:00:00:99", "eth_type": ETH_TYPE_LLDP}, Violation.LLDP_FORGERY),
        ({"eth_src": "02:00:00:00:00:99", "eth_type": 0x86DD}, Violation.MAC_SPOOFING),
        ({"eth_type": ETH_TYPE_ARP, "arp_op": 2, "arp_spa": "10.0.0.14"}, Violation.ARP_SPOOFING),
        ({"eth_type": ETH_TYPE_ARP, "arp_op": 1, "arp_spa": "10.0.0.14"}, Violation.ARP_SPOOFING),
        (
            {"eth_type": ETH_TYPE_ARP, "arp_op": 2, "arp_spa": "own", "arp_sha": "02:00:00:00:00:99"},
            Violation.ARP_SPOOFING,
        ),
    ],
)
def test_forgeries_are_dropped_and_named(host: str, change: dict[str, object], violation: Violation) -> None:
    """Whoever sends it, members, strangers and infrastructure alike: nobody gets it, and the report says what it is."""
    site = small_site()
    world = World(site, two_tenants(site).state)
    own = world.opening(host, "10.0.0.14", "tcp", 80)
    if change.get("arp_spa") == "own":
        change = {**change, "arp_spa": own.ipv4_src}
    forged = replace(own, **{"arp_sha": own.eth_src, "arp_tpa": "10.0.0.14", **change})
    assert world.send(host, forged) == []
    assert world.reports == [violation]


def test_ipv6_and_multicast_are_dropped_in_silence() -> None:
    """What hosts chatter by themselves is no violation."""
    site = small_site()
    world = World(site, two_tenants(site).state)
    own = world.opening("g0", "224.0.0.251", "udp", 5353)
    for frame in (own, replace(own, eth_type=0x86DD, eth_dst="33:33:00:00:00:fb")):
        assert world.send("g0", frame) == []
        assert world.reports == []


def request(world: World, host: str, target: str, *, sender: str | None = None) -> Frame:
    """An ARP request."""
    own = world.opening(host, "10.0.0.14", "icmp", None)
    return Frame(
        eth_src=own.eth_src,
        eth_dst="ff:ff:ff:ff:ff:ff",
        eth_type=ETH_TYPE_ARP,
        arp_op=1,
        arp_sha=own.eth_src,
        arp_spa=own.ipv4_src if sender is None else sender,
        arp_tpa=target,
    )


def test_arp_is_answered_within_the_segment_only() -> None:
    """The same question gets each tenant its own node; endpoints, infrastructure and strangers are treated apart."""
    site = small_site()
    world = World(site, two_tenants(site).state)
    for host, peer in (("g0", "g1"), ("g2", "g3")):
        (arrival,) = world.send(host, request(world, host, "10.0.0.14"))
        assert (arrival.host, arrival.frame.arp_sha) == (host, site.places[peer].mac)
        assert (arrival.frame.arp_op, arrival.frame.arp_spa) == (2, "10.0.0.14")
        (arrival,) = world.send(host, request(world, host, "10.0.9.9"))
        assert arrival.frame.arp_sha == ENDPOINT_MAC
        assert world.send(host, request(world, host, site.places["g5"].ip)) == []
    (arrival,) = world.send("st0", request(world, "st0", site.places["g0"].ip))
    assert arrival.frame.arp_sha == site.places["g0"].mac
    assert world.send("g5", request(world, "g5", site.places["g0"].ip)) == []
    assert world.reports == []


def test_nobody_is_told_that_its_address_is_a_duplicate() -> None:
    """Announcements and probes for the own address (RFC 5227) are neither answered nor reported."""
    site = small_site()
    world = World(site, two_tenants(site).state)
    for host, ip in (("g0", "10.0.0.1"), ("st0", site.places["st0"].ip)):
        for sender in (ip, "0.0.0.0"):
            assert world.send(host, request(world, host, ip, sender=sender)) == []
            assert world.reports == []


def test_storage_answers_only_who_may_ask() -> None:
    """A storage node cannot open connections, nor answer clients of others' services, nor without the ACK flag."""
    site = small_site()
    declaring = two_tenants(site)
    world = World(site, declaring.state)
    answer = replace(world.opening("st0", site.places["g0"].ip, "tcp", CLIENT_PORT), tcp_src=4420, tcp_ack=True)
    assert [arrival.host for arrival in world.send("st0", answer)] == ["g0"]
    for forged in (
        replace(answer, tcp_ack=False),
        replace(answer, tcp_src=4421),
        replace(answer, ipv4_dst=site.places["g2"].ip),
        replace(answer, ipv4_dst=site.places["st1"].ip),
        replace(answer, ipv4_dst="10.0.0.255"),
    ):
        assert world.send("st0", forged) == []
        assert world.reports == [Violation.NOT_ALLOWED]


def test_a_gateway_passes_on_only_what_it_carries() -> None:
    """A gateway that turns bad can neither reach nodes of a VPC nor pass one tenant's packets off as another's."""
    site = small_site("gateway")
    world = World(site, two_tenants(site).state)
    gateway = site.via["g0"][0]
    passed = replace(
        world.opening("g0", site.places["st0"].ip, "tcp", 4420),
        eth_src=site.places[gateway].mac,
        ipv4_src=site.places["g0"].ip,
    )
    assert [arrival.host for arrival in world.send(gateway, passed)] == ["st0"]
    for forged in (
        replace(passed, ipv4_dst=site.places["st1"].ip),
        replace(passed, tcp_dst=22),
        replace(passed, ipv4_dst="10.0.0.14"),
        replace(passed, ipv4_src=site.places["st0"].ip, ipv4_dst=site.places["g0"].ip),
    ):
        assert world.send(gateway, forged) == []
        assert world.reports == [Violation.NOT_ALLOWED]
    other = next(name for name in ("g1", "g3") if site.via[name][0] != gateway)
    assert world.send(gateway, replace(passed, ipv4_src=site.places[other].ip)) == []
    assert world.reports == [Violation.IP_SPOOFING]


def test_services_on_one_address_are_told_apart_by_port() -> None:
    """Block, file and object behind one address, on ports and nodes of their own; a fourth port is nothing."""
    site = small_site()
    declaring = Declaring(site).tenant("a", "va").node("va/g0", "10.0.0.1").policy("all", vpc="va")
    kinds = {"block": ("st0", 4420), "file": ("st1", 2049), "object": ("st0", 80)}
    for number, (kind, (node, port)) in enumerate(kinds.items()):
        declaring.service(kind, node, port, kind).endpoint(f"va/{kind}", kind, "10.0.7.7", 1000 + number)
    world = World(site, declaring.state)
    for number, (node, port) in enumerate(kinds.values()):
        there = world.travel("g0", world.opening("g0", "10.0.7.7", "tcp", 1000 + number))
        assert (there[-1].host, there[-1].frame.tcp_dst) == (node, port)
        assert world.answer(there)[-1].frame.tcp_src == 1000 + number
    assert world.send("g0", world.opening("g0", "10.0.7.7", "tcp", 1003)) == []
    assert world.send("g0", world.opening("g0", "10.0.7.7", "udp", 1000)) == []


def test_leaving_a_vpc_takes_the_address_along() -> None:
    """A host that was taken out of its VPC is a stranger: its VPC address is forged, its own leads nowhere."""
    site = small_site()
    declaring = two_tenants(site)
    state = declaring.state.delete(Kind.NODES, ("va", "g0"))
    world = World(site, state)
    assert world.send("g0", world.opening("g0", "10.0.0.14", "tcp", 80, source="10.0.0.99")) == []
    assert world.reports == [Violation.IP_SPOOFING]
    assert world.send("g0", world.opening("g0", "10.0.0.14", "tcp", 80)) == []
    assert world.reports == [Violation.NOT_ALLOWED]
    assert world.send("g1", world.opening("g1", "10.0.0.1", "icmp", None)) == []


@pytest.mark.parametrize("design", DESIGNS)
def test_rules_are_as_open_vswitch_wants_them(design: str) -> None:
    """No two rules of a priority leave open which wins, no key occurs twice, no tag is popped that may be absent."""
    site = small_site(design)
    declaring = two_tenants(site).policy("web", vpc="va", protocol="tcp", ports=[{"first": 80, "last": 443}])
    declaring.policy(
        "not-ssh", vpc="va", action="deny", priority=2000, protocol="tcp", ports=[{"first": 22, "last": 22}]
    )
    rules = tenant_program(site, declaring.state).rules
    assert [key for key, count in Counter((rule.dpid, rule.key) for rule in rules).items() if count > 1] == []
    groups: dict[tuple[int, Table, int, int | None], list[FlowRule]] = {}
    for rule in rules:
        groups.setdefault((rule.dpid, rule.table, rule.priority, rule.match.in_port), []).append(rule)
        if any(isinstance(action, PopVlan) for action in rule.actions):
            assert rule.match.vlan
    for same in groups.values():
        for index, rule in enumerate(same):
            for other in same[:index]:
                assert not overlap(rule, other), f"{rule} / {other}"


def test_only_what_changed_is_compiled_again() -> None:
    """A change of one VPC's policy costs one part; the parts together are what compiling afresh gives."""
    site = small_site("gateway")
    declaring = two_tenants(site)
    compiler = Compiler(site)
    compiler.program(declaring.state)
    before = compiler.compiled
    assert before == 3
    declaring.policy("web", vpc="va", protocol="tcp", ports=[{"first": 80, "last": 80}])
    program = compiler.program(declaring.state)
    assert compiler.compiled == before + 1
    assert program == tenant_program(site, declaring.state)
    compiler.program(declaring.state)
    assert compiler.compiled == before + 1
    declaring.put(Kind.VPCS, "va", tenant="a", cidrs=["10.0.0.0/16"], segment=77)
    compiler.program(declaring.state)
    assert compiler.compiled == before + 2


def test_parts_share_no_key() -> None:
    """The parts of different VPCs, and what all share, can be exchanged without touching each other."""
    site = small_site("conventional")
    state = two_tenants(site).state
    parts = [shared_program(site, state), *(vpc_program(site, state, vpc) for vpc in state.vpcs)]
    keys = [{(rule.dpid, rule.key) for rule in part.rules} for part in parts]
    assert len(set.union(*keys)) == sum(map(len, keys))
