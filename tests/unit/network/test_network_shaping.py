"""Qdiscs: what is planned for a link, how it is encoded, and that every difference of the kernel's answer is found."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from emulator.errors import LinkError
from emulator.model.fabric import Aqm, LinkSpec
from emulator.network import qdisc, qdisc_tree
from emulator.network.counters import ClassSample, sample
from emulator.network.netlink import RTM_NEWQDISC, attribute, message, text
from emulator.network.offloads import Offloads
from emulator.network.ports import Port, link_ports, port_mac
from emulator.network.qdisc import Fifo, Mark, Netem, Qdisc, Shares, TokenBucket
from emulator.network.qdisc_tree import ROOT, Placed, handle, nested
from emulator.network.shaping import class_queues, in_flight_packets, line_of, plan, quanta_bytes
from topologies import chain, dumbbell, icgw

GBIT = 10**9
LINE = LinkSpec(100 * GBIT, 5_000, queue_packets=50)
APART = replace(LINE, storage_share=0.3)


def settings(qdiscs: tuple[Placed, ...]) -> tuple[Qdisc, ...]:
    """What is planned, without the places; nested in each other is checked here."""
    places = [(one.handle, one.parent) for one in qdiscs]
    assert places == [(n << 16, (n - 1 << 16 | 1) if n > 1 else ROOT) for n in range(1, len(qdiscs) + 1)]
    return tuple(one.qdisc for one in qdiscs)


def test_host_port_counts_packets_in_propagation() -> None:
    """One netem: its limit holds the waiting packets, the one on the line, and full frames in propagation."""
    # 9038 bytes on the line take 723 ns, so that 5 us of delay hold 7 of them.
    assert in_flight_packets(LINE) == 7
    assert settings(plan(LINE, at_host=True)) == (Netem(12_500_000_000, 5_000, 50 + 1 + 7, 0, 24),)


def test_switch_port_counts_only_waiting_packets() -> None:
    """Two stages: propagation without a limit, then the line with exactly the stated queue and the packet on it."""
    planned = plan(LINE, at_host=False)
    delay, line = settings(planned)
    assert isinstance(delay, Netem)
    assert (delay.rate_bytes_per_s, delay.delay_ns) == (0, 5_000)
    assert line == Netem(12_500_000_000, 0, 51, 0, 24)
    assert line_of(planned).qdisc is line


def test_no_delay_needs_no_second_stage() -> None:
    """Without propagation both kinds of port are the same single stage."""
    spec = replace(LINE, delay_ns=0)
    assert plan(spec, at_host=True) == plan(spec, at_host=False)
    assert settings(plan(spec, at_host=True)) == (Netem(12_500_000_000, 0, 51, 0, 24),)


@pytest.mark.parametrize("at_host", [True, False])
def test_marking_port_waits_below_the_marker(at_host: bool) -> None:
    """With an ECN threshold: propagation, token bucket of one frame, marker one byte above K frames, plain queue."""
    spec = replace(LINE, aqm=Aqm.ECN_THRESHOLD, ecn_threshold_packets=20, overhead_bytes=20)
    assert settings(plan(spec, at_host=at_host)) == (
        Netem(delay_ns=5_000),
        TokenBucket(12_500_000_000, 20, 9014),
        Mark(20 * 9014 + 1),
        Fifo(50),
    )
    super_packets = settings(plan(replace(spec, true_packets=False), at_host=at_host))
    assert super_packets[1] == TokenBucket(12_500_000_000, 20, 65_550)
    assert line_of(plan(spec, at_host=at_host)).handle == handle(2)


def test_storage_and_compute_have_queues_of_their_own() -> None:
    """A switch's port with a storage share: propagation, the line's pace, turns, and below them two queues.

    Verify: the qdisc that takes turns has the number by which Open vSwitch's priorities name it, and each part is
    inside the right class of the one above.
    """
    rate = 12_500_000_000
    assert plan(APART, at_host=False) == (
        Placed(Netem(delay_ns=5_000), handle(3), ROOT),
        Placed(TokenBucket(rate, 24, 9014, line=True), handle(2), handle(3) | 1),
        Placed(Shares((966, 2254)), 0x10000, handle(2) | 1),
        Placed(Fifo(50), handle(0x10), 0x10001),
        Placed(Fifo(50), handle(0x20), 0x10002),
    )
    at_once = plan(replace(APART, delay_ns=0), at_host=False)
    assert [(one.handle, one.parent) for one in at_once[:2]] == [(handle(2), ROOT), (handle(1), handle(2) | 1)]
    assert line_of(at_once).handle == handle(2)
    assert {name: one.handle for name, one in class_queues(at_once).items()} == {
        "storage": handle(0x10),
        "compute": handle(0x20),
    }


def test_each_class_is_marked_by_its_own_queue() -> None:
    """With an ECN threshold as well, each class has a marker and a plain queue."""
    planned = plan(replace(APART, aqm=Aqm.ECN_THRESHOLD, ecn_threshold_packets=20), at_host=False)
    marker, queue = Mark(20 * 9014 + 1), Fifo(50)
    assert planned[3:] == (
        Placed(marker, handle(0x10), 0x10001),
        Placed(queue, handle(0x11), handle(0x10) | 1),
        Placed(marker, handle(0x20), 0x10002),
        Placed(queue, handle(0x21), handle(0x20) | 1),
    )
    assert [one.qdisc for one in class_queues(planned).values()] == [marker, marker]


def test_hosts_have_one_queue() -> None:
    """Nobody sorts what a host sends, so its own port is as on any other link."""
    assert plan(APART, at_host=True) == plan(LINE, at_host=True)
    assert class_queues(plan(APART, at_host=True)) == class_queues(plan(LINE, at_host=False)) == {}


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.37, 0.5, 0.7, 0.99])
@pytest.mark.parametrize("mtu_bytes", [576, 1500, 9000])
def test_turns_are_short_and_in_proportion(share: float, mtu_bytes: int) -> None:
    """Quanta are in proportion to the shares to half a percent, and no smaller than the kernel takes.

    Verify: the larger is a quarter of a frame, or what follows from 256 bytes for the smaller.
    """
    storage, compute = quanta_bytes(replace(APART, storage_share=share, mtu_bytes=mtu_bytes))
    assert storage / (storage + compute) == pytest.approx(share, rel=0.005)
    uneven = max(share, 1 - share) / min(share, 1 - share)
    assert min(storage, compute) >= 256
    assert max(storage, compute) <= max((mtu_bytes + 14) / 4, 256 * uneven) + uneven


def test_loss_is_scaled_and_seeded() -> None:
    """Parts per million become the kernel's 32-bit share, exactly at the ends; a seed goes only where there is loss."""
    assert Netem.loss_from_ppm(0) == 0
    assert Netem.loss_from_ppm(1_000_000) == 0xFFFFFFFF
    assert abs(Netem.loss_from_ppm(1000) / 0xFFFFFFFF - 0.001) < 1e-9
    [lossy] = settings(plan(replace(LINE, loss_ppm=1000), at_host=True, seed=77))
    assert isinstance(lossy, Netem)
    assert lossy.seed == 77
    assert plan(LINE, at_host=True, seed=77)[0] == plan(LINE, at_host=True, seed=78)[0]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (replace(LINE, rate_bps=100 * GBIT + 1), "whole bytes per second"),
        (replace(LINE, rate_bps=7), "whole bytes per second"),
        (replace(LINE, aqm=Aqm.ECN_THRESHOLD, ecn_threshold_packets=10**7), "an ECN threshold of"),
    ],
)
def test_what_the_kernel_cannot_count_is_refused(spec: LinkSpec, said: str) -> None:
    """A rate below whole bytes, or a threshold beyond 31 bits, is an error instead of something near it."""
    with pytest.raises(LinkError, match=said):
        plan(spec, at_host=False)


