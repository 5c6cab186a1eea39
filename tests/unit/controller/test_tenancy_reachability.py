"""What may talk to what, asked of the resources; and that a whole matrix of it is what packets do."""

from __future__ import annotations

import pytest

from controller.designs import Design
from controller.paths import Spread
from controller.tenancy.kinds import Kind
from controller.tenancy.model import Protocol
from controller.tenancy.reachability import PING, Answer, Probe, explain, matrix
from controller.tenancy.refusals import Refused, Why
from tests.support.tenancy_composed import ComposedWorld
from tests.support.tenancy_sites import Declaring, small_site
from tests.support.tenancy_world import World

SITE = small_site("gateway")


def declared() -> Declaring:
    """Two tenants with overlapping addresses, groups, endpoints of each kind, and policies that overrule each other."""
    declaring = Declaring(SITE).tenant("a", "va").tenant("b", "vb")
    declaring.node("va/g0", "10.0.0.1", "trainers").node("va/g1", "10.0.0.2", "trainers").node("va/g2", "10.0.0.3")
    declaring.node("vb/g3", "10.0.0.1").node("vb/g4", "10.0.0.2")
    for kind, node, port in (("block", "st0", 4420), ("file", "st1", 2049), ("object", "st0", 80)):
        declaring.service(kind, node, port, kind)
        declaring.endpoint(f"va/{kind}", kind, "10.0.9.9", port)
    declaring.service("block-b", "st1", 4420).endpoint("vb/block", "block-b", "10.0.9.9", 4420)
    declaring.policy("trainers", tenant="a", source={"groups": ["trainers"]}, destination={"groups": ["trainers"]})
    declaring.policy("volumes", tenant="a", source={"groups": ["trainers"]}, destination={"kinds": ["block", "file"]})
    declaring.policy("no-ping", vpc="va", action="deny", priority=2000, protocol="icmp")
    declaring.policy("ping-all", vpc="va", priority=2000, protocol="icmp")
    web = [{"first": 80, "last": 90}, {"first": 443, "last": 443}]
    declaring.policy("web", vpc="va", protocol="tcp", destination={"nodes": ["g2"]}, ports=web)
    declaring.policy(
        "not-81", vpc="va", action="deny", priority=1001, protocol="tcp", ports=[{"first": 81, "last": 81}]
    )
    declaring.policy("all-b", tenant="b")
    return declaring


STATE = declared().state


def ask(source: str, destination: str, protocol: str = "tcp", port: int | None = None) -> Answer:
    """Ask about the declared state."""
    return explain(STATE, SITE.ground, source, destination, protocol, port)


@pytest.mark.parametrize(
    ("source", "destination", "protocol", "port", "allowed", "policy", "words"),
    [
        ("va/g0", "g1", "tcp", 5000, True, "trainers", "Policy trainers (priority 1000) allows it."),
        ("g0", "va/g1", "udp", 5000, True, "trainers", "allows"),
        ("g0", "10.0.0.2", "tcp", 5000, True, "trainers", "allows"),
        ("g0", "g1", "icmp", None, False, "no-ping", "Policy no-ping (priority 2000) denies it."),
        ("g0", "g2", "tcp", 80, True, "web", "allows"),
        ("g0", "g2", "tcp", 81, False, "not-81", "denies"),
        ("g0", "g2", "tcp", 91, False, None, "No policy of VPC va or its tenant allows it."),
        ("g0", "g2", "udp", 80, False, None, "No policy"),
        ("g2", "g0", "tcp", 80, False, None, "No policy"),
        ("g0", "g0", "tcp", 80, True, None, "the source itself"),
        ("g0", "block", "tcp", None, True, "volumes", "allows"),
        ("g0", "10.0.9.9", "tcp", 2049, True, "volumes", "allows"),
        ("g0", "object", "tcp", None, False, None, "No policy"),
        ("g2", "block", "tcp", None, False, None, "No policy"),
        ("g0", "block", "tcp", 4421, False, None, "Endpoint block has port 4420, not 4421."),
        ("g0", "block", "icmp", None, False, None, "does not answer icmp"),
        ("g0", "10.0.9.9", "udp", 4420, False, None, "does not answer udp"),
        ("g0", "10.0.9.9", "tcp", 4421, False, None, "No endpoint of VPC va has 10.0.9.9 with port 4421."),
        ("g0", "10.0.77.77", "tcp", 1, False, None, "Nothing in VPC va has the address 10.0.77.77."),
        ("g0", "8.8.8.8", "tcp", 1, False, None, "8.8.8.8 is not in the VPC's ranges"),
        ("g0", "vb/g3", "tcp", 1, False, None, "VPC va and VPC vb are apart"),
        ("g0", "g3", "tcp", 1, False, None, "are apart"),
        ("g0", "vb/10.0.0.1", "tcp", 1, False, None, "are apart"),
        ("g0", "vb/block", "tcp", None, False, None, "are apart"),
        ("g0", "st0", "tcp", 4420, False, None, "st0 is in no VPC; services are reached through endpoints."),
        ("st0", "g0", "tcp", 1, False, None, "st0 is in no VPC"),
        ("g5", "g0", "tcp", 1, False, None, "g5 is in no VPC"),
        ("g3", "10.0.0.2", "icmp", None, True, "all-b", "allows"),
    ],
)
def test_answers_have_a_reason(
    source: str, destination: str, protocol: str, port: int | None, allowed: bool, policy: str | None, words: str
) -> None:
    """Yes or no, the policy that decided, and a sentence."""
    answer = ask(source, destination, protocol, port)
    assert (answer.allowed, answer.policy) == (allowed, policy), answer.reason
    assert words in answer.reason
    assert answer.reason.endswith(".")


