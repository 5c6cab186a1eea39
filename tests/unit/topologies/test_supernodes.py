"""Supernode topologies: their parts, addresses and routes, and that nonsense is refused by name."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from emulator.errors import TopologyError
from emulator.model.codec import fabric_from_json, fabric_to_json
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec, Role
from emulator.model.routing import Route, Routing
from topologies import FABRICS, cascade, dragonfly, dual_plane, fat_tree, routing_of, torus3d, tree
from topologies.commands import ip_lines
from topologies.dragonfly import palm_tree
from topologies.graph_figures import uniform_loads
from topologies.lattice import Lattice
from topologies.torus import card_name
from topologies.words import fabric_from_words

SUPERNODES = ("cascade", "dragonfly", "dual_plane", "fat_tree", "torus3d", "tree")


def routes(fabric: Fabric) -> Routing:
    routing = routing_of(fabric)
    assert routing is not None
    return routing


def test_links_are_those_of_the_documents() -> None:
    """160 GB/s each direction, 0.8 us, MTU 9000, unless asked otherwise."""
    for name in SUPERNODES:
        spec = FABRICS[name]().links[0].spec
        assert (spec.rate_bps, spec.delay_ns, spec.mtu_bytes) == (1_280_000_000_000, 800, 9000), name


@pytest.mark.parametrize(
    ("shape", "links", "degree"),
    [
        ((8, 8, 8), 1536, 6),
        ((4, 4, 1), 32, 4),
        ((2, 2, 2), 12, 3),
        ((2, 3, 4), 12 + 24 + 24, 5),
        ((2, 1, 1), 1, 1),
        ((3, 1, 1), 3, 2),
    ],
)
def test_torus_has_its_links(shape: tuple[int, int, int], links: int, degree: int) -> None:
    """Three links a card, one for a dimension of two cards, none for one of a single card; all cards alike."""
    fabric = torus3d(*shape)
    assert len(fabric.links) == links
    assert {len(fabric.links_of(card.name)) for card in fabric.ends} == {degree}
    assert len({frozenset((link.a, link.b)) for link in fabric.links}) == len(fabric.links)


def test_torus_ports_tell_the_direction() -> None:
    """Ports 0 to 5 are up and down in x, y and z, on every card; the far end is the opposite one."""
    shape = (3, 4, 5)
    routing = routes(torus3d(*shape))
    for dimension in range(3):
        for sign, port in ((1, 2 * dimension), (-1, 2 * dimension + 1)):
            there = [0, 0, 0]
            there[dimension] = sign % shape[dimension]
            far = routing.far_ends("c0_0_0")[port]
            assert far.node == card_name(tuple(there))
            back = {routing.far_ends(far.node)[other].node: other for other in range(6)}
            assert back["c0_0_0"] == port ^ 1


def test_torus_addresses_tell_the_place() -> None:
    """10.x.y.z, counted from one, alone in their subnets."""
    fabric = torus3d(4, 3, 2)
    assert str(fabric.by_name["c0_0_0"].ip) == "10.1.1.1/32"
    assert str(fabric.by_name["c3_2_1"].ip) == "10.4.3.2/32"


def test_twist_shifts_the_long_dimension() -> None:
    """In 4x4x8 with a twist of 4, closing x or y leads four cards along in z; the z rings are whole."""
    lattice = Lattice((4, 4, 8), 4)
    fabric = torus3d(4, 4, 8, twist=4)
    pairs = {frozenset((link.a, link.b)) for link in fabric.links}
    assert len(pairs) == len(fabric.links) == 384
    assert frozenset(("c3_0_0", "c0_0_4")) in pairs
    assert frozenset(("c0_3_5", "c0_0_1")) in pairs
    assert frozenset(("c0_0_7", "c0_0_0")) in pairs
    assert frozenset(("c3_0_0", "c0_0_0")) not in pairs
    assert (lattice.diameter, round(lattice.mean_hops, 3)) == (6, 3.465)


@pytest.mark.parametrize(
    ("shape", "twist", "reason"),
    [
        ((4, 4, 4), 2, "two different sizes"),
        ((1, 4, 4), 2, "above 1"),
        ((2, 4, 8), 2, "two different"),
        ((4, 4, 8), 8, "0 to 7"),
    ],
)
def test_impossible_twists(shape: tuple[int, int, int], twist: int, reason: str) -> None:
    """Only tori with a short and a long size can be twisted, by less than the long one."""
    with pytest.raises(TopologyError, match=reason) as caught:
        torus3d(*shape, twist=twist)
    assert caught.value.key == "twist"


def everywhere(fabric: Fabric) -> list[int]:
    """Hops between all pairs of different cards; arriving is checked by `path`."""
    routing, cards = routes(fabric), [card.name for card in fabric.ends]
    return [len(routing.path(a, b)) for a in cards for b in cards if a != b]


@pytest.mark.parametrize(
    ("shape", "twist"), [((4, 4, 4), 0), ((2, 3, 5), 0), ((1, 6, 1), 0), ((2, 2, 4), 2), ((4, 8, 1), 4), ((3, 3, 6), 3)]
)
@pytest.mark.parametrize("policy", ["dimension-order", "adaptive"])
def test_torus_routes_are_shortest(shape: tuple[int, int, int], twist: int, policy: str) -> None:
    """Whatever equal next hop is taken, every card reaches every other over as many links as they are apart."""
    fabric, lattice = torus3d(*shape, twist=twist, routing=policy), Lattice(shape, twist)
    routing = routes(fabric)
    for source in lattice.places():
        for target in lattice.places():
            if source == target:
                continue
            shares = routing.shares(card_name(source), card_name(target))
            assert sum(shares.values()) == pytest.approx(lattice.distance(source, target))


def test_dimension_order_corrects_one_coordinate_after_the_other() -> None:
    """x first, then y, then z."""
    fabric = torus3d(4, 4, 4)
    routing = routes(fabric)
    here, changed = "c0_0_0", []
    for passage in routing.path("c0_0_0", "c1_3_2"):
        link = fabric.links[passage.link]
        there = link.b if link.a == here else link.a
        changed.append(
            next(n for n, (a, b) in enumerate(zip(here.split("_"), there.split("_"), strict=True)) if a != b)
        )
        here = there
    assert changed == [0, 1, 2, 2]


def test_rings_are_loaded_evenly() -> None:
    """Halfway around a ring there are two ways; dimension order splits them so that all links carry the same."""
    assert set(uniform_loads(routes(torus3d(4, 4, 4))).values()) == {32.0}
    assert set(uniform_loads(routes(torus3d(1, 8, 4))).values()) == {16.0, 32.0}


@pytest.mark.parametrize(("shape", "most"), [((8, 8, 8), 9), ((16, 16, 16), 12), ((8, 8, 4), 8)])
def test_straight_tori_need_few_prefixes(shape: tuple[int, int, int], most: int) -> None:
    """A dozen routes a card; one for each coordinate would be the sum of the sizes."""
    fabric = torus3d(*shape)
    routing = routes(fabric)
    assert max(len(routing.routes(card.name)) for card in fabric.nodes[:: max(1, len(fabric.nodes) // 100)]) == most


def test_ten_thousand_cards_have_their_tables() -> None:
    """All tables of 10 648 cards, and the links of every card: possible within a test because nothing is searched."""
    fabric = torus3d(22, 22, 22)
    routing = routes(fabric)
    installed = sum(len(routing.routes(card.name)) + len(fabric.links_of(card.name)) for card in fabric.ends)
    assert (len(fabric.nodes), len(fabric.links)) == (10_648, 31_944)
    assert installed == 133_584 + 6 * 10_648


@pytest.mark.parametrize(
    ("fabric", "most"),
    [
        (tree("2x3x4"), 6),
        (tree("4x4", "2"), 4),
        (tree("6"), 2),
        (tree("2x3x2", routing="static"), 6),
        (fat_tree(4), 6),
        (fat_tree(4, routing="static"), 6),
        (dual_plane(3, 4, 2), 4),
        (dual_plane(4, 2, routing="static"), 4),
        (dragonfly(4, 2, 2), 5),
        (dragonfly(1, 2, 3), 3),
        (cascade(3, shape="3x4"), 2 + 2 + 3),
        (cascade(2, shape="4x4", uplinks=8), 1 + 2 + 4),
        (cascade(2, "tree", "2x3"), 6),
    ],
    ids=lambda value: value.name if isinstance(value, Fabric) else "",
)
def test_all_cards_reach_each_other(fabric: Fabric, most: int) -> None:
    """Every card reaches every other, over no more links than the topology allows."""
    assert max(everywhere(fabric)) == most


def test_tables_survive_the_journey_of_the_fabric() -> None:
    """Routes are made from the fabric alone, also after it travelled as JSON to another process."""
    for name in SUPERNODES:
        fabric = FABRICS[name]()
        again = fabric_from_json(fabric_to_json(fabric))
        for node in fabric.nodes[::7]:
            assert routes(again).routes(node.name) == routes(fabric).routes(node.name)


def test_only_supernodes_need_tables() -> None:
    """Where Open vSwitch forwards, or hosts are neighbours, there is nothing to install."""
    assert routing_of(FABRICS["icgw"]()) is None
    assert routing_of(tree("2x2", switching="openflow")) is None
    assert len(tree("2x2", switching="openflow").switches) == 3
    assert {card.ip.network.prefixlen for card in fat_tree(4, switching="openflow").ends if card.ip} == {8}


def test_trunks_follow_the_oversubscription() -> None:
    """Eight cards at 2:1 leave four links; eight switches with four each at 4:1 leave eight."""
    fabric = tree("2x8x8", "2x4")
    ends = [frozenset((link.a, link.b)) for link in fabric.links]
    assert ends.count(frozenset(("t0_0", "t0"))) == 4
    assert ends.count(frozenset(("t0", "t"))) == 8
    assert ends.count(frozenset(("c0_0_0", "t0_0"))) == 1


def test_static_routes_keep_permutations_apart() -> None:
    """All cards send to the card half the tree away at once: with destinations dealt out, no link carries two flows."""
    for fabric in (tree("4x4x4", routing="static"), fat_tree(4, routing="static"), fat_tree(6, routing="static")):
        routing, cards = routes(fabric), [card.name for card in fabric.ends]
        used = [
            passage
            for number, card in enumerate(cards)
            for passage in routing.path(card, cards[(number + len(cards) // 2) % len(cards)])
        ]
        assert len(set(used)) == len(used), fabric.parameters


def test_planes_are_independent() -> None:
    """A card's three addresses: both planes, the first only, the second only; no link joins the planes."""
    fabric = dual_plane(3, 2, 2)
    routing = routes(fabric)
    assert [str(one) for one in routing.addresses("c1_0")] == ["10.1.1.2", "10.2.1.2", "10.3.1.2"]
    for plane, address in enumerate(routing.addresses("c2_1")[1:]):
        crossed = {
            name
            for passage in routing.shares("c0_0", "c2_1", address)
            for name in (fabric.links[passage.link].a, fabric.links[passage.link].b)
            if not name.startswith("c")
        }
        assert {name[1] for name in crossed} == {str(plane)}
    both = routing.shares("c0_0", "c2_1")
    assert sum(both.values()) == pytest.approx(4)
    assert max(both.values()) == pytest.approx(0.5)
    for link in fabric.links:
        assert link.a.startswith("c") or link.a[1] == link.b[1]


