"""What makes nodes reach each other: requests as an independent library reads them, tables, and what comes back."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from emulator.model.fabric import Fabric
from emulator.network.host_state import Forgotten, _next_hops, forgotten
from emulator.network.netlink import (
    RTM_NEWADDR,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    Request,
    attributes,
    message,
    picked,
)
from emulator.network.ports import link_ports
from emulator.network.reach import Needs, Neighbours, Prefixes, add_route
from emulator.network.verification import SAMPLE, sample, star
from topologies import antipodes, dual_plane, routing_of, single, torus3d, tree

_ROUTE_HEADER_BYTES = 12


def decoded(request: Request) -> rtmsg:
    route = rtmsg(message(request.kind, 1, 1, request.body))
    route.decode()
    return route


def needs(fabric: Fabric, node: str) -> tuple[Needs, dict[str, int]]:
    """What a node needs, its interfaces being numbered from 40."""
    routing = routing_of(fabric)
    assert routing is not None
    links = link_ports(fabric)
    mine = [port for pair in links for port in pair if port.node == node]
    indices = {port.interface: 40 + port.number for port in mine}
    return Prefixes(routing, links).needs(node, mine, indices), indices


def test_routes_are_read_by_pyroute2() -> None:
    """One next hop stands by itself, several in a list; all are on-link, and the source is the node's."""
    source = IPv4Address("10.1.1.1").packed
    far = [(41, IPv4Address("10.2.1.1").packed), (43, IPv4Address("172.16.0.9").packed)]
    one = decoded(add_route(IPv4Network("10.2.0.0/15"), far[:1], source, "one"))
    assert (one["dst_len"], one["flags"], one["family"]) == (15, 4, socket.AF_INET)
    assert one.get_attr("RTA_DST") == "10.2.0.0"
    assert one.get_attr("RTA_PREFSRC") == "10.1.1.1"
    assert (one.get_attr("RTA_OIF"), one.get_attr("RTA_GATEWAY")) == (41, "10.2.1.1")
    assert one.get_attr("RTA_MULTIPATH") is None
    two = decoded(add_route(IPv4Network("10.0.0.0/8"), far, source, "two"))
    hops = two.get_attr("RTA_MULTIPATH")
    assert [(hop["oif"], hop["flags"], hop["hops"]) for hop in hops] == [(41, 4, 0), (43, 4, 0)]
    assert [hop.get_attr("RTA_GATEWAY") for hop in hops] == ["10.2.1.1", "172.16.0.9"]
    assert two.get_attr("RTA_OIF") is None