def test_translation_is_told() -> None:
    """For an endpoint the answer says what is behind it, each VPC its own."""
    for source, service, node in (("g0", "block", "st0"), ("g3", "block-b", "st1")):
        translation = ask(source, "10.0.9.9", "tcp", 4420).translation
        assert translation is not None
        assert (translation.service, translation.node, translation.node_port) == (service, node, 4420)


@pytest.mark.parametrize(
    ("source", "destination", "protocol", "port", "why", "field"),
    [
        ("nobody", "g0", "tcp", 1, Why.MISSING, "src"),
        ("l0", "g0", "tcp", 1, Why.MISSING, "src"),
        ("", "g0", "tcp", 1, Why.MISSING, "src"),
        ("vb/g0", "g1", "tcp", 1, Why.MISSING, "src"),
        ("vx/g0", "g1", "tcp", 1, Why.MISSING, "src"),
        ("g0", "nobody", "tcp", 1, Why.MISSING, "dst"),
        ("g0", "", "tcp", 1, Why.MISSING, "dst"),
        ("g0", "vx/g1", "tcp", 1, Why.MISSING, "dst"),
        ("g0", "va/g3", "tcp", 1, Why.MISSING, "dst"),
        ("g0", "10.0.0.2/8", "tcp", 1, Why.MISSING, "dst"),
        ("g0", "::1", "tcp", 1, Why.MISSING, "dst"),
        ("g0", "g1", "tcp", None, Why.INVALID, "port"),
        ("g0", "g1", "tcp", 0, Why.INVALID, "port"),
        ("g0", "g1", "tcp", 65_536, Why.INVALID, "port"),
        ("g0", "g1", "icmp", 1, Why.INVALID, "port"),
        ("g0", "g1", "any", None, Why.INVALID, "protocol"),
        ("g0", "g1", "sctp", 1, Why.INVALID, "protocol"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    source: str, destination: str, protocol: str, port: int | None, why: Why, field: str
) -> None:
    """With the part of the question that is wrong."""
    with pytest.raises(Refused) as caught:
        ask(source, destination, protocol, port)
    assert (caught.value.why, caught.value.field) == (why, field)


def test_a_name_that_means_two_things_is_not_guessed() -> None:
    """An endpoint called like a node has to be asked for by address."""
    declaring = declared().endpoint("vb/g4", "file", "10.0.9.10", 1)
    with pytest.raises(Refused, match="g4 is a node and an endpoint of VPC vb"):
        explain(declaring.state, SITE.ground, "g3", "g4", "tcp", 1)
    assert explain(declaring.state, SITE.ground, "g3", "10.0.9.10", "tcp", 1).allowed


PROBES = (PING, Probe(Protocol.TCP, 80), Probe(Protocol.TCP, 81), Probe(Protocol.TCP, 443), Probe(Protocol.TCP, 22))


def assert_matrix_is_what_packets_do(world: World) -> None:
    """Every node against every node and endpoint, in all VPCs, with several probes: predicted and sent agree."""
    cells = list(matrix(STATE, PROBES))
    assert len(cells) == 5 * 4 * len(PROBES) + 5 * len(STATE.endpoints)
    for cell in cells:
        source, (vpc, name) = cell.source[1], cell.target
        arrivals = world.travel(source, world.opening(source, str(cell.ip), cell.probe.protocol.value, cell.probe.port))
        if cell.kind == "node":
            reached = [arrival.host for arrival in arrivals] == [name]
        else:
            service = STATE.services[STATE.endpoints[vpc, name].service]
            reached = bool(arrivals) and (arrivals[-1].host, arrivals[-1].frame.tcp_dst) == (service.node, service.port)
        assert reached == cell.answer.allowed, cell
        if reached:
            back = world.answer(arrivals)[-1]
            assert (back.host, back.frame.ipv4_src) == (source, str(cell.ip)), cell
    assert {cell.answer.allowed for cell in cells} == {True, False}
    assert {cell.kind for cell in cells if cell.answer.allowed} == {"node", "endpoint"}
    assert not any(cell.answer.allowed for cell in cells if cell.source[0] != cell.target[0])


@pytest.mark.parametrize("design", ["shortest-path", "gateway", "conventional"])
def test_the_matrix_is_what_packets_do(design: str) -> None:
    """The tenants' rules alone, with steering and paths written down for the test."""
    assert_matrix_is_what_packets_do(World(small_site(design), STATE))


@pytest.mark.parametrize("spread", list(Spread))
@pytest.mark.parametrize("design", list(Design))
def test_the_matrix_holds_on_the_whole_plan(design: Design, spread: Spread) -> None:
    """All that switches get, groups included, link by link, whichever of equal paths the switches choose."""
    for flow_hash in (0, 1, 7) if spread is Spread.FLOWS else (0,):
        assert_matrix_is_what_packets_do(ComposedWorld(SITE.fabric, design, spread, STATE, flow_hash))


def test_the_order_of_policies_is_the_priority_then_denial() -> None:
    """Same priority: a denial decides; higher priority: whatever it says; names and order of creation mean nothing."""
    for names in (("x", "y", "z"), ("z", "y", "x")):
        declaring = Declaring(SITE).tenant("a", "v").node("v/g0", "10.0.0.1").node("v/g1", "10.0.0.2")
        declaring.policy(names[0], vpc="v", priority=5)
        assert explain(declaring.state, SITE.ground, "g0", "g1", "icmp").policy == names[0]
        declaring.policy(names[1], tenant="a", action="deny", priority=5)
        assert explain(declaring.state, SITE.ground, "g0", "g1", "icmp").policy == names[1]
        declaring.policy(names[2], vpc="v", priority=6, protocol="icmp")
        assert explain(declaring.state, SITE.ground, "g0", "g1", "icmp").policy == names[2]
        assert explain(declaring.state, SITE.ground, "g0", "g1", "tcp", 1).policy == names[1]
        declaring.state = declaring.state.delete(Kind.POLICIES, (names[2],))
        assert not explain(declaring.state, SITE.ground, "g0", "g1", "icmp").allowed


def test_reasons_name_groups_that_nobody_is_in() -> None:
    """What no policy allows says which policies wait for nodes of a group, the first few of them; denials do not."""
    declaring = Declaring(SITE).tenant("a", "va").node("va/g0", "10.0.0.1").node("va/g1", "10.0.0.2")
    declaring.service("s", "st0", 80).endpoint("va/e", "s", "10.0.9.9", 80)
    declaring.policy("no", vpc="va", action="deny", protocol="udp", source={"groups": ["lost"]})
    plain = "No policy of VPC va or its tenant allows it."
    assert explain(declaring.state, SITE.ground, "g0", "g1", "icmp").reason == plain
    declaring.policy("p", vpc="va", source={"groups": ["trainers"]}, destination={"groups": ["x", "y"]})
    expected = f"{plain} No node of it is in some groups: policy p is for trainers, x, y."
    for target, protocol, port in (("g1", "icmp", None), ("e", "tcp", None), ("g1", "tcp", 80)):
        assert explain(declaring.state, SITE.ground, "g0", target, protocol, port).reason == expected
    for name in "qrst":
        declaring.policy(name, tenant="a", source={"groups": ["trainers"]})
    assert explain(declaring.state, SITE.ground, "g0", "g1", "icmp").reason.endswith("; and 2 more.")
    declaring.node("va/g0", "10.0.0.1", "trainers").node("va/g1", "10.0.0.2", "x", "y")
    assert explain(declaring.state, SITE.ground, "g0", "g1", "icmp").policy == "p"