def test_rails_are_one_switch_apart() -> None:
    """Cards of the same rail meet at their leaf."""
    routing = routes(dual_plane(4, 3))
    assert len(routing.path("c0_2", "c3_2")) == 2
    assert len(routing.path("c0_2", "c3_1")) == 4


@pytest.mark.parametrize(("a", "p", "h"), [(4, 2, 2), (3, 1, 2), (2, 2, 3), (1, 1, 4)])
def test_dragonfly_joins_every_two_groups_once(a: int, p: int, h: int) -> None:
    """Every pair of groups has one link, every router h of them and a link to each of its group."""
    fabric = dragonfly(a, p, h)
    between = [
        frozenset((link.a[1:].split("_")[0], link.b[1:].split("_")[0]))
        for link in fabric.links
        if not link.a.startswith("c") and link.a.split("_")[0] != link.b.split("_")[0]
    ]
    groups = a * h + 1
    assert len(between) == len(set(between)) == groups * (groups - 1) // 2
    for router in fabric.with_role(Role.FORWARDER):
        assert len(fabric.links_of(router.name)) == p + (a - 1) + h
    for number in range(a * h):
        assert palm_tree(*palm_tree(0, number, groups), groups) == (0, number)


def test_cascade_leaves_through_its_own_block() -> None:
    """Cards of a line share the uplink at its start, and arrive at the same place of the other supernode."""
    fabric = cascade(2, shape="4x4")
    path = [fabric.links[passage.link] for passage in routes(fabric).path("c0_1_2", "c1_3_3")]
    layer = [link for link in path if "i" in (link.a[0], link.b[0])]
    assert [(link.a, link.b) for link in layer] == [("c0_1_0", "i1"), ("c1_1_0", "i1")]
    assert {link.spec.rate_bps for link in layer} == {400 * 10**9}


