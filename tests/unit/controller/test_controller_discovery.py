"""LLDP frames and what follows from them: who is connected to whom, what is silent, what is forged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.lldp import LLDPDU, LLDPDUChassisID, LLDPDUPortID, LLDPDUSystemName, LLDPDUTimeToLive
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import bind_layers, split_layers

from controller.discovery import MOST_MISSED, Discovery, Finding, What
from controller.events import Port, SendPacket
from controller.flows import ETH_TYPE_LLDP
from controller.lldp import BadFrame, Beacon, read_frame, write_frame
from emulator.model.fabric import Fabric
from tests.support.controller_fabrics import leaf_spine

# Importing it makes Scapy refuse malformed LLDP in whatever test runs later in this process.
for _layer in (Ether, Dot1Q):
    split_layers(_layer, LLDPDU, type=ETH_TYPE_LLDP)

KEY = b"secret"
FABRIC = leaf_spine(gpus=1, computes=1, routers=0, gateways=0, storage=1)
S = 10**9
Cables = dict[tuple[int, int], tuple[int, int]]


def frame(beacon: Beacon, key: bytes = KEY) -> bytes:
    return write_frame(beacon, key, "02:00:00:00:00:01", "s0", 40)


@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1), st.binary())
def test_frames_say_what_was_written(dpid: int, port: int, serial: int, key: bytes) -> None:
    """Whatever is written is read back, with the same key only."""
    beacon = Beacon(dpid, port, serial)
    assert read_frame(frame(beacon, key), key) == beacon
    with pytest.raises(BadFrame, match="signature"):
        read_frame(frame(beacon, key), key + b"x")


@pytest.fixture
def scapy_reads_lldp() -> Iterator[None]:
    """Scapy takes LLDP apart, and refuses what is malformed, for this test only."""
    bind_layers(Ether, LLDPDU, type=ETH_TYPE_LLDP)
    yield
    split_layers(Ether, LLDPDU, type=ETH_TYPE_LLDP)


@pytest.mark.usefixtures("scapy_reads_lldp")
def test_others_can_read_the_frames() -> None:
    """Scapy's LLDP finds chassis, port, lifetime and name where the standard puts them."""
    decoded = Ether(frame(Beacon(0xABC, 7, 1)))
    assert decoded.dst == "01:80:c2:00:00:0e"
    assert decoded[LLDPDUChassisID].id == b"dpid:0000000000000abc"
    assert decoded[LLDPDUPortID].id == b"7"
    assert decoded[LLDPDUTimeToLive].ttl == 40
    assert decoded[LLDPDUSystemName].system_name == b"s0"
    assert isinstance(decoded[LLDPDU], LLDPDU)


