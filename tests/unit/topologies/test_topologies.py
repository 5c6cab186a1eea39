"""Fabrics from parameters: what is in them, that they are the same every time, and that nonsense is refused by name."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import TopologyError
from emulator.model.fabric import MAX_RATE_BPS, Aqm, Role
from topologies import FABRICS, chain, dumbbell, icgw, single
from topologies.mininet_topo import FabricTopo
from topologies.words import asks_for_shaping, fabric_from_words

GBIT = 10**9


@pytest.mark.parametrize(("hops", "switches"), [(1, 0), (2, 1), (3, 2), (64, 63)])
def test_chain_has_as_many_links_as_hops(hops: int, switches: int) -> None:
    """A chain of one hop joins the hosts directly; each further hop adds a switch."""
    fabric = chain(hops=hops)
    assert len(fabric.links) == hops
    assert len(fabric.switches) == switches
    assert fabric.links[0].a == "h0"
    assert fabric.links[-1].b == "h1"
    assert len({link.spec for link in fabric.links}) == 1


def test_dumbbell_marks_only_at_the_bottleneck() -> None:
    """Marking, loss and the stated queue belong to the one link between the switches."""
    fabric = dumbbell(pairs=3, aqm="ecn-threshold", ecn_threshold_packets=20, queue_packets=250, loss_ppm=7)
    bottleneck, *edges = fabric.links
    assert {bottleneck.a, bottleneck.b} == {"s1", "s2"}
    assert (bottleneck.spec.aqm, bottleneck.spec.ecn_threshold_packets) == (Aqm.ECN_THRESHOLD, 20)
    assert (bottleneck.spec.queue_packets, bottleneck.spec.loss_ppm) == (250, 7)
    assert {(one.spec.aqm, one.spec.loss_ppm, one.spec.queue_packets) for one in edges} == {(Aqm.DROP_TAIL, 0, None)}
    assert len(edges) == 6


@pytest.mark.parametrize(("rate", "edge"), [(100 * GBIT, 400 * GBIT), (1280 * GBIT, MAX_RATE_BPS)])
def test_edges_are_four_times_faster_as_far_as_links_go(rate: int, edge: int) -> None:
    """The default edge rate is four times the bottleneck's, but never beyond the fastest link."""
    assert dumbbell(rate_bps=rate).links[1].spec.rate_bps == edge


def test_reference_fabric_has_its_roles_and_zones() -> None:
    """Every role is there; storage alternates between the zones; zones are joined spine to spine by the long links."""
    fabric = icgw(gpus=5, compute=3, gateways=2, storage=4, spines=3, zone_delay_ns=99_000)
    assert [len(fabric.with_role(role)) for role in Role] == [10, 5, 3, 1, 2, 4, 0, 0]
    assert [node.zone for node in fabric.with_role(Role.STORAGE)] == ["a", "b", "a", "b"]
    far = [link for link in fabric.links if fabric.by_name[link.a].zone != fabric.by_name[link.b].zone]
    assert [(link.a, link.b, link.spec.delay_ns) for link in far] == [(f"spa{n}", f"spb{n}", 99_000) for n in (1, 2, 3)]
    home = {link.a: link.b for link in fabric.links if not fabric.by_name[link.a].is_switch}
    assert {home["g1"], home["g5"]} == {"la1"}
    assert {home["c1"], home["gw1"], home["r1"]} == {"la2"}
    assert (home["s1"], home["s2"]) == ("la3", "lb1")


def test_one_storage_node_needs_no_second_zone() -> None:
    """Without storage in zone b there is no zone b: no switch without a host behind it."""
    fabric = icgw(storage=1)
    assert {node.zone for node in fabric.nodes} == {"a"}


def test_reference_addresses_tell_zone_and_role() -> None:
    """Addresses are 10.zone.role.number, all in one subnet."""
    fabric = icgw()
    assert str(fabric.by_name["g2"].ip) == "10.1.1.2/8"
    assert str(fabric.by_name["s2"].ip) == "10.2.4.2/8"
    assert len({host.ip.network for host in fabric.hosts if host.ip}) == 1