@pytest.mark.parametrize(
    ("fabric", "node"),
    [
        (torus3d(4, 3, 2), "c2_1_1"),
        (torus3d(3, 3, 1, routing="adaptive"), "c0_0_0"),
        (tree("2x4", oversubscription="2"), "t1"),
        (tree("2x4"), "c0_3"),
        (dual_plane(3, 2), "c1_1"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_node_gets_its_addresses_neighbours_and_routes(fabric: Fabric, node: str) -> None:
    """Every address on the loopback, one neighbour for each port and no more, the table as the routing has it.

    Verify: next hops are the far ends' first addresses by the right interfaces; flows are hashed only where they may.
    """
    routing = routing_of(fabric)
    assert routing is not None
    found, indices = needs(fabric, node)
    by_kind = {
        kind: [one for one in found.requests if one.kind == kind] for kind in (RTM_NEWADDR, RTM_NEWNEIGH, RTM_NEWROUTE)
    }
    given = []
    for request in by_kind[RTM_NEWADDR]:
        address = ifaddrmsg(message(request.kind, 1, 1, request.body))
        address.decode()
        assert (address["index"], address["prefixlen"]) == (1, 32)
        given.append(address.get_attr("IFA_LOCAL"))
    assert given == [str(one) for one in routing.addresses(node)]
    assert len(by_kind[RTM_NEWNEIGH]) == len(indices)
    far = {
        indices[f"{node}-eth{port}"]: str(routing.addresses(end.node)[0])
        for port, end in routing.far_ends(node).items()
    }
    table = routing.routes(node)
    assert len(by_kind[RTM_NEWROUTE]) == len(table)
    for request, route in zip(by_kind[RTM_NEWROUTE], table, strict=True):
        read = decoded(request)
        assert f"{read.get_attr('RTA_DST')}/{read['dst_len']}" == str(route.prefix)
        hops = read.get_attr("RTA_MULTIPATH")
        said = [(hop["oif"], hop.get_attr("RTA_GATEWAY")) for hop in hops] if hops else []
        said = said or [(read.get_attr("RTA_OIF"), read.get_attr("RTA_GATEWAY"))]
        assert said == [(indices[f"{node}-eth{port}"], far[indices[f"{node}-eth{port}"]]) for port in route.ports]
    several = any(len(route.ports) > 1 for route in table)
    assert list(found.sysctls) == (["net.ipv4.fib_multipath_hash_policy"] if several else [])


def test_hosts_of_one_subnet_know_all_others() -> None:
    """Without routes, a host has all other hosts as neighbours on its first port."""
    fabric = single(hosts=5)
    found = Neighbours(fabric).needs("h2", link_ports(fabric)[1][:1], {"h2-eth0": 7})
    assert sum(request.kind == RTM_NEWNEIGH for request in found.requests) == 4
    assert Neighbours(fabric).needs("h2", [], {}) == Needs([])


class FakeKernel:
    """Lists the routes that it is made with."""

    def __init__(self, routes: Sequence[Request]) -> None:
        self._routes = routes

    def dump(self, kind: int, _body: bytes, _what: str) -> list[bytes]:
        return [one.body for one in self._routes] if kind == 26 else []


def test_a_route_with_several_next_hops_comes_back_without_those_that_are_down() -> None:
    """What is remembered when one interface goes down is put back with the next hops that are up by then.

    Verify: a dead next hop's mark is not sent back, as the kernel refuses it.
    """
    far = [(index, IPv4Address(f"10.0.0.{index}").packed) for index in (41, 42, 43)]
    route = add_route(IPv4Network("10.0.0.0/8"), far, IPv4Address("10.1.1.1").packed, "route")
    marked = bytearray(route.body)
    marked[marked.index(b"\x04\x00\x2a\x00\x00\x00")] |= 1 | 16  # next hop 42 is dead and has no carrier
    other = add_route(IPv4Network("10.9.0.0/16"), far[:1], IPv4Address("10.1.1.1").packed, "another")
    kernel = FakeKernel([Request(RTM_NEWROUTE, bytes(marked), ""), other])
    [found] = forgotten(kernel, 42, "c")  # type: ignore[arg-type]
    assert attributes(found.again(set()).body, _ROUTE_HEADER_BYTES) == attributes(route.body, _ROUTE_HEADER_BYTES)
    hops = decoded(found.again({41, 43})).get_attr("RTA_MULTIPATH")
    assert [(hop["oif"], hop["flags"]) for hop in hops] == [(42, 4)]
    assert len(forgotten(kernel, 41, "c")) == 2  # type: ignore[arg-type]
    assert forgotten(kernel, 40, "c") == []  # type: ignore[arg-type]


def test_garbage_instead_of_next_hops_ends() -> None:
    """A next hop that claims to have no length is where reading ends."""
    assert list(_next_hops(bytes(16))) == []
    assert Forgotten(Request(RTM_NEWROUTE, b"x", "w")).again({1}).body == b"x"


def test_picked_attributes_are_those_that_all_are() -> None:
    """Stepping over attributes finds the same as reading all of them."""
    request = add_route(IPv4Network("10.0.0.0/8"), [(3, b"\n\0\0\1")], b"\n\1\1\1", "")
    every = attributes(request.body, _ROUTE_HEADER_BYTES)
    assert picked(request.body, {1, 4, 99}, _ROUTE_HEADER_BYTES) == {kind: every[kind] for kind in (1, 4)}
    assert picked(b"\0\0\0\0" * 3, {0}) == {}


def test_whom_cards_ask() -> None:
    """Every card asks the one named for it and eight others, each once and never itself; the same ones every time."""
    fabric = torus3d(4, 4, 4)
    far = antipodes(fabric)
    pairs = sample(fabric, far)
    assert pairs == sample(fabric, far)
    assert len(set(pairs)) == len(pairs) == 64 * (1 + SAMPLE)
    assert all(source != target for source, target in pairs)
    assert {("c0_0_0", "c2_2_2"), ("c3_1_0", "c1_3_2")} <= set(pairs)
    few = torus3d(2, 2, 1)
    assert len(sample(few, {})) == 4 * 3, "three others are all there are"
    assert star(["a", "b", "c"]) == [("b", "a"), ("c", "a")]
