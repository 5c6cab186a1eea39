"""What the state takes and what it refuses, with the reason that the caller gets to read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.tenancy.checks import Limits
from controller.tenancy.ground import Ground
from controller.tenancy.invariants import problems
from controller.tenancy.kinds import Kind, check_key, dump, parse
from controller.tenancy.model import FIRST_SEGMENT, LAST_SEGMENT
from controller.tenancy.refusals import Refused, Why
from controller.tenancy.state import TenancyState
from emulator.model.fabric import Role
from tests.support.tenancy_sites import Declaring, small_site

SITE = small_site("gateway")


def declared() -> Declaring:
    """Something of everything."""
    declaring = Declaring(SITE).tenant("a", "va", "va2").tenant("b", "vb")
    declaring.node("va/g0", "10.0.0.1", "red").node("va/g1", "10.0.0.2").node("vb/g2", "10.0.0.1")
    declaring.service("vol", "st0", 4420).put(Kind.SERVICES, "own", kind="file", node="st1", port=2049, vpcs=["va"])
    declaring.endpoint("va/vol", "vol", "10.0.9.9", 3260).endpoint("va/own", "own", "10.0.9.9", 2049)
    declaring.policy("all", tenant="a")
    declaring.policy("one", vpc="va", source={"nodes": ["g0"]}, destination={"endpoints": ["vol"]})
    return declaring


CASES: list[tuple[Kind, str, dict[str, Any], Why, str | None, str]] = [
    (Kind.TENANTS, "-a", {}, Why.INVALID, "name", "'-a' is not a name"),
    (Kind.TENANTS, "a/b", {}, Why.INVALID, "name", "the key of a tenant is one name"),
    (Kind.TENANTS, "a\n", {}, Why.INVALID, "name", "is not a name"),
    (Kind.TENANTS, "ä", {}, Why.INVALID, "name", "is not a name"),
    (Kind.TENANTS, "x" * 65, {}, Why.INVALID, "name", "is not a name"),
    (Kind.TENANTS, "a", {"descripton": ""}, Why.INVALID, "descripton", "is not a field of this resource"),
    (Kind.TENANTS, "a", {"description": "x" * 501}, Why.INVALID, "description", "at most 500"),
    (Kind.TENANTS, "a", {"description": "\ud800"}, Why.INVALID, "description", "unicode"),
    (Kind.VPCS, "x", {"tenant": "a"}, Why.INVALID, "cidrs", "is missing"),
    (Kind.VPCS, "x", {"tenant": "no", "cidrs": ["10.0.0.0/8"]}, Why.MISSING, "tenant", "there is no tenant no"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": []}, Why.INVALID, "cidrs", "at least 1 item"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.1/8"]}, Why.INVALID, "cidrs[0]", "not a valid IPv4 network"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": [167772160]}, Why.INVALID, "cidrs[0]", "an address range is text"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0"]}, Why.INVALID, "cidrs[0]", "an address range is text"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0/8", "10.1.0.0/16"]}, Why.INVALID, "cidrs", "overlap"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["11.0.0.0/8", "0.0.0.0/0"]}, Why.INVALID, "cidrs", "overlap"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["0.0.0.0/0"]}, Why.INVALID, "cidrs[0]", "which no host can have"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0/8", "239.0.0.0/8"]}, Why.INVALID, "cidrs[1]", "no host can"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["fd00::/8"]}, Why.INVALID, "cidrs[0]", "not a valid IPv4 network"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0/8"], "segment": 1}, Why.INVALID, "segment", "1:"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0/8"], "segment": 4095}, Why.INVALID, "segment", "4095:"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0/8"], "segment": True}, Why.INVALID, "segment", "True:"),
    (Kind.VPCS, "x", {"tenant": "a", "cidrs": ["10.0.0.0/8"], "segment": 2}, Why.CONFLICT, "segment", "belongs to VPC"),
    (Kind.VPCS, "va", {"tenant": "b", "cidrs": ["10.0.0.0/16"]}, Why.CONFLICT, "tenant", "belongs to tenant a"),
    (Kind.VPCS, "va", {"tenant": "a", "cidrs": ["10.0.8.0/21"]}, Why.CONFLICT, "cidrs", "node g0 would not fit"),
    (Kind.VPCS, "va", {"tenant": "a", "cidrs": ["10.0.0.0/24"]}, Why.CONFLICT, "cidrs", "endpoint vol would not"),
    (Kind.NODES, "no/g3", {"ip": "10.0.0.3"}, Why.ABSENT, None, "there is no VPC no"),
    (Kind.NODES, "g3", {"ip": "10.0.0.3"}, Why.INVALID, "name", "the VPC's name and its own"),
    (Kind.NODES, "va/nobody", {"ip": "10.0.0.3"}, Why.MISSING, "name", "there is no host nobody"),
    (Kind.NODES, "va/l0", {"ip": "10.0.0.3"}, Why.MISSING, "name", "l0 has the role switch"),
    (Kind.NODES, "va/st0", {"ip": "10.0.0.3"}, Why.CONFLICT, "name", "st0 has the role storage; VPCs have hosts"),
    (Kind.NODES, "va/gw0", {"ip": "10.0.0.3"}, Why.CONFLICT, "name", "gw0 has the role gateway"),
    (Kind.NODES, "va/r0", {"ip": "10.0.0.3"}, Why.CONFLICT, "name", "r0 has the role router"),
    (Kind.NODES, "va/g2", {"ip": "10.0.0.3"}, Why.CONFLICT, "name", "g2 is in VPC vb"),
    (Kind.NODES, "va/g3", {"ip": "10.1.0.3"}, Why.INVALID, "ip", "10.1.0.3 is not in the VPC's ranges (10.0.0.0/16)"),
    (Kind.NODES, "va/g3", {"ip": "10.0.0.0"}, Why.INVALID, "ip", "the network address"),
    (Kind.NODES, "va/g3", {"ip": "10.0.255.255"}, Why.INVALID, "ip", "the broadcast address"),
    (Kind.NODES, "va/g3", {"ip": "10.0.0.1"}, Why.CONFLICT, "ip", "the address of node g0"),
    (Kind.NODES, "va/g3", {"ip": "10.0.9.9"}, Why.CONFLICT, "ip", "the address of endpoint"),
    (Kind.NODES, "va/g3", {"ip": 167772163}, Why.INVALID, "ip", "an address is text"),
    (Kind.NODES, "va/g3", {"ip": "10.0.0.3", "groups": ["a b"]}, Why.INVALID, "groups[0]", "match pattern"),
    (Kind.SERVICES, "x", {"kind": "tape", "node": "st0", "port": 1}, Why.INVALID, "kind", "'block', 'file' or"),
    (Kind.SERVICES, "x", {"kind": "block", "node": "st0", "port": 0}, Why.INVALID, "port", "0:"),
    (Kind.SERVICES, "x", {"kind": "block", "node": "st0", "port": "80"}, Why.INVALID, "port", "valid integer"),
    (Kind.SERVICES, "x", {"kind": "block", "node": "g3", "port": 1}, Why.CONFLICT, "node", "offered by hosts of the"),
    (Kind.SERVICES, "x", {"kind": "block", "node": "nobody", "port": 1}, Why.MISSING, "node", "there is no host"),
    (Kind.SERVICES, "x", {"kind": "block", "node": "st0", "port": 4420}, Why.CONFLICT, "port", "that of service vol"),
    (
        Kind.SERVICES,
        "x",
        {"kind": "block", "node": "st0", "port": 1, "vpcs": ["va", "no"]},
        Why.MISSING,
        "vpcs[1]",
        "no",
    ),
    (
        Kind.SERVICES,
        "own",
        {"kind": "file", "node": "st1", "port": 2049, "vpcs": ["vb"]},
        Why.CONFLICT,
        "vpcs",
        "va/own",
    ),
    (Kind.SERVICES, "own", {"kind": "file", "node": "st1", "port": 2049, "vpcs": []}, Why.CONFLICT, "vpcs", "va/own"),
    (Kind.ENDPOINTS, "no/x", {"service": "vol", "ip": "10.0.0.9", "port": 1}, Why.ABSENT, None, "there is no VPC no"),
    (Kind.ENDPOINTS, "vb/x", {"service": "no", "ip": "10.0.0.9", "port": 1}, Why.MISSING, "service", "no service no"),
    (Kind.ENDPOINTS, "vb/x", {"service": "own", "ip": "10.0.0.9", "port": 1}, Why.CONFLICT, "service", "may not use"),
    (Kind.ENDPOINTS, "vb/x", {"service": "vol", "ip": "10.0.0.1", "port": 1}, Why.CONFLICT, "ip", "of node g2"),
    (Kind.ENDPOINTS, "vb/x", {"service": "vol", "ip": "9.9.9.9", "port": 1}, Why.INVALID, "ip", "not in the VPC's"),
    (
        Kind.ENDPOINTS,
        "va/x",
        {"service": "vol", "ip": "10.0.9.8", "port": 1},
        Why.CONFLICT,
        "service",
        "endpoint vol is",
    ),
    (
        Kind.ENDPOINTS,
        "va/own",
        {"service": "own", "ip": "10.0.9.9", "port": 3260},
        Why.CONFLICT,
        "port",
        "has 10.0.9.9:3260",
    ),
    (Kind.POLICIES, "x", {"action": "allow"}, Why.INVALID, None, "either a tenant or a vpc"),
    (Kind.POLICIES, "x", {"action": "maybe", "vpc": "va"}, Why.INVALID, "action", "'allow' or 'deny'"),
    (Kind.POLICIES, "x", {"action": "allow", "tenant": "no"}, Why.MISSING, "tenant", "there is no tenant no"),
    (Kind.POLICIES, "x", {"action": "allow", "vpc": "no"}, Why.MISSING, "vpc", "there is no VPC no"),
    (Kind.POLICIES, "x", {"action": "allow", "vpc": "va", "priority": 10_000}, Why.INVALID, "priority", "10000:"),
    (
        Kind.POLICIES,
        "x",
        {"action": "allow", "vpc": "va", "source": {"nodes": ["g0", "g2"]}},
        Why.MISSING,
        "source.nodes[1]",
        "VPC va has no node g2",
    ),
    (
        Kind.POLICIES,
        "x",
        {"action": "allow", "vpc": "va", "destination": {"endpoints": ["no"]}},
        Why.MISSING,
        "destination.endpoints[0]",
        "VPC va has no endpoint no",
    ),
    (
        Kind.POLICIES,
        "x",
        {"action": "allow", "vpc": "va", "protocol": "tcp", "ports": [{"first": 9, "last": 8}]},
        Why.INVALID,
        "ports[0]",
        "starts with 9 and ends with 8",
    ),
    (
        Kind.POLICIES,
        "x",
        {"action": "allow", "vpc": "va", "ports": [{"first": 1, "last": 1}]},
        Why.INVALID,
        None,
        "tcp",
    ),
]


@pytest.mark.parametrize(("kind", "key", "body", "why", "field", "words"), CASES)
def test_refusals_say_what_and_where(
    kind: Kind, key: str, body: dict[str, Any], why: Why, field: str | None, words: str
) -> None:
    """Each wrong resource is refused with its kind of reason, the field, and words that name the culprit."""
    declaring = declared()
    before = declaring.state
    with pytest.raises(Refused) as caught:
        declaring.put(kind, key, **body)
    assert (caught.value.why, caught.value.field) == (why, field), str(caught.value)
    assert words in caught.value.detail
    assert "\n" not in str(caught.value)
    assert declaring.state is before


def test_point_to_point_ranges_have_no_special_addresses() -> None:
    """Both addresses of a /31, and the one of a /32, are hosts' (RFC 3021)."""
    declaring = Declaring(SITE).tenant("a", "v", cidrs=("10.0.0.0/31", "10.0.0.9/32"))
    declaring.node("v/g0", "10.0.0.0").node("v/g1", "10.0.0.1").node("v/g2", "10.0.0.9")
    assert problems(declaring.state, SITE.ground) == []