@pytest.mark.parametrize("name", FABRICS)
def test_fabrics_are_the_same_every_time(name: str) -> None:
    """Calling twice gives equal fabrics, and the defaults are those of the signature."""
    assert FABRICS[name]() == FABRICS[name]()
    assert FABRICS[name]().name == name


def test_fabrics_do_not_depend_on_hash_seed(repository: Path) -> None:
    """Names, ports, addresses and datapath ids are the same whatever order sets have."""
    program = "import topologies; print([(f().nodes, f().links) for f in topologies.FABRICS.values()])"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            cwd=repository,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("function", "parameters", "key"),
    [
        (chain, {"hops": 0}, "hops"),
        (chain, {"hops": 2.5}, "hops"),
        (chain, {"hops": True}, "hops"),
        (chain, {"rate_bps": 0}, "rate"),
        (chain, {"rate_bps": 2_000 * GBIT}, "rate"),
        (chain, {"rate_bps": "100 Gbit/s"}, "rate_bps"),
        (chain, {"delay_ns": -1}, "delay"),
        (chain, {"mtu_bytes": 100}, "mtu"),
        (chain, {"loss_ppm": 1_000_001}, "loss"),
        (chain, {"queue_bdp": 0}, "queue"),
        (chain, {"queue_bdp": "1"}, "queue_bdp"),
        (chain, {"queue_packets": 0}, "queue"),
        (chain, {"true_packets": 1}, "true_packets"),
        (chain, {"storage_share": 1.0}, "storage_share"),
        (single, {"storage_share": 0}, "storage_share"),
        (icgw, {"storage_share": float("nan")}, "storage_share"),
        (dumbbell, {"storage_share": "30 %"}, "storage_share"),
        (dumbbell, {"storage_share": True}, "storage_share"),
        (dumbbell, {"pairs": 251}, "pairs"),
        (dumbbell, {"edge_rate_bps": 0}, "rate"),
        (dumbbell, {"aqm": "codel"}, "aqm"),
        (dumbbell, {"ecn_threshold_packets": 0}, "ecn_threshold_packets"),
        (icgw, {"gpus": 0}, "gpus"),
        (icgw, {"storage": 0}, "storage"),
        (icgw, {"spines": 17}, "spines"),
        (icgw, {"gateways": None}, "gateways"),
        (icgw, {"zone_delay_ns": -5}, "zone_delay_ns"),
        (single, {"hosts": 4097}, "hosts"),
    ],
)
def test_nonsense_is_refused_by_name(function: Any, parameters: dict[str, Any], key: str) -> None:
    """An impossible parameter is a TopologyError that names it, in one line."""
    with pytest.raises(TopologyError) as caught:
        function(**parameters)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


def test_largest_fabrics_have_names_that_fit() -> None:
    """Interface names of the largest topologies fit into the kernel's 15 characters (else the fabric refuses)."""
    assert len(single(hosts=4096).hosts) == 4096
    assert len(icgw(gpus=250, compute=250, gateways=250, storage=250, spines=16).hosts) == 1001


@pytest.mark.parametrize("name", FABRICS)
def test_mininet_topology_is_the_fabric(name: str) -> None:
    """The Mininet `Topo` has the fabric's nodes, addresses and datapath ids, and the same ports on each link."""
    fabric = FABRICS[name]()
    topo = FabricTopo(fabric)
    forwarders = fabric.with_role(Role.FORWARDER)
    assert set(topo.hosts()) == {host.name for host in fabric.ends}
    assert set(topo.switches()) == {switch.name for switch in (*fabric.switches, *forwarders)}
    for host in fabric.ends:
        assert topo.nodeInfo(host.name)["ip"] == str(host.ip)
    for forwarder in forwarders:
        assert topo.nodeInfo(forwarder.name)["address"] == str(forwarder.ip)
    for switch in fabric.switches:
        assert int(topo.nodeInfo(switch.name)["dpid"], 16) == switch.dpid
    found = {
        (info["node1"], info["port1"], info["node2"], info["port2"], info["spec"])
        for _, _, info in topo.links(withInfo=True)
    }
    assert found == {(link.a, link.a_port, link.b, link.b_port, link.spec) for link in fabric.links}