@given(st.data())
def test_no_changed_frame_is_believed(data: st.DataObject) -> None:
    """Any changed bit of what is signed, and any cut, makes a frame worthless; nothing else than `BadFrame` escapes."""
    good = frame(Beacon(1, 2, 3))
    changed = bytearray(good)
    changed[data.draw(st.integers(0, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = bytes(changed[: data.draw(st.integers(0, len(good)))])
    for candidate in (bytes(changed), cut):
        with suppress(BadFrame):
            assert read_frame(candidate, KEY) == Beacon(1, 2, 3)


def test_malformed_frames_say_what_is_wrong() -> None:
    """Every way to be malformed has its own words."""
    good = frame(Beacon(1, 2, 3))
    header, tlvs = good[:14], good[14:]
    for data, words in (
        (b"", "not LLDP"),
        (good[:12] + b"\x08\x00" + good[14:], "not LLDP"),
        (header, "without an end"),
        (header + b"\xff", "without an end"),
        (header + b"\x03\xff" + b"x", "longer than the frame"),
        (header + b"\x00\x00", "does not begin"),
        (header + tlvs[25:], "does not begin|longer than|without an end"),
        (header + b"\x02\x02\x07a\x04\x02\x07b\x06\x02\x00\x01\x00\x00", "not signed"),
        (header + b"\x02\x02\x07a\x04\x02\x07b\x06\x02\x00\x01\xfe\x04\x6a\x63\x67\x01\x00\x00", "not signed"),
    ):
        with pytest.raises(BadFrame, match=words):
            read_frame(data, KEY)


# --- discovery --------------------------------------------------------------------------------------------------------


class Wires:
    """Switches that hand over every frame that arrives."""

    def __init__(self, fabric: Fabric = FABRIC, interval_ns: int = 10 * S) -> None:
        self.discovery = Discovery(fabric, KEY, interval_ns)
        self.ports: dict[int, dict[int, Port]] = {}
        self.cables: Cables = {}
        self.muted: set[tuple[int, int]] = set()
        self.found: list[Finding] = []
        self.now_ns = 0
        dpids = {node.name: node.dpid for node in fabric.nodes}
        for link in fabric.links:
            for name, port, other, peer in (
                (link.a, link.a_port, link.b, link.b_port),
                (link.b, link.b_port, link.a, link.a_port),
            ):
                dpid, far = dpids[name], dpids[other]
                if dpid is not None:
                    self.ports.setdefault(dpid, {})[port] = Port(port, f"{name}-eth{port}", "02:00:00:00:00:07", True)
                    if far is not None:
                        self.cables[dpid, port] = (far, peer)

    def ready(self, *dpids: int) -> None:
        for dpid in dpids:
            self.discovery.ready(dpid, self.ports[dpid], self.now_ns)
            self.deliver()

    def deliver(self) -> list[SendPacket]:
        frames, findings = self.discovery.send(self.now_ns)
        self.found += findings
        for item in frames:
            end = (item.dpid, item.port)
            if end in self.cables and end not in self.muted:
                self.found += self.discovery.hear(*self.cables[end], item.data)
        return frames

    def round(self) -> list[SendPacket]:
        next_ns = self.discovery.next_ns()
        assert next_ns is not None
        self.now_ns = next_ns
        return self.deliver()


@pytest.fixture
def wires() -> Wires:
    wires = Wires()
    wires.ready(1, 2, 3, 4, 5)
    return wires


def test_what_is_as_planned_is_no_news(wires: Wires) -> None:
    """Rounds go on and on, by ports between switches only, and nothing is found."""
    for _ in range(10):
        frames = wires.round()
        assert len(frames) == 12
        assert not {(item.dpid, item.port) for item in frames} - wires.cables.keys()
    assert wires.found == []
    assert wires.discovery.problems() == []


def test_a_switch_that_comes_up_is_looked_at_at_once() -> None:
    """Both directions of its links to switches that are there, without waiting for a round."""
    wires = Wires()
    wires.discovery.ready(1, wires.ports[1], 0)
    assert {(item.dpid, item.port) for item in wires.deliver()} == {(1, 1), (1, 2), (1, 3)}
    wires.discovery.ready(3, wires.ports[3], 0)
    assert {(item.dpid, item.port) for item in wires.deliver()} == {(1, 1), (3, 1), (3, 2)}


def test_crossed_cables_are_found_and_forgotten_when_they_are_right(wires: Wires) -> None:
    """One finding for each end, not repeated in later rounds; then one for each end that is right again."""
    right = dict(wires.cables)
    wires.cables |= {(1, 1): (4, 1), (4, 1): (1, 1), (1, 2): (3, 1), (3, 1): (1, 2)}
    for _ in range(3):
        wires.round()
    messages = [
        "l0 port 1 should lead to s0 port 1, leads to s0 port 2",
        "l1 port 1 should lead to s0 port 2, leads to s0 port 1",
        "s0 port 1 should lead to l0 port 1, leads to l1 port 1",
        "s0 port 2 should lead to l1 port 1, leads to l0 port 1",
    ]
    assert sorted(finding.message for finding in wires.found if finding.what is What.WRONG) == messages
    assert sorted(wires.discovery.problems()) == messages
    assert wires.discovery.wrong == {"s0-eth1--l0-eth1", "s0-eth2--l1-eth1"}
    wires.cables, wires.found = right, []
    wires.round()
    assert {finding.what for finding in wires.found} == {What.RIGHT}
    assert len(wires.found) == 4
    assert (wires.discovery.wrong, wires.discovery.problems()) == (frozenset(), [])


def test_a_cable_where_none_should_be(wires: Wires) -> None:
    """Between ports that the fabric does not know, and from a port that should lead to a host."""
    for dpid in (1, 3):
        wires.ports[dpid][50] = Port(50, "x", "02:00:00:00:00:08", True)
        wires.discovery.set_ports(dpid, wires.ports[dpid])
    host_port = max(port for port in wires.ports[3] if (3, port) not in wires.cables and port != 50)
    wires.cables |= {(1, 50): (3, 50), (3, 50): (3, host_port)}
    wires.deliver()
    found = {finding.message for finding in wires.found}
    assert found == {
        "l0 port 50 should lead nowhere, leads to s0 port 50",
        f"l0 port {host_port} should lead to the host st0, leads to l0 port 50",
    }
    del wires.cables[1, 50], wires.cables[3, 50]
    for _ in range(MOST_MISSED + 2):
        wires.round()
    assert wires.discovery.problems() == []


def test_a_link_is_silent_after_three_rounds(wires: Wires) -> None:
    """One direction is enough; after it was heard again it is used again."""
    wires.muted.add((1, 1))
    rounds = 0
    while not wires.discovery.silent:
        wires.round()
        rounds += 1
        assert rounds <= MOST_MISSED + 1
    assert rounds == MOST_MISSED + 1
    assert wires.discovery.silent == {"s0-eth1--l0-eth1"}
    message = "l0 port 1 should lead to s0 port 1, nothing is heard from there"
    assert [finding.message for finding in wires.found] == [message]
    assert wires.discovery.problems() == [message]
    wires.muted.clear()
    wires.round()
    assert wires.found[-1].what is What.HEARD
    assert (wires.discovery.silent, wires.discovery.problems()) == (frozenset(), [])


def test_nothing_is_silent_while_nobody_can_speak_or_hear(wires: Wires) -> None:
    """Neither a switch that is gone, nor a port that is down, nor a clock that leaps makes a link silent."""
    wires.discovery.gone(3)
    down = Port(1, "l1-eth1", "02:00:00:00:00:07", up=False)
    wires.ports[4][1] = down
    wires.discovery.set_ports(4, wires.ports[4])
    for _ in range(2 * MOST_MISSED):
        wires.round()
        wires.now_ns += 1000 * S
    assert wires.discovery.silent == frozenset()


def test_a_port_that_goes_down_takes_its_silence_along(wires: Wires) -> None:
    """A link that is down is no silent link as well."""
    wires.muted |= {(1, 1), (3, 1)}
    for _ in range(MOST_MISSED + 1):
        wires.round()
    assert wires.discovery.silent
    wires.discovery.set_ports(1, {**wires.ports[1], 1: Port(1, "s0-eth1", "02:00:00:00:00:07", up=False)})
    assert (wires.discovery.silent, wires.discovery.problems()) == (frozenset(), [])


def test_forged_and_repeated_frames_are_found(wires: Wires) -> None:
    """Another key, and frames that were not sent lately, are not believed."""
    [forged] = wires.discovery.hear(1, 1, frame(Beacon(3, 1, 1), b"guess"))
    assert forged.what is What.FORGED
    assert forged.message == "LLDP came in at s0 port 1 that is not the controller's: its signature is wrong"
    old = next(item for item in wires.round() if (item.dpid, item.port) == (3, 1))
    for _ in range(5):
        wires.round()
    [stale] = wires.discovery.hear(1, 1, old.data)
    assert (stale.what, stale.message) == (What.STALE, "an old LLDP frame of l0 port 1 came in at s0 port 1")
    [unknown] = wires.discovery.hear(1, 1, frame(Beacon(99, 1, 1)))
    assert (unknown.what, unknown.message) == (What.STALE, "an old LLDP frame of 0x63 port 1 came in at s0 port 1")
    assert wires.discovery.problems() == []


def test_no_interval_no_frames() -> None:
    """Discovery can be switched off."""
    wires = Wires(interval_ns=0)
    wires.ready(1, 2, 3, 4, 5)
    assert wires.discovery.next_ns() is None
    assert wires.deliver() == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.binary(max_size=30)), max_size=60))
def test_any_order_of_events_is_survived(events: list[tuple[int, int, bytes]]) -> None:
    """Whatever happens in whatever order; in the end everything is as planned again."""
    wires = Wires()
    for what, which, data in events:
        dpid = 1 + which
        if what == 0:
            wires.ready(dpid)
        elif what == 1:
            wires.discovery.gone(dpid)
        elif what == 2:
            wires.discovery.set_ports(dpid, dict(list(wires.ports[dpid].items())[: len(data) % 4]))
        elif what == 3:
            wires.muted ^= {(dpid, 1)}
        elif what == 4:
            wires.discovery.hear(dpid, which, data)
        elif what == 5:
            wires.discovery.hear(dpid, which, frame(Beacon(which, dpid, len(data))))
        else:
            wires.now_ns += len(data) * S
            wires.deliver()
    wires.muted.clear()
    for dpid in wires.ports:
        wires.discovery.gone(dpid)
    wires.ready(*wires.ports)
    for _ in range(MOST_MISSED + 2):
        wires.round()
    assert wires.discovery.problems() == []
    assert wires.discovery.silent == wires.discovery.wrong == frozenset()