@pytest.mark.parametrize("body", [None, [], "text", 5, True, {1: 2}])
def test_bodies_that_are_no_objects_are_refused(body: object) -> None:
    """JSON that is no object is refused for every kind."""
    for kind in Kind:
        with pytest.raises(Refused) as caught:
            parse(kind, body)
        assert caught.value.why is Why.INVALID


@pytest.mark.parametrize(
    ("kind", "key", "user"),
    [
        (Kind.TENANTS, "a", "policy all and 2 more"),
        (Kind.TENANTS, "b", "VPC vb"),
        (Kind.VPCS, "va", "endpoint va/own and 5 more"),
        (Kind.VPCS, "vb", "node vb/g2"),
        (Kind.SERVICES, "vol", "endpoint va/vol"),
        (Kind.NODES, "va/g0", "policy one"),
        (Kind.ENDPOINTS, "va/vol", "policy one"),
    ],
)
def test_what_is_in_use_stays(kind: Kind, key: str, user: str) -> None:
    """Deleting something that others need is refused and names one of them."""
    state = declared().state
    with pytest.raises(Refused) as caught:
        state.delete(kind, check_key(kind, tuple(key.split("/"))))
    assert caught.value.why is Why.CONFLICT
    assert caught.value.detail.endswith(f"is in use by {user}")