def test_words_take_units_or_plain_numbers() -> None:
    """``delay=5us`` and ``delay_ns=5000`` are the same; values without a name go by position."""
    assert fabric_from_words("chain", [5], {"rate": "25Gbit/s", "delay": "5us"}) == chain(5, 25 * GBIT, 5_000)
    assert fabric_from_words("chain", [], {"delay_ns": 5000}) == chain(delay_ns=5000)
    assert fabric_from_words("single", [4], {"true_packets": "false", "loss": "0.1%"}) == single(
        4, loss_ppm=1000, true_packets=False
    )


@pytest.mark.parametrize("value", ["30%", "30 %", "300000 ppm", 0.3])
def test_storage_share_is_a_share_or_a_number(value: object) -> None:
    """``storage_share=30%`` and ``0.3``, of which Mininet makes a number, are the same wherever it is taken."""
    for name in ("chain", "dumbbell", "icgw", "single"):
        fabric = fabric_from_words(name, [], {"storage_share": value})
        assert 0.3 in {link.spec.storage_share for link in fabric.links}
        assert fabric == FABRICS[name](storage_share=0.3)


def test_only_the_bottleneck_keeps_storage_apart() -> None:
    """On a dumbbell the queue parameters are the bottleneck's, so its edge links have one queue."""
    assert [link.spec.storage_share for link in dumbbell(pairs=1, storage_share=0.3).links] == [0.3, None, None]
    assert {link.spec.storage_share for link in icgw().links} == {None}


@pytest.mark.parametrize(
    ("positional", "named", "text"),
    [
        ([], {"speed": 1}, "speed: chain has no such parameter"),
        ([], {"delay": 5}, "delay: 5 has no unit"),
        ([], {"delay": "5 parsecs"}, "delay: '5 parsecs' has an unknown unit"),
        ([], {"delay": "5us", "delay_ns": 1}, "delay_ns: is given twice"),
        ([3], {"hops": 3}, "hops: is given twice"),
        (list(range(40)), {}, "chain takes at most 10 values"),
        ([], {"true_packets": "maybe"}, "true_packets: 'maybe' is not true or false"),
        (["x"], {}, "hops: 'x' is not a whole number"),
        ([], {"storage_share": "half"}, "storage_share: 'half' "),
        ([], {"storage_share": 30}, "storage_share: a storage share of 30 is impossible: 0.01 to 0.99 of the line"),
    ],
)
def test_wrong_words_get_one_clear_line(positional: list[object], named: dict[str, object], text: str) -> None:
    """Every mistake on the command line names the word."""
    with pytest.raises(TopologyError) as caught:
        fabric_from_words("chain", positional, named)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("name", "positional", "named", "asks"),
    [
        ("chain", [], {}, False),
        ("chain", [3], {}, False),
        ("icgw", [], {"gpus": 4, "mtu": "1500B"}, False),
        ("icgw", [], {"delay": "5us"}, True),
        ("chain", [], {"rate_bps": 1}, True),
        ("icgw", [], {"zone_delay_ns": 1}, True),
        ("icgw", [], {"storage_share": 0.3}, True),
        ("cascade", [], {"uplink_rate": "400Gbit/s"}, True),
        ("chain", [3, 10**9], {}, True),
        ("torus3d", [4, 4, 4], {"twist": 0}, False),
    ],
)
def test_what_asks_for_shaping(name: str, positional: list[object], named: dict[str, object], asks: bool) -> None:
    """Sizes and the MTU can be had on any kernel; rates, delays, loss and queues need netem."""
    assert asks_for_shaping(name, positional, named) is asks


def test_parameters_are_documented() -> None:
    """Every parameter of every topology is explained in its docstring."""
    for function in FABRICS.values():
        for name in inspect.signature(function).parameters:
            assert f"        {name}: " in (function.__doc__ or ""), (function, name)
