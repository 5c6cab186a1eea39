"""Tests of routed fabrics that run inside a virtual-time kernel; `tests/system/test_supernode_virtual.py` boots it."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from network_guest import bulk, nothing_is_left

from emulator.errors import NodeError
from emulator.model import theory
from emulator.model.fabric import Fabric
from emulator.model.routing import Routing
from emulator.network import Network, build
from emulator.network.host import EmulatedHost
from emulator.network.namespace import processes_in, read_sysctl
from topologies import antipodes, cascade, dragonfly, dual_plane, fat_tree, routing_of, torus3d, tree

__all__ = ["nothing_is_left"]

PORT = 7000
_IP_TTL = 2


def routed(fabric: Fabric) -> tuple[Routing, Network]:
    """A fabric's routes, and the network that has them."""
    routing = routing_of(fabric)
    assert routing is not None
    return routing, build(fabric, routing=routing)


def sent(network: Network) -> dict[str, int]:
    """Packets that left each interface so far."""
    return {name: one.tx_packets for name, one in network.counters().items()}


def crossed(network: Network, before: dict[str, int]) -> dict[str, int]:
    """Interfaces that packets left since then, and how many."""
    return {name: count - before[name] for name, count in sent(network).items() if count != before[name]}


def datagram(source: EmulatedHost, target: EmulatedHost, ip: str, ttl: int = 64, port: int = 0) -> int:
    """Send one datagram; return the time to live with which it arrives, which says how many nodes forwarded it."""
    with target.namespace():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with source.namespace():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL
        receiver.settimeout(1)
        receiver.bind((ip, PORT))
        sender.bind(("", port))
        sender.setsockopt(socket.IPPROTO_IP, _IP_TTL, ttl)
        sender.sendto(b"here", (ip, PORT))
        _, [(_, _, left)], _, (came_from, _) = receiver.recvmsg(100, 100)
        assert came_from == source.ip, "the preferred source is the node's first address"
        return ttl - int.from_bytes(left, sys.byteorder)


EXACT = {
    "torus 2x2x2": lambda: torus3d(2, 2, 2),
    "torus 3x3x2": lambda: torus3d(3, 3, 2),
    "ring of 5": lambda: torus3d(5, 1, 1),
    "twisted 2x2x4": lambda: torus3d(2, 2, 4, twist=2),
    "tree": lambda: tree("2x3", oversubscription="3"),
    "tree, static": lambda: tree("2x2x2", routing="static"),
    "fat tree, static": lambda: fat_tree(4, routing="static"),
    "dual plane of one rail": lambda: dual_plane(3, 1, routing="static"),
    "cascade": lambda: cascade(shape="2x2"),
}


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_packets_go_where_the_routes_say(make: Callable[[], Fabric]) -> None:
    """Between any two cards, a packet crosses exactly the links of `Routing.path`, where that is the only way.

    Steps: one datagram for each pair of cards.
    Verify: the time to live that is left counts the hops; over all pairs, each interface has sent as many packets as
    paths cross it, and nothing else was on any line.
    """
    fabric = make()
    routing, network = routed(fabric)
    expected: dict[str, int] = {}
    with network:
        before = sent(network)
        for source, target in permutations([node.name for node in fabric.ends], 2):
            address = routing.addresses(target)[-1]
            path = routing.path(source, target, address)
            for passage in path:
                link = fabric.links[passage.link]
                name = link.a_interface if passage.forward else link.b_interface
                expected[name] = expected.get(name, 0) + 1
            hops = datagram(network.host(source), network.host(target), str(address))
            assert hops == len(path) - 1, (source, target)
        assert crossed(network, before) == expected


SPREAD = {
    "torus 2x2x3, adaptive": lambda: torus3d(2, 2, 3, routing="adaptive"),
    "fat tree": lambda: fat_tree(4),
    "dual plane": lambda: dual_plane(2, 2),
    "dragonfly": lambda: dragonfly(2, 1, 1),
    "cascade of trees": lambda: cascade(inside="tree", shape="2x2"),
}


@pytest.mark.parametrize("make", SPREAD.values(), ids=SPREAD)
def test_flows_are_spread_over_equal_paths_and_nothing_else(make: Callable[[], Fabric]) -> None:
    """With equal next hops, flows use all of the shortest ways that `Routing.shares` names, each as long as it says.

    Steps: 24 flows of one datagram between each card and its antipode, from different ports.
    Verify: every interface with a share of the pair was used by some flow, none without; hops are those of the path.
    """
    fabric = make()
    routing, network = routed(fabric)
    with network:
        for source, target in list(antipodes(fabric).items())[:3]:
            if source == target:
                continue
            expected = set()
            for passage in routing.shares(source, target):
                link = fabric.links[passage.link]
                expected.add(link.a_interface if passage.forward else link.b_interface)
            before = sent(network)
            ends = network.host(source), network.host(target)
            for port in range(20_000, 20_024):
                assert datagram(*ends, ends[1].ip, port=port) == len(routing.path(source, target)) - 1
            found = crossed(network, before)
            assert set(found) <= expected
            if len(expected) > len(routing.path(source, target)):
                assert len(found) > len(routing.path(source, target)), "more than one way was used"


def test_planes_are_chosen_by_address() -> None:
    """In a dual plane a card has an address for each plane, and packets to it stay in that plane both ways."""
    fabric = dual_plane(2, 2)
    routing, network = routed(fabric)
    with network:
        for plane, address in enumerate(routing.addresses("c1_1")[1:]):
            before = sent(network)
            datagram(network.host("c0_0"), network.host("c1_1"), str(address))
            names = set(crossed(network, before))
            assert names == {f"c0_0-eth{plane}", *(name for name in names if name[1] == str(plane))}
            assert len(names) == 4