def test_all_can_be_deleted_in_order() -> None:
    """Users first, then what they used: nothing is left, and the index is empty."""
    state = declared().state
    order = [Kind.POLICIES, Kind.ENDPOINTS, Kind.NODES, Kind.SERVICES, Kind.VPCS, Kind.TENANTS]
    for kind in order:
        for _, key in [entry for entry in state.versions if entry[0] is kind]:
            state = state.delete(kind, key)
            assert problems(state, SITE.ground) == []
    assert state == TenancyState(change=state.change)


def test_a_tenants_policy_may_name_what_does_not_exist() -> None:
    """It applies in each of the tenant's VPCs, where the names may mean something now, later or never."""
    declaring = declared()
    declaring.policy("later", tenant="a", source={"nodes": ["g5"], "groups": ["blue"]})
    declaring.policy("groups", vpc="va", source={"groups": ["blue"]})
    assert problems(declaring.state, SITE.ground) == []


def test_segments_are_the_lowest_free_ones_and_stay() -> None:
    """New VPCs fill gaps; a VPC put again without a segment keeps its own."""
    declaring = Declaring(SITE).tenant("a", "v1", "v2", "v3")
    assert [declaring.state.vpcs[name].segment for name in ("v1", "v2", "v3")] == [2, 3, 4]
    declaring.state = declaring.state.delete(Kind.VPCS, ("v2",))
    declaring.put(Kind.VPCS, "v3", tenant="a", cidrs=["10.0.0.0/8"])
    assert declaring.state.vpcs["v3"].segment == 4
    declaring.put(Kind.VPCS, "v4", tenant="a", cidrs=["10.0.0.0/8"])
    assert declaring.state.vpcs["v4"].segment == 3
    declaring.put(Kind.VPCS, "v4", tenant="a", cidrs=["10.0.0.0/8"], segment=4094)
    declaring.put(Kind.VPCS, "v5", tenant="a", cidrs=["10.0.0.0/8"])
    assert declaring.state.vpcs["v5"].segment == 3


