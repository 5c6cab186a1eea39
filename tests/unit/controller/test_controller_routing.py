"""Paths: which, how evenly spread, and what happens in odd fabrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest

from controller.paths import MAX_PLANES, Paths
from emulator.errors import ControllerError
from emulator.model.fabric import FabricBuilder, LinkSpec, Role
from tests.support.controller_fabrics import LONG, SPEC, Hosts, leaf_spine


def test_equal_paths_are_used_evenly() -> None:
    """Of 8 hosts on each of 2 leaves under 4 spines, every spine carries a quarter of the pairs."""
    fabric = leaf_spine(spines=4, leaves=2, gpus=16, computes=0, routers=0, gateways=0, storage=0)
    routes = Paths(fabric)
    used = Counter(
        routes.path(a.name, b.name)[1] for a, b in permutations(fabric.hosts, 2) if len(routes.path(a.name, b.name)) > 1
    )
    assert used == {f"s{index}": 32 for index in range(4)}


def test_spines_of_two_zones_are_each_used_evenly() -> None:
    """Zones with spines of their own do not disturb each other's rotation."""
    builder = FabricBuilder("zones")
    for zone in "ab":
        for index in range(2):
            builder.add_switch(f"s{zone}{index}", zone=zone, tier=0)
        for index in range(2):
            builder.add_switch(f"l{zone}{index}", zone=zone)
        for spine in range(2):
            for leaf in range(2):
                builder.add_link(f"s{zone}{spine}", f"l{zone}{leaf}", SPEC)
    for index in range(2):
        builder.add_link(f"sa{index}", f"sb{index}", LONG)
    hosts = Hosts(builder)
    for zone in "ab":
        for index in range(8):
            hosts.add(f"{zone}{index}", Role.GPU, f"l{zone}{index % 2}", zone)
    fabric = builder.build()
    routes = Paths(fabric)
    within: Counter[str] = Counter()
    between: Counter[str] = Counter()
    for a, b in permutations(fabric.hosts, 2):
        path = routes.path(a.name, b.name)
        if a.zone == b.zone and len(path) == 3:
            within[path[1]] += 1
        elif a.zone != b.zone:
            assert len(path) == 4
            between[path[1]] += 1
    assert len(set(within.values())) == 1
    assert len(set(between.values())) == 1


def test_parallel_links_are_all_used() -> None:
    """Two links between the same switches share the pairs."""
    builder = FabricBuilder("parallel")
    builder.add_switch("s0")
    builder.add_switch("s1")
    for _ in range(2):
        builder.add_link("s0", "s1", SPEC)
    hosts = Hosts(builder)
    for index in range(4):
        hosts.add(f"a{index}", Role.HOST, "s0")
        hosts.add(f"b{index}", Role.HOST, "s1")
    routes = Paths(builder.build())
    used = {routes.port_to("s0", f"b{b}", routes.plane(f"a{a}", f"b{b}")) for a in range(4) for b in range(4)}
    assert (routes.planes, used) == (2, {1, 2})


@pytest.mark.parametrize(
    "slower", [replace(SPEC, delay_ns=1_001), replace(SPEC, rate_bps=50_000_000_000)], ids=["delay", "rate"]
)
def test_the_faster_of_two_ways_wins(slower: LinkSpec) -> None:
    """With as many links, the way with less latency for a full-size frame is the only one used."""
    builder = FabricBuilder("diamond")
    for name in ("a", "b", "c", "d"):
        builder.add_switch(name)
    builder.add_link("a", "b", slower)
    builder.add_link("b", "d", SPEC)
    builder.add_link("a", "c", SPEC)
    builder.add_link("c", "d", SPEC)
    hosts = Hosts(builder)
    for index in range(4):
        hosts.add(f"h{index}", Role.HOST, "a")
        hosts.add(f"k{index}", Role.HOST, "d")
    routes = Paths(builder.build())
    assert routes.planes == 1
    assert {tuple(routes.path(f"h{a}", f"k{b}")) for a in range(4) for b in range(4)} == {("a", "c", "d")}


def test_fewer_links_win_over_less_latency() -> None:
    """A direct link is taken even if a detour would be faster."""
    builder = FabricBuilder("triangle")
    for name in ("a", "b", "c"):
        builder.add_switch(name)
    builder.add_link("a", "b", LONG)
    builder.add_link("a", "c", SPEC)
    builder.add_link("c", "b", SPEC)
    hosts = Hosts(builder)
    hosts.add("h", Role.HOST, "a")
    hosts.add("k", Role.HOST, "b")
    assert Paths(builder.build()).path("h", "k") == ["a", "b"]


def test_the_number_of_planes_is_bounded() -> None:
    """24 spines are more than the planes that rules are written for."""
    fabric = leaf_spine(spines=24, leaves=2, gpus=2, computes=0, routers=0, gateways=0, storage=0)
    assert Paths(fabric).planes == MAX_PLANES


def test_a_host_is_attached_where_its_address_is() -> None:
    """The first interface counts, also when a later link was declared first."""
    builder = FabricBuilder("multi-homed")
    builder.add_switch("s0")
    builder.add_switch("s1")
    builder.add_link("s0", "s1", SPEC)
    builder.add_host("h", "10.0.0.1/8")
    builder.add_link("s1", "h", SPEC)
    builder.add_link("s0", "h", SPEC)
    routes = Paths(builder.build())
    assert (routes.attachments["h"].switch, routes.attachments["h"].port) == ("s1", 2)


def test_hosts_do_not_forward_for_the_routes() -> None:
    """Two switches that only a host joins do not reach each other, and saying so names both ends."""
    builder = FabricBuilder("inline")
    for name in ("s0", "s1"):
        builder.add_switch(name)
    builder.add_host("a", "10.0.0.1/8")
    builder.add_host("m", "10.0.0.2/8")
    builder.add_host("b", "10.0.0.3/8")
    for host, switch in (("a", "s0"), ("m", "s0"), ("m", "s1"), ("b", "s1")):
        builder.add_link(host, switch, SPEC)
    routes = Paths(builder.build())
    assert routes.reaches("a", "m")
    assert not routes.reaches("a", "b")
    with pytest.raises(ControllerError, match="no path over switches from a to b"):
        routes.path("a", "b")


def test_hosts_without_a_switch() -> None:
    """Two hosts joined by a cable: there is nothing to route and nothing fails."""
    builder = FabricBuilder("cable")
    builder.add_host("a", "10.0.0.1/8")
    builder.add_host("b", "10.0.0.2/8")
    builder.add_link("a", "b", SPEC)
    routes = Paths(builder.build())
    assert (routes.attachments, routes.planes, routes.reaches("a", "b")) == ({}, 1, False)
