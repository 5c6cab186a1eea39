"""Frames for tests of the data plane: good ones of every kind, damaged ones, and memories that they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

GATEWAY, PEER, NEXT = "02:00:00:00:00:01", "02:00:00:00:00:aa", "02:00:00:00:00:bb"
PORTS = (0, 1, 80, 2049, 4420, 4789, 4791, 9000, 12345, 65535)
V4 = ("10.0.0.1", "10.0.0.2", "10.1.2.3", "192.0.2.7", "224.0.0.5", "255.255.255.255", "0.0.0.0")
V6 = ("fd00::1", "fd00::2", "2001:db8::7", "ff02::1", "::")

_V6_OPTIONS = (
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrRouting,
    lambda: IPv6ExtHdrFragment(m=0, offset=0),
    lambda: AH(nh=17, payloadlen=4, icv=bytes(12)),
)


@dataclass
class Batch:
    """Frames in a memory, with foreign bytes before, between and behind them."""

    memory: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def frame(self, row: int) -> bytes:
        """The bytes of one."""
        start = int(self.offsets[row])
        return self.memory[start : start + int(self.lengths[row])].tobytes()

    @classmethod
    def of(cls, frames: Sequence[bytes], gaps: Sequence[int] | int = 0, last: int = 0, fill: int = 0xEE) -> Batch:
        """Lay frames out in a memory; *gaps* are the foreign bytes before each, *last* those behind all."""
        spaces = [gaps] * len(frames) if isinstance(gaps, int) else list(gaps)
        offsets, at = [], 0
        for frame, gap in zip(frames, spaces, strict=True):
            offsets.append(at + gap)
            at += gap + len(frame)
        memory = np.full(at + last, fill, np.uint8)
        for frame, offset in zip(frames, offsets, strict=True):
            memory[offset : offset + len(frame)] = np.frombuffer(frame, np.uint8)
        return cls(memory, np.array(offsets, np.int64), np.array([len(frame) for frame in frames], np.int64))


def ipv4(layer4: Packet, **fields: object) -> Packet:
    """An IPv4 packet from 10.0.0.1 to 10.0.0.2."""
    return IP(**{"src": "10.0.0.1", "dst": "10.0.0.2", "ttl": 64, **fields}) / layer4


def ethernet(network: Packet, tags: Sequence[int] = (), target: str = GATEWAY) -> bytes:
    """A frame from `PEER`, with tags of these identifiers from outer to inner."""
    frame: Packet = Ether(src=PEER, dst=target)
    for position, vlan in enumerate(tags):
        frame = frame / (Dot1AD if len(tags) == 2 and position == 0 else Dot1Q)(vlan=vlan, prio=3)
    return bytes(frame / network)


payloads = st.one_of(
    st.binary(max_size=60),
    # What a PDU, a base transport header and a tunnel begin with.
    st.builds(lambda rest: bytes.fromhex("0400480048000000") + rest, st.binary(max_size=80)),
    st.builds(lambda rest: bytes.fromhex("0400ffff000000178000002a") + rest, st.binary(min_size=4, max_size=20)),
)


@st.composite
def layer4s(draw: st.DrawFn) -> Packet:
    """TCP, UDP, ICMP or something unknown, with a payload."""
    sport, dport = draw(st.sampled_from(PORTS)), draw(st.sampled_from(PORTS))
    payload = Raw(draw(payloads))
    kind = draw(st.sampled_from(["tcp", "tcp", "udp", "udp", "udp0", "options", "icmp", "raw"]))
    if kind == "udp0":
        return UDP(sport=sport, dport=dport, chksum=0) / payload
    if kind == "icmp":
        return ICMP() / payload
    if kind == "raw":
        return payload
    if kind == "udp":
        return UDP(sport=sport, dport=dport) / payload
    options = [("Timestamp", (1, 2)), ("NOP", None), ("NOP", None)] if kind == "options" else []
    return TCP(sport=sport, dport=dport, flags=draw(st.integers(0, 255)), options=options) / payload


@st.composite
def networks(draw: st.DrawFn) -> Packet:
    """IPv4, with and without options and fragments, and IPv6 with extension headers."""
    layer4 = draw(layer4s())
    ttl = draw(st.sampled_from([0, 1, 2, 64, 255]))
    if draw(st.booleans()) or draw(st.booleans()):
        fields: dict[str, object] = {"src": draw(st.sampled_from(V4)), "dst": draw(st.sampled_from(V4)), "ttl": ttl}
        if draw(st.integers(0, 4)) == 0:
            fields["options"] = [IPOption_Router_Alert()] * draw(st.integers(1, 9))
        if draw(st.integers(0, 9)) == 0:
            fields |= {"flags": "MF", "frag": draw(st.sampled_from([0, 1, 185]))}
        return ipv4(layer4, id=draw(st.integers(0, 65535)), tos=draw(st.integers(0, 255)), **fields)
    packet: Packet = IPv6(src=draw(st.sampled_from(V6)), dst=draw(st.sampled_from(V6)), hlim=ttl)
    for make in draw(st.lists(st.sampled_from(_V6_OPTIONS), max_size=10)) if draw(st.booleans()) else []:
        packet = packet / make()
    if draw(st.integers(0, 9)) == 0:
        packet = packet / IPv6ExtHdrFragment(m=draw(st.integers(0, 1)), offset=draw(st.integers(0, 1)))
    return packet / layer4


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A good frame, more or less: any tags, any network packet, sometimes in a tunnel, sometimes padded."""
    tags = draw(st.lists(st.integers(0, 4095), max_size=3)) if draw(st.booleans()) else []
    target = draw(st.sampled_from([GATEWAY, GATEWAY, GATEWAY, NEXT, "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:05"]))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return ethernet(ARP(), tags, target)
    network = draw(networks())
    if kind == 1:
        inner = Ether(ethernet(network))
        tunnel = UDP(sport=50000, dport=4789) / VXLAN(vni=draw(st.integers(0, (1 << 24) - 1)), flags=8) / inner
        network = ipv4(tunnel)
    return ethernet(network, tags, target) + bytes(draw(st.sampled_from([0, 0, 0, 6, 40])))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame in whose headers some bytes were changed, or which was cut off."""
    data = bytearray(draw(frames()))
    for position in draw(st.lists(st.integers(0, min(len(data), 90) - 1), max_size=4)):
        data[position] = draw(st.sampled_from([0, 1, 4, 5, 6, 8, 17, 43, 44, 59, 69, 70, 96, 127, 128, 129, 255]))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


any_frames = st.one_of(frames(), damaged(), damaged(), st.binary(max_size=130))


@st.composite
def batches(draw: st.DrawFn, elements: st.SearchStrategy[bytes] = any_frames, max_size: int = 12) -> Batch:
    """Frames side by side in a memory, aligned in any way, the first and last perhaps at its very ends."""
    chosen = draw(st.lists(elements, max_size=max_size))
    gaps = draw(st.lists(st.integers(0, 9), min_size=len(chosen), max_size=len(chosen)))
    return Batch.of(chosen, gaps, draw(st.sampled_from([0, 1, 70])), draw(st.integers(0, 255)))