def test_commands_are_complete() -> None:
    """What ``ip -batch`` needs: every interface up, a route for each prefix, by the neighbour's address."""
    routing = routes(torus3d(2, 1, 3))
    assert ip_lines(routing, "c0_0_0") == [
        "link set c0_0_0-eth0 up",
        "link set c0_0_0-eth1 up",
        "link set c0_0_0-eth2 up",
        "route add 10.0.0.0/8 src 10.1.1.1 nexthop via 10.2.1.1 dev c0_0_0-eth0 onlink",
        "route add 10.1.1.0/24 src 10.1.1.1 nexthop via 10.1.1.2 dev c0_0_0-eth1 onlink",
        "route add 10.1.1.3/32 src 10.1.1.1 nexthop via 10.1.1.3 dev c0_0_0-eth2 onlink",
    ]
    assert ip_lines(routes(dual_plane(2, 1, 1)), "c0_0")[:2] == [
        "address add 10.2.1.1/32 dev lo",
        "address add 10.3.1.1/32 dev lo",
    ]


def test_unknown_places_are_told_in_one_line() -> None:
    """Asking for a node that is not there, or for an address that nobody routes, is a TopologyError."""
    routing = routes(tree("2x2"))
    with pytest.raises(TopologyError, match="no node 'c9'"):
        routing.routes("c9")
    with pytest.raises(TopologyError, match=r"has no route to 192\.0\.2\.1"):
        routing.path("c0_0", "c1_1", IPv4Address("192.0.2.1"))


