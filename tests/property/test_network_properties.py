"""Properties of topologies, qdiscs and trees that hold whatever the parameters."""

from __future__ import annotations

import networkx
from hypothesis import given
from hypothesis import strategies as st

from emulator.model.fabric import Aqm, LinkSpec
from emulator.network import qdisc, qdisc_tree
from emulator.network.bridge_switch import outside_tree
from emulator.network.netlink import attribute, attributes
from emulator.network.ports import link_ports
from emulator.network.qdisc import Fifo, Mark, Netem, Shares, TokenBucket
from emulator.network.qdisc_tree import ROOT, Placed, handle
from emulator.network.shaping import class_queues, in_flight_packets, line_of, plan
from topologies import chain, dumbbell, icgw, single

RATES = st.integers(1, 200_000_000_000).map(lambda octets: 8 * octets)
SPECS = st.builds(
    LinkSpec,
    rate_bps=RATES,
    delay_ns=st.integers(0, 10**10),
    mtu_bytes=st.integers(576, 65_535),
    queue_packets=st.none() | st.integers(1, 10**6),
    loss_ppm=st.integers(0, 10**6),
    true_packets=st.booleans(),
    aqm=st.sampled_from(Aqm),
    ecn_threshold_packets=st.integers(1, 10_000),
    storage_share=st.none() | st.floats(0.01, 0.99),
)
FABRICS = st.one_of(
    st.builds(chain, hops=st.integers(1, 20)),
    st.builds(dumbbell, pairs=st.integers(1, 60)),
    st.builds(
        icgw,
        gpus=st.integers(1, 40),
        compute=st.integers(1, 10),
        gateways=st.integers(1, 5),
        storage=st.integers(1, 9),
        spines=st.integers(1, 5),
    ),
    st.builds(single, hosts=st.integers(1, 600)),
)
U32 = st.integers(0, 2**32 - 1)
QDISCS = st.one_of(
    st.builds(
        Netem,
        rate_bytes_per_s=st.just(0),
        delay_ns=st.integers(0, 2**62),
        limit_packets=U32,
        loss=st.just(0),
    ),
    st.builds(
        Netem,
        rate_bytes_per_s=st.integers(1, 2**63),
        delay_ns=st.integers(0, 2**62),
        limit_packets=U32,
        loss=st.integers(1, 2**32 - 1),
        overhead_bytes=st.integers(0, 2**31 - 1),
        seed=st.integers(0, 2**64 - 1),
    ),
    st.builds(
        TokenBucket,
        rate_bytes_per_s=st.integers(1, 2**63),
        overhead_bytes=st.integers(0, 2**16 - 1),
        burst_bytes=U32,
        line=st.booleans(),
    ),
    st.builds(Mark, threshold_bytes=U32),
    st.builds(Fifo, limit_packets=U32),
    st.builds(Shares, quanta_bytes=st.lists(st.integers(1, 2**32 - 1), min_size=2, max_size=16).map(tuple)),
)


@given(QDISCS, st.integers(1, 0xFFFF), st.integers(0, 2**32 - 1))
def test_decoding_undoes_encoding(one: qdisc.Qdisc, number: int, parent: int) -> None:
    """Whatever the numbers, what is encoded is read back without a difference."""
    installed = qdisc_tree.decode(qdisc_tree.request_body(3, Placed(one, handle(number), parent)))
    assert installed.handle == handle(number)
    assert qdisc_tree.differences(one, installed.qdisc) == []


@given(QDISCS, QDISCS)
def test_different_settings_are_told_apart(one: qdisc.Qdisc, other: qdisc.Qdisc) -> None:
    """Two qdiscs that differ in anything that is read back are never taken for the same."""
    found = qdisc_tree.decode(qdisc_tree.request_body(3, Placed(other, handle(1), ROOT))).qdisc
    same = one == other or (
        isinstance(one, TokenBucket)
        and isinstance(other, TokenBucket)
        and (one.rate_bytes_per_s, one.overhead_bytes) == (other.rate_bytes_per_s, other.overhead_bytes)
        and (one.line or not other.line)
    )
    if isinstance(one, Netem) and isinstance(other, Netem) and not other.loss:
        same = same or (one == other)
    assert (qdisc_tree.differences(one, found) == []) == same


