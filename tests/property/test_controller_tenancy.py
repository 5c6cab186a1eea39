"""Tenants' resources: what is compiled does what the resources say, and no sequence of changes leads astray."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.flows import ETH_TYPE_ARP, ETH_TYPE_IPV4, ETH_TYPE_LLDP, IP_PROTO_TCP
from controller.frame import Frame
from controller.gateways.policies import Carried, policies_for
from controller.tenancy import ports
from controller.tenancy.compile import Compiler, tenant_program
from controller.tenancy.invariants import problems
from controller.tenancy.kinds import Kind, check_key, dump, parse
from controller.tenancy.reachability import explain
from controller.tenancy.refusals import Refused, Why
from controller.tenancy.site import Site
from controller.tenancy.state import TenancyState
from controller.tenancy.store import Store
from tests.support.tenancy_sites import Declaring, small_site
from tests.support.tenancy_world import CLIENT_PORT, World

DESIGNS = st.sampled_from(["shortest-path", "gateway", "conventional"])
SITES = {design: small_site(design, gpus=5) for design in ("shortest-path", "gateway", "conventional")}
TENANTS, VPCS = ("t1", "t2"), ("v1", "v2", "v3")
HOSTS = ("g0", "g1", "g2", "g3", "g4", "c3")
SERVERS = ("st0", "st1")
GROUPS = ("red", "blue")
ENDPOINTS = ("e0", "e1")
# Few addresses, so that they meet; all of them are fabric addresses too.
ADDRESSES = tuple(f"10.0.0.{number}" for number in (1, 2, 3, 4, 15, 16))
PORTS = (1, 22, 80, 443, 4420, 65_535)


def some(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    """A few of some names."""
    return st.lists(st.sampled_from(values), max_size=2, unique=True)


RANGES = st.tuples(st.sampled_from(PORTS), st.integers(0, 500)).map(
    lambda pair: {"first": pair[0], "last": min(65_535, pair[0] + pair[1])}
)
NODE_BODIES = st.fixed_dictionaries({"ip": st.sampled_from(ADDRESSES), "groups": some(GROUPS)})
SERVICE_BODIES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["block", "file", "object"]),
        "node": st.sampled_from(SERVERS),
        "port": st.sampled_from(PORTS),
        "vpcs": st.none() | some(VPCS),
    }
)
ENDPOINT_BODIES = st.fixed_dictionaries(
    {
        "service": st.sampled_from(["s0", "s1", "s2"]),
        "ip": st.sampled_from(ADDRESSES),
        "port": st.sampled_from(PORTS),
    }
)


@st.composite
def policy_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Policies of every kind, whose names may mean nothing."""
    protocol = draw(st.sampled_from(["any", "any", "tcp", "udp", "icmp"]))
    scope = draw(st.sampled_from([("tenant", TENANTS), ("vpc", VPCS)]))
    return {
        scope[0]: draw(st.sampled_from(scope[1])),
        "action": draw(st.sampled_from(["allow", "allow", "deny"])),
        "priority": draw(st.sampled_from([0, 1, 1, 2, 9999])),
        "source": {"nodes": draw(some(HOSTS)) if draw(st.booleans()) else [], "groups": draw(some(GROUPS))},
        "destination": draw(
            st.just({})
            | st.fixed_dictionaries(
                {
                    "nodes": some(HOSTS),
                    "groups": some(GROUPS),
                    "endpoints": some(ENDPOINTS),
                    "kinds": some(("block", "file", "object")),
                }
            )
        ),
        "protocol": protocol,
        "ports": draw(st.lists(RANGES, max_size=3)) if protocol in ("tcp", "udp") else [],
    }


def attempt(declaring: Declaring, kind: Kind, key: str, body: dict[str, Any]) -> None:
    """Declare something if the state takes it."""
    try:
        declaring.put(kind, key, **body)
    except Refused:
        event(f"{kind.value} refused")