def test_refused_link_is_named() -> None:
    """The error says which link of the fabric it was."""
    with pytest.raises(LinkError, match="link h0-eth0--s1-eth1: a rate of 9 bit/s"):
        link_ports(chain(rate_bps=9))


OF_EVERY_KIND = [
    Netem(3, 7, 9, 0, 24),
    Netem(2**32 - 1, 10**10, 1_000_000_000, 5, 0, 2**63 + 1),
    Netem(200_000_000_000, 0, 1, 0, 24),
    TokenBucket(2**32 - 1, 24, 9014),
    TokenBucket(160_000_000_000, 0, 65_550),
    TokenBucket(12_500_000_000, 24, 9014, line=True),
    Mark(585_911),
    Fifo(1000),
    Shares((966, 2254)),
    Shares((1, 2, 2**32 - 1)),
]


@pytest.mark.parametrize("one", OF_EVERY_KIND)
def test_what_is_encoded_is_decoded(one: qdisc.Qdisc) -> None:
    """Decoding an encoded qdisc finds no difference; a bucket's size is not read back (the kernel says a time)."""
    body = qdisc_tree.request_body(4, Placed(one, handle(3), ROOT))
    installed = qdisc_tree.decode(body)
    assert (installed.interface_index, installed.handle, installed.kind) == (4, 3 << 16, one.kind)
    assert qdisc_tree.interface_index(body) == 4
    assert qdisc_tree.differences(one, installed.qdisc) == []