@given(st.dictionaries(st.integers(1, 100), st.binary(max_size=70), max_size=20))
def test_attributes_round_trip(row: dict[int, bytes]) -> None:
    """Any row of attributes is read back as it was written."""
    assert attributes(b"".join(attribute(kind, payload) for kind, payload in row.items())) == row


@given(st.binary(max_size=200))
def test_reading_attributes_never_fails(data: bytes) -> None:
    """Whatever bytes come, decoding ends and invents nothing that is not in them."""
    for payload in attributes(data).values():
        assert payload in data


@given(SPECS, st.booleans())
def test_every_plan_has_one_line_and_room_for_its_queue(spec: LinkSpec, at_host: bool) -> None:
    """The delay and the loss are in exactly one place, the line has the rate, every queue holds what was asked."""
    placed = plan(spec, at_host=at_host, seed=1)
    stages = [one.qdisc for one in placed]
    line = line_of(placed).qdisc
    assert isinstance(line, (Netem, TokenBucket))
    assert line.rate_bytes_per_s * 8 == spec.rate_bps
    assert sum(one.delay_ns for one in stages if isinstance(one, Netem)) == spec.delay_ns
    assert sum(one.loss for one in stages if isinstance(one, Netem)) == Netem.loss_from_ppm(spec.loss_ppm)
    apart = spec.storage_share is not None and not at_host
    queues = [one for one in stages if isinstance(one, Fifo) or (isinstance(one, Netem) and one.rate_bytes_per_s)]
    assert len(queues) == (2 if apart else 1)
    for queue in queues:
        if apart or spec.aqm is Aqm.ECN_THRESHOLD:
            assert queue == Fifo(spec.waiting_packets)
        else:
            assert isinstance(queue, Netem)
            assert queue.rate_bytes_per_s * 8 == spec.rate_bps
            room = queue.limit_packets - 1 - (in_flight_packets(spec) if len(stages) == 1 else 0)
            assert room == spec.waiting_packets


@given(SPECS, st.booleans())
def test_every_plan_is_one_tree(spec: LinkSpec, at_host: bool) -> None:
    """Each qdisc but the first is in a class of one before it, no two have the same place or handle."""
    placed = plan(spec, at_host=at_host)
    assert placed[0].parent == ROOT
    for number, one in enumerate(placed[1:], 1):
        assert one.parent & 0xFFFF0000 in {earlier.handle for earlier in placed[:number]}
    assert len({one.handle for one in placed}) == len({one.parent for one in placed}) == len(placed)
    # Open vSwitch's queues are classes of the qdisc 1:, wherever that is.
    assert {one.parent for one in class_queues(placed).values()} <= {0x10001, 0x10002}


@given(FABRICS)
def test_every_fabric_can_be_wired(fabric) -> None:  # type: ignore[no-untyped-def]
    """Addresses, interfaces and datapath ids are unique, every host has one link, everything is connected."""
    ports = [port for pair in link_ports(fabric) for port in pair]
    assert len({port.interface for port in ports}) == len({port.mac for port in ports}) == len(ports)
    assert max(len(port.interface) for port in ports) <= 15
    assert len({host.ip for host in fabric.hosts}) == len(fabric.hosts)
    assert [switch.dpid for switch in fabric.switches] == list(range(1, len(fabric.switches) + 1))
    assert networkx.is_connected(fabric.graph())
    for host in fabric.hosts:
        assert [port.number for port in ports if port.node == host.name] == [0]


@given(st.integers(1, 12), st.data())
def test_trees_of_any_switches(count: int, data: st.DataObject) -> None:
    """In any graph, what is left after blocking reaches exactly what the graph reaches, without a loop."""
    names = [f"s{n}" for n in range(count)]
    ends = data.draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=30))
    joints = [(a, 2 * n, b, 2 * n + 1) for n, (a, b) in enumerate(ends) if a != b]
    outside = outside_tree(names, joints)
    kept = networkx.MultiGraph()
    kept.add_nodes_from(names)
    for a, a_port, b, b_port in joints:
        assert (a_port in outside.get(a, ())) == (b_port in outside.get(b, ()))
        if a_port not in outside.get(a, ()):
            kept.add_edge(a, b)
    whole = networkx.MultiGraph()
    whole.add_nodes_from(names)
    whole.add_edges_from((a, b) for a, _, b, _ in joints)
    assert networkx.is_forest(kept)
    assert sorted(map(sorted, networkx.connected_components(kept))) == sorted(
        map(sorted, networkx.connected_components(whole))
    )
