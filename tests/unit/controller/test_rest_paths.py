"""``/v1/paths`` with tenants: the segment and the translation on the way, and what a destination may be."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from controller import journal
from controller.compose import Composer
from controller.declared import Declared
from controller.designs import Design, Plan
from controller.flows import Program
from controller.paths import Spread
from controller.rest.api import Api
from controller.tenancy.kinds import Kind
from tests.support.controller_backend import FakeBackend, settle
from tests.support.controller_fabrics import leaf_spine

FABRIC = leaf_spine()
ADDRESS = "192.168.0.100"
STORAGE = {node.name: str(node.ip.ip) for node in FABRIC.nodes if node.ip}


class Switches:
    """Takes what is declared to the switches of a backend."""

    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    def declare(self, plan: Plan, layers: dict[str, Program], note: str) -> None:
        settle(self._backend.core, self._backend.core.declare(plan, layers, note, 0))

    def warn(self, message: str) -> None:
        self._backend.journal.add(0, journal.Kind.TENANCY, message, severity=journal.Severity.WARNING)


def declared(design: str) -> Api:
    """Two VPCs with equal addresses; each has a volume, on another storage node, and two endpoints on one address."""
    composer = Composer(FABRIC, Design(design), Spread.HOSTS)
    backend = FakeBackend(composer.base, store=True)
    store = backend.store
    assert store
    Declared(store, composer, Switches(backend))
    for vpc, members, node in (("red", ("g0", "g1"), "st0"), ("blue", ("g2", "g3"), "st1")):
        store.put(Kind.TENANTS, vpc, {})
        store.put(Kind.VPCS, vpc, {"tenant": vpc, "cidrs": ["192.168.0.0/24"]})
        for number, name in enumerate(members):
            store.put(Kind.NODES, (vpc, name), {"ip": f"192.168.0.{10 + number}"})
        for what, port in (("volume", 4420), ("share", 2049)):
            service = {"kind": "block", "node": node, "port": port + 1, "vpcs": [vpc]}
            store.put(Kind.SERVICES, f"{what}-{vpc}", service)
            store.put(Kind.ENDPOINTS, (vpc, what), {"service": f"{what}-{vpc}", "ip": ADDRESS, "port": port})
    store.put(Kind.POLICIES, "red-volume", {"vpc": "red", "action": "allow", "destination": {"endpoints": ["volume"]}})
    store.put(Kind.POLICIES, "red-nodes", {"vpc": "red", "action": "allow", "destination": {"nodes": ["g0", "g1"]}})
    store.put(Kind.POLICIES, "blue", {"vpc": "blue", "action": "allow"})
    return Api(backend)


def ask(api: Api, query: str) -> dict[str, Any]:
    response = api.answer("GET", f"/v1/paths?{query}")
    assert response.status == 200, response.body
    answer: dict[str, Any] = json.loads(response.body)
    return answer


@pytest.mark.parametrize("source", ["plan", "installed"])
@pytest.mark.parametrize("design", ["shortest-path", "gateway", "conventional"])
def test_the_way_to_an_endpoints_address(design: str, source: str) -> None:
    """The packet leaves the member with addresses of the VPC, crosses with the segment and fabric addresses, and the
    answer comes back as the endpoint's; two VPCs with the same question come to their own nodes.
    """
    api = declared(design)
    segments = set()
    for asker, vpc, node in (("g0", "red", "st0"), ("g2", "blue", "st1")):
        answer = ask(api, f"src={asker}&dst={ADDRESS}&protocol=tcp&port=4420&source={source}")
        assert answer["delivered"] is True, answer["reason"]
        assert (answer["vpc"], answer["port"], answer["dst"]) == (vpc, 4420, ADDRESS)
        assert answer["translation"] == {
            "endpoint": "volume", "service": f"volume-{vpc}", "node": node, "ip": ADDRESS, "port": 4420,
            "node_port": 4421,
        }  # fmt: skip
        segments.add(answer["segment"])
        first, *between = answer["there"][0]["hops"]
        assert (first["node"], first["ipv4_src"], first["ipv4_dst"], first["dst_port"]) == (
            *(asker, "192.168.0.10", ADDRESS),
            4420,
        )
        assert "segment" not in first
        crossed = between[0]
        assert (crossed["role"], crossed["what"]) == ("switch", "switches")
        assert (crossed["ipv4_src"], crossed["ipv4_dst"]) == (STORAGE[asker], STORAGE[node])
        assert (crossed["src_port"], crossed["dst_port"]) == (40_000, 4421)
        # Between switches, and only there, the member's packet has the tag.
        for hop, following in pairwise(answer["there"][0]["hops"]):
            inside = hop["role"] == following["role"] == "switch"
            assert hop.get("segment") == (answer["segment"] if inside else None)
        last = answer["there"][-1]["hops"][-1]
        assert (last["node"], last["what"], last["dst_port"]) == (node, "receives", 4421)
        assert "segment" not in last
        back = answer["back"][-1]["hops"][-1]
        assert (back["node"], back["ipv4_src"], back["src_port"]) == (asker, ADDRESS, 4420)
        assert (back["ipv4_dst"], back["dst_port"]) == ("192.168.0.10", 40_000)
        via = {hop["node"] for leg in answer["there"] for hop in leg["hops"] if hop["role"] != "switch"}
        assert (design == "shortest-path") == (via == {asker, node})
    assert len(segments) == 2


def test_what_a_destination_may_be() -> None:
    """Endpoints and nodes by name, by name in the VPC, and by address; ports tell endpoints of one address apart."""
    api = declared("shortest-path")
    for query, node in (
        ("dst=volume", "st0"),
        ("dst=red/volume", "st0"),
        (f"dst={ADDRESS}", "st0"),  # the lowest port
        (f"dst={ADDRESS}&port=2049", "st0"),
        ("dst=192.168.0.11&port=5", "g1"),
        ("dst=red/g1&port=5", "g1"),
        ("dst=g1&port=5", "g1"),
    ):
        answer = ask(api, f"src=red/g0&protocol=tcp&{query}")
        assert answer["there"][0]["hops"][0]["node"] == "g0"
        assert ("translation" in answer) == (node == "st0")
        if "2049" not in query and query != f"dst={ADDRESS}":
            assert answer["delivered"] is True, query
            assert answer["there"][-1]["hops"][-1]["node"] == node
    denied = ask(api, f"src=g0&dst={ADDRESS}&protocol=tcp&port=2049")
    assert (denied["delivered"], denied["back"]) == (False, [])
    assert denied["there"][0]["hops"][-1]["what"] == "drops"
    assert "l0 drops it" in denied["reason"]
    icmp = ask(api, "src=g0&dst=192.168.0.11")
    assert icmp["delivered"] is True
    assert {hop.get("segment") for hop in icmp["there"][0]["hops"]} == {None, icmp["segment"]}
    assert all("dst_port" not in hop for hop in icmp["there"][0]["hops"])


@pytest.mark.parametrize(
    ("query", "parameter", "words"),
    [
        (f"src=g0&dst={ADDRESS}", "port", "with 192.168.0.100 are TCP port 2049, 4420"),
        (f"src=g0&dst={ADDRESS}&protocol=tcp&port=80", "port", "are TCP port 2049, 4420"),
        ("src=g0&dst=volume&protocol=tcp&port=80", "port", "endpoint volume is TCP port 4420"),
        ("src=g0&dst=volume&protocol=udp", "port", "endpoint volume is TCP port 4420"),
        ("src=g0&dst=192.168.0.99&protocol=tcp", "dst", "nothing in VPC red has the address 192.168.0.99"),
        ("src=g0&dst=192.168.0.10&protocol=tcp", "dst", "same host"),
        ("src=g0&dst=blue/volume&protocol=tcp", "dst", "no way leads from one VPC to another"),
        ("src=blue/g0&dst=g1", "src", "g0 is not in a VPC 'blue'"),
        ("src=st0&dst=192.168.0.10", "dst", "no host of the fabric has the address 192.168.0.10"),
        ("src=st0&dst=red/g0", "dst", "st0 is not in a VPC 'red'"),
        ("src=red/&dst=g0", "src", "no host ''"),
    ],
)
def test_destinations_that_are_none(query: str, parameter: str, words: str) -> None:
    """Each is refused with the parameter at fault."""
    response = API.answer("GET", f"/v1/paths?{query}")
    problem = json.loads(response.body)
    assert (response.status, problem["parameter"]) == (400, parameter)
    assert words in problem["detail"]


API = declared("shortest-path")


def test_fabric_addresses_without_tenants() -> None:
    """Where there are no VPCs, hosts are found by their address on the fabric."""
    answer = ask(Api(FakeBackend()), f"src=g0&dst={STORAGE['st0']}&protocol=tcp&port=4420")
    assert answer["delivered"] is True
    assert answer["there"][-1]["hops"][-1]["node"] == "st0"
    assert "vpc" not in answer