def test_more_vpcs_than_segments_are_refused_in_words() -> None:
    """The 4094th VPC gets a sentence, not a wrong segment."""
    vpcs = [
        (Kind.VPCS, (f"v{segment}",), segment, parse(Kind.VPCS, body))
        for segment in range(FIRST_SEGMENT, LAST_SEGMENT + 1)
        for body in [{"tenant": "a", "cidrs": ["10.0.0.0/8"], "segment": segment}]
    ]
    full = TenancyState.build([(Kind.TENANTS, ("a",), 1, parse(Kind.TENANTS, {})), *vpcs], LAST_SEGMENT)
    with pytest.raises(Refused, match="all 4093 segments are in use") as caught:
        full.put(Kind.VPCS, ("x",), parse(Kind.VPCS, {"tenant": "a", "cidrs": ["10.0.0.0/8"]}), SITE.ground)
    assert caught.value.why is Why.FULL
    again = full.put(Kind.VPCS, ("v7",), parse(Kind.VPCS, {"tenant": "a", "cidrs": ["11.0.0.0/8"]}), SITE.ground)
    assert again.state.vpcs["v7"].segment == 7


@pytest.mark.parametrize(
    ("kind", "key", "body"),
    [
        (Kind.TENANTS, "c", {}),
        (Kind.NODES, "va/g3", {"ip": "10.0.0.9"}),
        (Kind.SERVICES, "x", {"kind": "block", "node": "st0", "port": 9}),
        (Kind.ENDPOINTS, "vb/x", {"service": "vol", "ip": "10.0.0.9", "port": 1}),
        (Kind.POLICIES, "x", {"tenant": "a", "action": "deny"}),
    ],
)
def test_limits_are_refused_in_words(kind: Kind, key: str, body: dict[str, Any]) -> None:
    """One more than the limit is refused; changing what exists is not."""
    state = declared().state
    have = len(state.table(kind))
    limits = Limits(**{kind.value: have})
    proper = check_key(kind, tuple(key.split("/")))
    with pytest.raises(Refused, match=f"there are {have} {kind.value} already") as caught:
        state.put(kind, proper, parse(kind, body), SITE.ground, limits=limits)
    assert caught.value.why is Why.FULL
    known = next(entry for entry in state.versions if entry[0] is kind)[1]
    state.put(kind, known, state.get(kind, known), SITE.ground, limits=limits)