def by_pyroute2(one: qdisc.Qdisc, number: int = 1) -> Any:
    placed = Placed(one, handle(number), handle(number - 1) | 1 if number > 1 else ROOT)
    decoded = tcmsg(message(RTM_NEWQDISC, 1, 1, qdisc_tree.request_body(4, placed)))
    decoded.decode()
    return decoded


def test_an_independent_library_reads_the_same() -> None:
    """Rates, limits, overhead and thresholds are at the places of linux/pkt_sched.h, as pyroute2 knows them."""
    netem = by_pyroute2(Netem(1000, 0, 77, 99, 24))
    assert netem.get_attr("TCA_KIND") == "netem"
    options = netem.get_attr("TCA_OPTIONS")
    assert (options["limit"], options["loss"]) == (77, 99)
    rate = options.get_attr("TCA_NETEM_RATE")
    assert (rate["rate"], rate["packet_overhead"]) == (1000, 24)
    assert (netem["parent"], netem["handle"]) == (0xFFFFFFFF, 1 << 16)

    bucket = by_pyroute2(TokenBucket(160_000_000_000, 24, 9014), number=2).get_attr("TCA_OPTIONS")
    # The library does not know the bucket's 64-bit attributes.
    assert bucket.get_attr("TCA_TBF_PARMS")["rate"] == 2**32 - 1
    assert bucket.get_attr("TCA_TBF_PARMS")["rate_overhead"] == 24
    assert by_pyroute2(Fifo(5), number=4)["parent"] == (3 << 16) | 1


def test_every_difference_is_told() -> None:
    """Each field that the kernel set otherwise is named with both values; a missing or other qdisc is told too."""
    asked = Netem(100, 5_000, 9, 0, 24)
    assert qdisc_tree.differences(asked, replace(asked, delay_ns=4_992, limit_packets=1000)) == [
        "netem delay_ns is 4992 instead of 5000",
        "netem limit_packets is 1000 instead of 9",
    ]
    assert qdisc_tree.differences(asked, None) == ["a netem qdisc was asked for, there is none"]
    assert qdisc_tree.differences(asked, Fifo(9)) == ["a netem qdisc was asked for, there is pfifo"]


def test_a_marker_that_drops_is_not_a_marker() -> None:
    """RED with other thresholds, weight or flags than asked is not mistaken for a threshold."""

    def red(least: int, most: int, weight: int, flags: int) -> Mark:
        parameters = struct.pack("=IIIBBBB", 0, least, most, weight, 0, 0, 0)
        return Mark.decode(attribute(1, parameters) + attribute(4, struct.pack("=II", flags, 15)))

    assert red(500, 500, 0, 9) == Mark(500)
    for wrong in (red(500, 501, 0, 9), red(500, 500, 1, 9), red(500, 500, 0, 1), red(500, 500, 0, 8)):
        assert qdisc_tree.differences(Mark(500), wrong) == ["red threshold_bytes is -1 instead of 500"]


def test_old_kernels_delay_in_ticks_is_understood() -> None:
    """Without the 64-bit attribute the delay is read in 64 ns ticks, and so found to differ where it is not exact."""
    options = struct.pack("=6I", 78, 9, 0, 0, 0, 0)
    assert Netem.decode(options) == Netem(0, 4_992, 9)


def test_ports_of_a_fabric() -> None:
    """Hosts keep their address on their first port; every other port has its own, and so have losses."""
    fabric = icgw(loss_ppm=10)
    ports = [port for pair in link_ports(fabric, seed=3) for port in pair]
    assert len({port.mac for port in ports}) == len(ports)
    assert {port.mac for port in ports if port.at_host} == {host.mac for host in fabric.hosts}
    seeds = [one.seed for port in ports if isinstance(one := port.qdiscs[0].qdisc, Netem)]
    assert len(set(seeds)) == len(ports)
    assert [port.qdiscs for port in ports] == [port.qdiscs for pair in link_ports(fabric, seed=3) for port in pair]
    assert port_mac(2**40 - 1) == "06:ff:ff:ff:ff:ff"


def test_unshaped_ports_have_no_qdisc() -> None:
    """Without shaping only the MTU and the offloads are left of a link's properties."""
    pairs = link_ports(dumbbell(true_packets=False), shaped=False, checksum_offload=False)
    assert {port.qdiscs for pair in pairs for port in pair} == {()}
    assert {port.offloads for pair in pairs for port in pair} == {Offloads(segmentation=True, checksums=False)}


def test_offloads_follow_from_each_other() -> None:
    """The kernel has no TSO without checksum offload, so it is not asked for; true packets have no segmentation."""
    assert Offloads(segmentation=True, checksums=False).wanted()["tcp-segmentation-offload"] is False
    assert set(Offloads(segmentation=False, checksums=True).wanted().values()) == {True, False}
    assert Offloads(segmentation=False, checksums=True).wanted()["tx-checksumming"] is True