@st.composite
def states(draw: st.DrawFn, site: Site) -> TenancyState:
    """Valid states with two or three VPCs that use the same few addresses."""
    declaring = Declaring(site).tenant("t1", "v1", "v3").tenant("t2", "v2")
    addresses = draw(st.permutations(ADDRESSES))
    for host in HOSTS:
        body = {**draw(NODE_BODIES), "ip": draw(st.sampled_from(addresses[:4]))}
        attempt(declaring, Kind.NODES, f"{draw(st.sampled_from(VPCS))}/{host}", body)
    for number, name in enumerate(("s0", "s1", "s2")):
        body = {**draw(SERVICE_BODIES), "vpcs": None, "port": PORTS[number * 2]}
        attempt(declaring, Kind.SERVICES, name, body)
    for vpc in VPCS:
        for name, service in zip(ENDPOINTS, draw(st.permutations(["s0", "s1", "s2"])), strict=False):
            body = {
                "service": service,
                "ip": draw(st.sampled_from(addresses[3:])),
                "port": draw(st.sampled_from(PORTS)),
            }
            attempt(declaring, Kind.ENDPOINTS, f"{vpc}/{name}", body)
    if draw(st.booleans()):
        attempt(declaring, Kind.POLICIES, "all", {"tenant": "t1", "action": "allow", "priority": 0})
    for number in range(draw(st.integers(1, 6))):
        attempt(declaring, Kind.POLICIES, f"p{number}", draw(policy_bodies()))
    return declaring.state


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), design=DESIGNS)
def test_switches_do_what_the_resources_say(data: st.DataObject, design: str) -> None:
    """For any resources, a first packet arrives exactly where, and exactly if, the explanation says; so do answers.

    A datagram that nobody may send still passes if it looks like an answer: that is what stateless switches can tell.
    """
    site = SITES[design]
    state = data.draw(states(site))
    assume(state.nodes)
    world = World(site, state)
    assert problems(state, site.ground) == []
    for _ in range(8):
        vpc, source = data.draw(st.sampled_from(sorted(state.nodes)))
        ip = data.draw(st.sampled_from(ADDRESSES))
        protocol = data.draw(st.sampled_from(["tcp", "tcp", "udp", "icmp"]))
        port = None if protocol == "icmp" else data.draw(st.sampled_from([*PORTS, 81, 580, 943]))
        gates = [gate for _, gate in sorted(state.gates(vpc).items())]
        if gates and data.draw(st.booleans()):
            gate = data.draw(st.sampled_from(gates))
            ip, protocol, port = str(gate.ip), "tcp", gate.port
        answer = explain(state, site.ground, f"{vpc}/{source}", ip, protocol, port)
        arrivals = world.travel(source, world.opening(source, ip, protocol, port))
        target = next((host for host, node in state.members(vpc).items() if str(node.ip) == ip), None)
        if target == source:
            continue  # nothing leaves a host for itself; that a switch drops it is as good as any
        if not answer.allowed:
            event("denied")
            looks_like_answer = (
                protocol == "udp"
                and target is not None
                and explain(state, site.ground, target, source, protocol, CLIENT_PORT).allowed
            )
            assert [arrival.host for arrival in arrivals] == ([target] if looks_like_answer else [])
            continue
        event("allowed to an endpoint" if answer.translation else "allowed to a node")
        end = arrivals[-1]
        assert end.frame.vlan == 0
        back = world.answer(arrivals)
        assert back[-1].host == source
        assert back[-1].frame.ipv4_src == ip
        if answer.translation is None:
            assert end.host == target
            assert end.frame.ipv4_dst == ip
            continue
        assert (end.host, end.frame.tcp_dst) == (answer.translation.node, answer.translation.node_port)
        assert end.frame.ipv4_dst == site.places[end.host].ip
        assert back[-1].frame.tcp_src == port


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), design=DESIGNS)
def test_answers_pass_exactly_if_the_question_may_be_asked(data: st.DataObject, design: str) -> None:
    """A TCP segment with ACK from a port passes if, and only if, that port may be opened, or the segment may open."""
    site = SITES[design]
    state = data.draw(states(site))
    vpcs = [vpc for vpc in VPCS if len(state.members(vpc)) > 1]
    assume(vpcs)
    world = World(site, state)
    for _ in range(8):
        vpc = data.draw(st.sampled_from(vpcs))
        source, target = data.draw(st.permutations(sorted(state.members(vpc))))[:2]
        near, far = data.draw(st.sampled_from([*PORTS, 81])), data.draw(st.sampled_from([*PORTS, 40_000]))
        ack = data.draw(st.booleans())
        opened = explain(state, site.ground, source, target, "tcp", far).allowed
        asked = explain(state, site.ground, target, source, "tcp", near).allowed
        ip = str(state.members(vpc)[target].ip)
        frame = replace(world.opening(source, ip, "tcp", far), tcp_src=near, tcp_ack=ack)
        passed = [arrival.host for arrival in world.send(source, frame)]
        assert passed == ([target] if opened or (asked and ack) else [])
        event(f"opened {opened}, asked {asked}, ack {ack}")