def test_versions_guard_against_lost_updates() -> None:
    """Puts and deletes with an old version, or for what should not be there, are refused; versions never come back."""
    state = declared().state
    key = ("a",)
    tenant = parse(Kind.TENANTS, {"description": "new"})
    version = state.versions[Kind.TENANTS, key]
    changed = state.put(Kind.TENANTS, key, tenant, SITE.ground, if_match=version)
    assert not changed.created
    assert changed.version > version
    with pytest.raises(Refused, match=f"has version {changed.version}, not {version}") as caught:
        changed.state.put(Kind.TENANTS, key, tenant, SITE.ground, if_match=version)
    assert caught.value.why is Why.STALE
    with pytest.raises(Refused, match="exists already"):
        state.put(Kind.TENANTS, key, tenant, SITE.ground, if_none_match=True)
    with pytest.raises(Refused, match="does not have version 1"):
        state.put(Kind.TENANTS, ("c",), tenant, SITE.ground, if_match=1)
    made = state.put(Kind.TENANTS, ("c",), tenant, SITE.ground, if_none_match=True)
    assert made.created
    again = made.state.delete(Kind.TENANTS, ("c",)).put(Kind.TENANTS, ("c",), tenant, SITE.ground)
    assert again.version > made.version
    with pytest.raises(Refused) as absent:
        state.delete(Kind.TENANTS, ("c",))
    assert absent.value.why is Why.ABSENT


def test_the_same_again_is_no_change() -> None:
    """Putting what is there already gives the same state and version."""
    state = declared().state
    for (kind, key), version in state.versions.items():
        change = state.put(kind, key, state.get(kind, key), SITE.ground)
        assert change.state is state
        assert (change.version, change.created) == (version, False)