def statistics(packets: int, octets: int, drops: int, queued: int, backlog: int, application: bytes = b"") -> bytes:
    basic = attribute(1, struct.pack("=QI", octets, packets & 0xFFFFFFFF))
    wide = attribute(8, struct.pack("=Q", packets))
    queue = attribute(3, struct.pack("=5I", queued, backlog, drops, 0, 0))
    return attribute(7, basic + wide + queue + attribute(4, application))


def installed(number: int, kind: str, stats: bytes) -> qdisc_tree.Installed:
    header = struct.pack("=BxxxiIII", 0, 5, handle(number), 0, 0)
    return qdisc_tree.decode(header + text(1, kind) + stats)


def at_switch(spec: LinkSpec) -> Port:
    offloads = Offloads(False, True)
    return Port("s1", "s1-eth1", 1, "06:00:00:00:00:00", "l", spec, False, offloads, plan(spec, at_host=False))


def test_a_sample_takes_each_figure_from_its_stage() -> None:
    """What left and was dropped comes from the outermost qdisc, what waits from the one at the line, marks from RED."""
    spec = replace(LINE, aqm=Aqm.ECN_THRESHOLD)
    port = at_switch(spec)
    there = {
        one.handle: one
        for one in (
            installed(1, "netem", statistics(2**33, 10**12, 3, 90, 800_000)),
            installed(2, "tbf", statistics(1, 1, 2, 60, 540_000)),
            installed(3, "red", statistics(1, 1, 0, 60, 540_000, struct.pack("=4I", 0, 0, 0, 41))),
            installed(4, "pfifo", statistics(1, 1, 0, 60, 540_000)),
        )
    }
    found = sample(port, there)
    assert (found.tx_packets, found.tx_bytes, found.dropped) == (2**33, 10**12, 3)
    assert (found.queued_packets, found.queued_bytes, found.marked) == (60, 540_000, 41)
    assert found.classes == ()
    del there[handle(3)]
    with pytest.raises(LinkError, match="link l: a qdisc of s1-eth1 is gone"):
        sample(port, there)


def test_a_sample_of_classes_has_both_queues() -> None:
    """Where storage and compute are kept apart, the port's figures are the line's and each class has its own."""
    there = {
        one.handle: one
        for one in (
            installed(3, "netem", statistics(30, 300, 7, 9, 90)),
            installed(2, "tbf", statistics(30, 300, 7, 8, 80)),
            installed(1, "ets", statistics(30, 300, 7, 8, 80)),
            installed(0x10, "pfifo", statistics(10, 100, 2, 5, 50)),
            installed(0x20, "pfifo", statistics(20, 200, 5, 3, 30)),
        )
    }
    found = sample(at_switch(APART), there)
    assert (found.tx_packets, found.tx_bytes, found.dropped, found.marked) == (30, 300, 7, 0)
    assert (found.queued_packets, found.queued_bytes) == (8, 80)
    assert found.classes == (ClassSample("storage", 10, 100, 2, 5, 50), ClassSample("compute", 20, 200, 5, 3, 30))
    del there[handle(0x20)]
    with pytest.raises(LinkError, match="link l: a qdisc of s1-eth1 is gone"):
        sample(at_switch(APART), there)


def test_a_line_where_a_bucket_was_asked_for_is_told() -> None:
    """A bucket that turns out to be a line is a difference; kernels that know no line say nothing."""
    bucket = TokenBucket(1000, 24, 9014)
    line = replace(bucket, line=True)
    assert qdisc_tree.differences(bucket, replace(line, burst_bytes=None)) == ["tbf line is True instead of False"]
    assert qdisc_tree.differences(line, replace(line, line=None)) == []


def test_turns_that_are_not_as_asked_are_told() -> None:
    """Quanta, a strict class or another default class than asked are differences."""
    asked = Shares((966, 2254))

    def ets(quanta: tuple[int, ...], default: int, strict: int = 0) -> Shares:
        bands = b"".join(attribute(4, struct.pack("=I", one)) for one in quanta)
        priorities = b"".join(attribute(6, bytes([default])) for _ in range(16))
        parts = attribute(1, bytes([len(quanta)])) + attribute(3, bands) + attribute(5, priorities)
        return Shares.decode(parts + (attribute(2, bytes([strict])) if strict else b""))

    assert qdisc_tree.differences(asked, ets((966, 2254), 1)) == []
    for wrong in (ets((966, 2255), 1), ets((966, 2254), 0), ets((966, 2254), 1, strict=1), ets((966, 2254, 9), 2)):
        [said] = qdisc_tree.differences(asked, wrong)
        assert said.startswith("ets quanta_bytes is (")
    assert nested([asked])[0].handle == handle(1)