def test_tcp_between_cards_has_the_line() -> None:
    """Real TCP between opposite corners of 4x4x4, six hops, gets what headers leave of 160 GB/s."""
    fabric = torus3d(4, 4, 4)
    _, network = routed(fabric)
    with network:
        for host in network.hosts:
            assert host.interfaces == tuple(f"{host.name}-eth{number}" for number in range(6)), "by port number"
        report = bulk(network, "c0_0_0", "c2_2_2", "400M")
    assert report["sum_sent"]["retransmits"] == 0
    assert report["sum_received"]["bits_per_second"] >= 0.97 * theory.tcp_goodput_bps(fabric.links[0].spec)


def test_sampled_pairs_and_a_failure() -> None:
    """Every card asks its antipode and eight others; a link without which one is not reached is found."""
    fabric = torus3d(3, 3, 3)
    _, network = routed(fabric)
    with network:
        before = sent(network)
        network.verify(far=antipodes(fabric))
        asked = crossed(network, before)
        # Questions and answers, each over as many links as the way has: 27 cards ask nine each.
        assert sum(asked.values()) >= 2 * 27 * 9
        network.check()
        network.silence("c0_0_0-c1_0_0")
        with pytest.raises(NodeError, match=r"^c\d_\d_\d does not reach c\d_\d_\d within 0\.5 s"):
            network.verify(timeout_s=0.5, far=antipodes(fabric))


def test_verification_survives_losses_and_full_queues() -> None:
    """An echo that a line loses, or a queue of one packet drops, is asked for again: that is no fault."""
    for fabric in (torus3d(4, 2, 1, loss_ppm=50_000), torus3d(3, 3, 3, queue_packets=1, rate_bps=10**8)):
        _, network = routed(fabric)
        with network:
            network.verify(far=antipodes(fabric))
            counters = network.counters()
            with network.queue_reader() as reader:
                assert sum(one.dropped for one in reader.read()) > 0
            assert min(one.tx_packets for one in counters.values()) > 0


def test_cut_links_give_routes_back() -> None:
    """Cutting and restoring several links of one card, in any order, leaves its routes and neighbours as they were.

    Verify: with equal next hops as well, whose routes live on as long as one is left.
    """
    for fabric in (torus3d(3, 3, 1), torus3d(2, 2, 2, routing="adaptive"), tree("2x2", routing="ecmp")):
        _, network = routed(fabric)
        with network:
            name = "t0" if fabric.name == "tree" else fabric.ends[-1].name
            host = network.host(name)

            def known(host: EmulatedHost = host) -> list[str]:
                routes = json.loads(host.run(["ip", "-json", "route"]).stdout)
                neighbours = json.loads(host.run(["ip", "-json", "neigh", "show", "nud", "permanent"]).stdout)
                for one in [part for route in routes for part in (route, *route.get("nexthops", ()))]:
                    one["flags"] = [flag for flag in one.get("flags", ()) if flag == "onlink"]
                return sorted(json.dumps(one, sort_keys=True) for one in [*routes, *neighbours])

            before = known()
            links = [link.name for link in fabric.links_of(name)]
            for order in (links, links[::-1]):
                for link in links:
                    network.cut(link)
                for link in order:
                    network.restore(link)
                assert known() == before
            network.verify(far=antipodes(fabric))


def test_cards_are_mininet_hosts() -> None:
    """``net.get('c0_0_0').cmd(…)``, the command line and pings work on cards; no shell before the first command.

    Verify: switches that route are shown as switches, have a shell of their own on demand, and are not pinged.
    """
    fabric = tree("2x2")
    _, network = routed(fabric)
    with network:
        net = network.mininet
        assert not processes_in({host.network_namespace.inode: host.name for host in network.hosts})
        assert [host.name for host in net.hosts] == [node.name for node in fabric.ends]
        assert "1 received" in net.get("c0_0").cmd(f"ping -c 1 {net.get('c1_1').IP()}")
        assert net.pingAll() == 0.0
        assert "onlink" in net.get("t0").cmd("ip route")
        script = Path(tempfile.gettempdir()) / "cli-words"
        script.write_text("nodes\nnet\nlinks\ndump\ndpctl show\nc0_1 ping -c 1 c1_0\nlink t t1 down\nlink t t1 up\n")
        with Path(os.devnull).open() as nothing:
            net.command_line(script=str(script), stdin=nothing)
        script.unlink()
        network.verify()  # asks until the kernel uses the link again, up to a second late


def test_every_node_has_the_settings() -> None:
    """Cards and switches forward, spread flows where there are several ways, and send no packet of their own.

    Verify: what namespaces inherit while a network is built is not left to the first one.
    """
    fabric = dual_plane(2, 1)
    routing, network = routed(fabric)
    watched = ("net.ipv4.ip_forward", "net.ipv4.conf.all.send_redirects", "net.ipv4.conf.default.rp_filter")
    before = [read_sysctl(key, "here") for key in watched]
    with network:
        assert [read_sysctl(key, "here") for key in watched] == before == ["0", "1", "0"]
        for host in network.hosts:
            several = any(len(route.ports) > 1 for route in routing.routes(host.name))
            assert several == host.name.startswith("c")
            with host.namespace():
                found = [read_sysctl(key, host.name) for key in (*watched, "net.ipv4.fib_multipath_hash_policy")]
            assert found == ["1", "0", "0", str(int(several))]
        assert set(sent(network).values()) == {0}