def test_a_service_node_and_a_member_exclude_each_other() -> None:
    """A host of the role host may be either; not both, since it sends from one address."""
    ground = Ground({"h": Role.HOST, "x": Role.HOST}, frozenset({"h"}), frozenset())
    state = TenancyState()

    def put(kind: Kind, key: tuple[str, ...], body: dict[str, Any]) -> None:
        nonlocal state
        state = state.put(kind, key, parse(kind, body), ground).state

    put(Kind.TENANTS, ("a",), {})
    put(Kind.VPCS, ("v",), {"tenant": "a", "cidrs": ["10.0.0.0/31"]})
    put(Kind.SERVICES, ("s",), {"kind": "block", "node": "h", "port": 1})
    with pytest.raises(Refused, match="h offers service s"):
        put(Kind.NODES, ("v", "h"), {"ip": "10.0.0.0"})
    state = state.delete(Kind.SERVICES, ("s",))
    put(Kind.NODES, ("v", "h"), {"ip": "10.0.0.0"})
    with pytest.raises(Refused, match="h is in VPC v, so it cannot offer services"):
        put(Kind.SERVICES, ("s",), {"kind": "block", "node": "h", "port": 1})
    with pytest.raises(Refused, match="x is not attached to a switch"):
        put(Kind.NODES, ("v", "x"), {"ip": "10.0.0.1"})


def test_carriers_are_nobodys() -> None:
    """A compute node that is a proxy in this design cannot join a VPC; one that is none can."""
    ground = small_site("conventional").ground
    state = declared().state
    with pytest.raises(Refused, match="c0 carries others' traffic"):
        state.put(Kind.NODES, ("va", "c0"), parse(Kind.NODES, {"ip": "10.0.0.77"}), ground)
    state.put(Kind.NODES, ("va", "c0"), parse(Kind.NODES, {"ip": "10.0.0.77"}), SITE.ground)


def test_resources_survive_json() -> None:
    """What is written is what is read."""
    state = declared().state
    for (kind, key), _ in state.versions.items():
        resource = state.get(kind, key)
        assert parse(kind, json.loads(json.dumps(dump(resource)))) == resource


@pytest.mark.parametrize(
    ("kind", "key", "body", "words"),
    [
        (Kind.VPCS, ("va",), {"tenant": "no", "cidrs": ["10.0.0.0/16"], "segment": 2}, "there is no tenant no"),
        (Kind.VPCS, ("va",), {"tenant": "a", "cidrs": ["10.0.0.0/16"]}, "has no segment"),
        (Kind.VPCS, ("va",), {"tenant": "a", "cidrs": ["10.0.0.0/16"], "segment": 3}, "segment 3 exists 2 times"),
        (Kind.NODES, ("va", "g1"), {"ip": "10.0.0.1"}, "address in a VPC va 10.0.0.1 exists 2 times"),
        (Kind.NODES, ("va", "g2"), {"ip": "10.0.0.5"}, "member g2 exists 2 times"),
        (Kind.NODES, ("va", "st0"), {"ip": "10.0.0.5"}, "node va/st0 offers a service"),
        (Kind.SERVICES, ("vol",), {"kind": "block", "node": "st1", "port": 2049}, "service at st1 2049 exists 2"),
        (Kind.ENDPOINTS, ("va", "vol"), {"service": "own", "ip": "10.0.9.9", "port": 1}, "endpoint for va own"),
        (Kind.ENDPOINTS, ("vb", "x"), {"service": "own", "ip": "10.0.0.1", "port": 1}, "is a node's address"),
        (Kind.ENDPOINTS, ("vb", "x"), {"service": "own", "ip": "10.0.0.9", "port": 1}, "the VPC may not use"),
        (Kind.POLICIES, ("x",), {"action": "allow", "vpc": "vb", "source": {"nodes": ["g0"]}}, "VPC vb has no node"),
        (Kind.POLICIES, ("x",), {"action": "allow", "tenant": "no"}, "there is no tenant no"),
    ],
)
def test_the_invariants_see_what_checks_would_have_refused(
    kind: Kind, key: tuple[str, ...], body: dict[str, Any], words: str
) -> None:
    """States that no sequence of changes leads to are found invalid: the tests' own yardstick works."""
    state = declared().state
    entries = {(kind, key): (version, resource) for kind, key, version, resource in state.entries()}
    entries[kind, key] = (99, parse(kind, body))
    bad = TenancyState.build([(kind, key, *entry) for (kind, key), entry in entries.items()], 99)
    assert any(words in problem for problem in problems(bad, SITE.ground)), problems(bad, SITE.ground)