def test_routes_that_circle_are_found() -> None:
    """A table that sends packets back is an error, not an endless loop."""
    builder = FabricBuilder("line")
    spec = LinkSpec(10**9, 0)
    for number, name in enumerate("abc", start=1):
        builder.add_host(name, f"10.0.0.{number}/32")
    builder.add_link("a", "b", spec)
    builder.add_link("b", "c", spec)
    fabric = builder.build()
    back = Routing(fabric, "wrong", lambda _node: [Route(IPv4Network("0.0.0.0/0"), (0,))])
    for ask in (back.path, back.shares):
        with pytest.raises(TopologyError, match="go in circles"):
            ask("a", "c")


@pytest.mark.parametrize(
    ("function", "parameters", "key"),
    [
        (torus3d, {"x": 0}, "x"),
        (torus3d, {"x": 1, "y": 1, "z": 1}, "x"),
        (torus3d, {"y": 65}, "y"),
        (torus3d, {"routing": "up"}, "routing"),
        (torus3d, {"twist": -1}, "twist"),
        (torus3d, {"rate_bps": 0}, "rate"),
        (tree, {"fanouts": "8x"}, "fanouts"),
        (tree, {"fanouts": "8x0"}, "fanouts"),
        (tree, {"fanouts": 8.5}, "fanouts"),
        (tree, {"fanouts": "512x512"}, "fanouts"),
        (tree, {"oversubscription": "3"}, "oversubscription"),
        (tree, {"oversubscription": "0.5"}, "oversubscription"),
        (tree, {"oversubscription": "1x1x2"}, "oversubscription"),
        (tree, {"oversubscription": "2x-1"}, "oversubscription"),
        (tree, {"switching": "magic"}, "switching"),
        (fat_tree, {"k": 5}, "k"),
        (fat_tree, {"routing": "adaptive"}, "routing"),
        (dual_plane, {"nodes": 1}, "nodes"),
        (dual_plane, {"spines": 0}, "spines"),
        (dragonfly, {"a": 64, "p": 64, "h": 64}, "a"),
        (cascade, {"inside": "ring"}, "inside"),
        (cascade, {"shape": "1x1"}, "shape"),
        (cascade, {"inside": "tree", "shape": "1"}, "shape"),
        (cascade, {"shape": "4x4", "uplinks": 3}, "uplinks"),
        (cascade, {"shape": "4x6", "uplinks": 3}, "uplinks"),
        (cascade, {"uplink_rate_bps": -1}, "rate"),
        (cascade, {"uplink_delay_ns": -1}, "uplink_delay_ns"),
        (cascade, {"supernodes": 64, "shape": "8x8x16"}, "shape"),
    ],
)
def test_nonsense_is_refused_by_name(function: Any, parameters: dict[str, Any], key: str) -> None:
    """An impossible parameter is a TopologyError that names it, in one line."""
    with pytest.raises(TopologyError) as caught:
        function(**parameters)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


def test_words_of_the_command_line() -> None:
    """Sizes that look like numbers, as Mininet hands them over, are sizes."""
    assert fabric_from_words("torus3d", [4, 4, 4], {}) == torus3d(4, 4, 4)
    assert fabric_from_words("tree", [], {"fanouts": 16, "oversubscription": 1}) == tree("16")
    assert fabric_from_words("cascade", [2], {"shape": 4, "uplink_rate": "100Gbit/s"}) == cascade(
        2, shape="4", uplink_rate_bps=100 * 10**9
    )
