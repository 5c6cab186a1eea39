"""Fabrics, link properties and closed forms."""

import json

import pytest

from emulator.errors import TopologyError
from emulator.model.codec import fabric_from_json, fabric_to_json
from emulator.model.fabric import Fabric, FabricBuilder, LinkSpec, Role
from emulator.model.theory import jain_index, md1_mean_wait_ns, ping_rtt_ns, tcp_goodput_bps

SPEC = LinkSpec(rate_bps=100 * 10**9, delay_ns=1000)


def small() -> Fabric:
    """Two hosts on a switch."""
    builder = FabricBuilder("small", hosts=2)
    builder.add_host("h0", "10.0.0.1/8")
    builder.add_host("h1", "10.0.0.2/8", role=Role.STORAGE, zone="b")
    builder.add_switch("s1")
    builder.add_link("h0", "s1", SPEC)
    builder.add_link("h1", "s1", SPEC)
    return builder.build()


def test_ports_and_names() -> None:
    """Hosts count ports from 0, switches from 1, as Mininet does; MACs derive from addresses."""
    fabric = small()
    assert [link.a_interface for link in fabric.links] == ["h0-eth0", "h1-eth0"]
    assert [link.b_interface for link in fabric.links] == ["s1-eth1", "s1-eth2"]
    assert fabric.by_name["h1"].mac == "02:00:0a:00:00:02"
    assert [node.dpid for node in fabric.switches] == [1]


def test_json_round_trip() -> None:
    """A fabric survives the journey through JSON."""
    fabric = small()
    assert fabric_from_json(json.loads(json.dumps(fabric_to_json(fabric)))) == fabric


@pytest.mark.parametrize("data", [{}, {"name": "x"}, {"name": "x", "nodes": [{}], "links": []}])
def test_json_that_is_no_fabric(data: dict) -> None:
    """A damaged description is one clear error."""
    with pytest.raises(TopologyError, match="not a fabric description"):
        fabric_from_json(data)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b.add_host("h0", "10.0.0.9/8"), "duplicate node name 'h0'"),
        (lambda b: b.add_host("h9", "10.0.0.1/8", mac="02:00:00:00:00:09"), "duplicate IP address '10.0.0.1'"),
        (lambda b: b.add_host("h9", "10.0.0.9/8", mac="02:00:0a:00:00:01"), "duplicate MAC address"),
        (lambda b: b.add_host("h9", "10.0.0.9/8"), "in 2 parts: h0 cannot reach"),
        (lambda b: b.add_link("h0", "h7", SPEC), "unknown node 'h7'"),
        (lambda b: b.add_link("h0", "h0", SPEC), "joins 'h0' to itself"),
    ],
)
def test_bad_fabrics(change, said: str) -> None:
    """What cannot be built is refused before anything is built."""
    builder = FabricBuilder("bad")
    builder.add_host("h0", "10.0.0.1/8")

    def build() -> None:
        change(builder)
        builder.build()

    with pytest.raises(TopologyError, match=said):
        build()


def test_long_interface_names() -> None:
    """A name that the kernel would refuse is refused with the limit."""
    builder = FabricBuilder("bad")
    builder.add_host("averyverylongname", "10.0.0.1/8")
    builder.add_switch("s1")
    builder.add_link("averyverylongname", "s1", SPEC)
    with pytest.raises(TopologyError, match="longer than 15 characters"):
        builder.build()


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"rate_bps": 0}, "rate"),
        ({"rate_bps": 1_600_000_000_001}, "rate"),
        ({"delay_ns": -1}, "delay"),
        ({"delay_ns": 10**11}, "delay"),
        ({"mtu_bytes": 100}, "mtu"),
        ({"queue_packets": 0}, "queue"),
        ({"queue_bdp": 0.0}, "queue"),
        ({"loss_ppm": 1_000_001}, "loss"),
    ],
)
def test_impossible_links(changed: dict, key: str) -> None:
    """Impossible properties name their key."""
    with pytest.raises(TopologyError) as caught:
        LinkSpec(**{"rate_bps": 10**9, "delay_ns": 0, **changed})
    assert caught.value.key == key


def test_queue_from_bandwidth_delay_products() -> None:
    """One BDP of 100 us at 100 Gbit/s is 1.25 MB: 138 frames of 9038 bytes."""
    assert SPEC.waiting_packets == 138
    assert LinkSpec(10**9, 0, queue_packets=7).waiting_packets == 7


def test_ping_over_one_link() -> None:
    """84-byte IP packet in a 98-byte frame and 24 bytes of framing: 9.76 ns at 100 Gbit/s, twice, plus delays."""
    assert ping_rtt_ns([SPEC]) == 2 * (1000 + 9)


def test_goodput_is_what_headers_leave() -> None:
    """8948 of 9038 bytes at MTU 9000."""
    assert tcp_goodput_bps(SPEC) == pytest.approx(100e9 * 8948 / 9038)


def test_md1() -> None:
    """At half load a packet waits half a service time; at zero none; at full load there is no answer."""
    assert md1_mean_wait_ns(0.5, 100) == pytest.approx(50)
    assert md1_mean_wait_ns(0, 100) == 0
    with pytest.raises(ValueError, match="no steady state"):
        md1_mean_wait_ns(1, 100)


def test_jain() -> None:
    """Equal shares give 1, one taker of n gives 1/n, nothing is undefined."""
    assert jain_index([3, 3, 3]) == pytest.approx(1)
    assert jain_index([5, 0, 0, 0]) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="undefined"):
        jain_index([0, 0])