MACS = st.sampled_from([*(place.mac for place in SITES["gateway"].places.values()), "ff:ff:ff:ff:ff:ff"])
VLANS = st.sampled_from([0, 0, 0, 1, 2, 3, 4])
ANY_ADDRESS = st.sampled_from([*ADDRESSES, "10.0.0.13", "10.0.0.14", "0.0.0.0", "255.255.255.255"])


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Whatever a host may send, honest or not."""
    eth_type = draw(st.sampled_from([ETH_TYPE_IPV4, ETH_TYPE_IPV4, ETH_TYPE_ARP, ETH_TYPE_LLDP, 0x86DD]))
    proto = draw(st.sampled_from([1, IP_PROTO_TCP, IP_PROTO_TCP, 17, 47]))
    numbers = st.sampled_from([*PORTS, 67])
    return Frame(
        eth_src=draw(MACS),
        eth_dst=draw(MACS),
        eth_type=eth_type,
        vlan=draw(VLANS),
        inner_vlans=draw(st.sampled_from([(), (), (2,)])),
        ipv4_src=draw(ANY_ADDRESS),
        ipv4_dst=draw(ANY_ADDRESS),
        ip_proto=proto,
        tcp_src=draw(numbers),
        tcp_dst=draw(numbers),
        tcp_ack=draw(st.booleans()),
        udp_src=draw(numbers),
        udp_dst=draw(numbers),
        icmp_type=draw(st.sampled_from([0, 3, 8])),
        arp_op=draw(st.sampled_from([1, 2])),
        arp_spa=draw(ANY_ADDRESS),
        arp_tpa=draw(ANY_ADDRESS),
        arp_sha=draw(MACS),
    )


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), design=DESIGNS)
def test_whatever_is_sent_stays_where_it_belongs(data: st.DataObject, design: str) -> None:
    """Any packet of a VPC's node reaches that VPC, carriers and its services only; its Ethernet source is the sender's.

    ARP comes back to nobody but the asker.
    """
    site = SITES[design]
    state = data.draw(states(site))
    world = World(site, state)
    hosts = sorted(site.places)
    for _ in range(20):
        sender = data.draw(st.sampled_from(hosts))
        frame = data.draw(frames())
        place, home = site.places[sender], state.home(sender)
        if data.draw(st.booleans()):
            own = str(state.members(home)[sender].ip) if home else place.ip
            frame = replace(frame, eth_src=place.mac, ipv4_src=own, arp_sha=place.mac, arp_spa=own, vlan=0)
        for arrival in world.send(sender, frame):
            event("something arrives")
            assert arrival.frame.vlan == 0
            if frame.eth_type == ETH_TYPE_ARP:
                assert arrival.host == sender
                continue
            assert arrival.frame.eth_src == place.mac
            assert arrival.frame.eth_dst == site.places[arrival.host].mac
            if home is None:
                continue
            serving = {state.services[gate.service].node for gate in state.gates(home).values()}
            assert state.home(arrival.host) == home or arrival.host in serving | site.hops.keys()


@given(ranked=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.booleans()), max_size=12))
def test_the_first_range_that_has_a_port_decides(ranked: list[tuple[int, int, bool]]) -> None:
    """Sweeping over ranges gives what asking for every port gives."""
    ranges = [(first, first + length, allow) for first, length, allow in ranked]
    decided = ports.decide(ranges)
    asked = {
        port for port in range(60) if next((allow for first, last, allow in ranges if first <= port <= last), False)
    }
    assert {port for first, last in decided for port in range(first, last + 1)} == asked
    assert all(one[1] + 1 < other[0] for one, other in pairwise(decided))


@given(
    cuts=st.lists(
        st.integers(0, 65_535) | st.sampled_from([0, 1, 1023, 1024, 32_767, 32_768, 65_534, 65_535]),
        min_size=2,
        max_size=8,
        unique=True,
    )
)
def test_as_few_masks_as_possible_cover_exactly_the_ports(cuts: list[int]) -> None:
    """Each block is one that no larger block of the set contains, none overlap, together they are the set.

    The largest aligned blocks in a set of numbers are the fewest prefixes that cover it: each port of the set is in
    exactly one of them, and no prefix inside the set has ports of two of them.
    """
    ordered = sorted(cuts)[: len(cuts) // 2 * 2]
    ranges = tuple((first, last) for first, last in zip(ordered[::2], ordered[1::2], strict=True))
    ranges = tuple(one for index, one in enumerate(ranges) if index == 0 or ranges[index - 1][1] + 1 < one[0])
    covered = bytearray(65_536)
    inside = bytearray(65_536)
    for first, last in ranges:
        inside[first : last + 1] = b"\1" * (last - first + 1)
    for value, mask in ports.blocks(ranges):
        size = 65_536 - mask
        assert value & ~mask == 0
        for port in range(value, value + size):
            assert not covered[port]
            covered[port] = 1
        if size < 65_536:
            wider = value & ~size
            assert not all(inside[wider : wider + 2 * size])
    assert covered == inside


class Changes(RuleBasedStateMachine):
    """Any puts and deletes against a store, some of them absurd."""

    def __init__(self) -> None:
        super().__init__()
        self.site = SITES["gateway"]
        self.store = Store(":memory:", self.site.ground)
        self.compiler = Compiler(self.site)
        self.carried = Carried(self.site)
        self.seen: list[tuple[TenancyState, TenancyState]] = []
        self.store.subscribe(lambda before, after: self.seen.append((before, after)))

    @initialize()
    def start(self) -> None:
        """Something to refer to."""
        for tenant in TENANTS:
            self.store.put(Kind.TENANTS, tenant, {})
        for vpc, tenant in (("v1", "t1"), ("v2", "t2")):
            self.store.put(Kind.VPCS, vpc, {"tenant": tenant, "cidrs": ["10.0.0.0/24"]})
            self.store.put(Kind.SERVICES, f"s{vpc[1]}", {"kind": "block", "node": "st0", "port": int(vpc[1])})
            self.store.put(Kind.NODES, (vpc, f"g{vpc[1]}"), {"ip": "10.0.0.1"})

    def put(self, kind: Kind, key: tuple[str, ...], body: dict[str, Any]) -> None:
        before = self.store.state
        known = before.versions.get((kind, key))
        try:
            stored = self.store.put(kind, key, body)
        except Refused as error:
            event(f"put {kind.value}: {error.why.value}")
            assert self.store.state is before
            return
        assert stored.created == (known is None)
        assert dump(self.store.get(kind, key).resource) == dump(stored.resource)
        # The same again changes nothing.
        now = self.store.state
        assert self.store.put(kind, key, body).version == stored.version
        assert self.store.state is now

    @rule(name=st.sampled_from(TENANTS), text=st.text(max_size=5))
    def tenant(self, name: str, text: str) -> None:
        """A tenant comes or is described anew."""
        self.put(Kind.TENANTS, (name,), {"description": text})

    @rule(
        name=st.sampled_from(VPCS),
        tenant=st.sampled_from(TENANTS),
        cidr=st.sampled_from(["10.0.0.0/24", "10.0.0.0/30", "10.0.0.15/32", "10.0.0.0/27", "224.0.0.0/8"]),
        segment=st.sampled_from([None, None, 2, 3, 4094]),
    )
    def vpc(self, name: str, tenant: str, cidr: str, segment: int | None) -> None:
        """A VPC comes, grows or shrinks."""
        self.put(Kind.VPCS, (name,), {"tenant": tenant, "cidrs": [cidr], "segment": segment})

    @rule(vpc=st.sampled_from(VPCS), host=st.sampled_from([*HOSTS, "gw0", "st0", "l0", "nobody"]), body=NODE_BODIES)
    def node(self, vpc: str, host: str, body: dict[str, Any]) -> None:
        """A host joins or gets another address."""
        self.put(Kind.NODES, (vpc, host), body)

    @rule(name=st.sampled_from(["s0", "s1", "s2"]), body=SERVICE_BODIES)
    def service(self, name: str, body: dict[str, Any]) -> None:
        """A service comes, moves, or opens to others."""
        self.put(Kind.SERVICES, (name,), body)

    @rule(vpc=st.sampled_from(VPCS), name=st.sampled_from(ENDPOINTS), body=ENDPOINT_BODIES)
    def endpoint(self, vpc: str, name: str, body: dict[str, Any]) -> None:
        """An endpoint comes or moves."""
        self.put(Kind.ENDPOINTS, (vpc, name), body)

    @rule(name=st.sampled_from(["p0", "p1", "p2"]), body=policy_bodies())
    def policy(self, name: str, body: dict[str, Any]) -> None:
        """A policy comes or changes."""
        self.put(Kind.POLICIES, (name,), body)

    @precondition(lambda self: self.store.state.versions)
    @rule(data=st.data(), stale=st.booleans())
    def delete(self, data: st.DataObject, stale: bool) -> None:
        """Something goes, unless it is in use or somebody else changed it."""
        kind, key = data.draw(st.sampled_from(sorted(self.store.state.versions)))
        before = self.store.state
        version = before.versions[kind, key]
        try:
            self.store.delete(kind, key, if_match=version - 1 if stale else version)
        except Refused as error:
            why: Why | None = error.why
        else:
            why = None
        event(f"delete {kind.value}: {why}")
        if why is None:
            assert not stale
            assert (kind, key) not in self.store.state.versions
        else:
            assert why is (Why.STALE if stale else Why.CONFLICT)
            assert self.store.state is before

    @invariant()
    def valid(self) -> None:
        """The state has no problem, and what is on disk is the same."""
        state = self.store.state
        assert problems(state, self.site.ground) == []
        with self.store._database.reading() as connection:
            rows = connection.execute("SELECT kind, parent, name, version, body FROM resources").fetchall()
            read = TenancyState.build(
                (
                    (Kind(kind), key, version, parse(Kind(kind), json.loads(body)))
                    for kind, parent, name, version, body in rows
                    for key in [check_key(Kind(kind), (parent, name) if parent else name)]
                ),
                connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()[0],
            )
        assert read == state

    @invariant()
    def told(self) -> None:
        """Subscribers saw every step, without gaps."""
        for (_, after), (before, _) in pairwise(self.seen):
            assert after is before
        if self.seen:
            assert self.seen[-1][1] is self.store.state
            del self.seen[:-1]

    @invariant()
    def compiles(self) -> None:
        """Compiling step by step gives what compiling afresh gives."""
        state = self.store.state
        assert self.compiler.program(state) == tenant_program(self.site, state)

    @invariant()
    def tells_gateways(self) -> None:
        """What gateways are told step by step is what they would be told afresh."""
        state = self.store.state
        self.carried.update(state)
        for gateway in ("gw0", "gw1"):
            assert self.carried.policies(gateway) == policies_for(self.site, state, gateway)

    def teardown(self) -> None:
        """Close."""
        self.store.close()


TestChanges = Changes.TestCase
TestChanges.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
