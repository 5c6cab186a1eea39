"""Hypothesis strategies for a world that is so small that packets meet rules: programs and frames of one switch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import Any

from hypothesis import strategies as st

from controller.flows import (
    ETH_TYPE_ARP,
    ETH_TYPE_IPV4,
    ETH_TYPE_LLDP,
    IP_PROTO_ICMP,
    IP_PROTO_TCP,
    IP_PROTO_UDP,
    MASKED_FIELDS,
    NO_VLAN,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Meter,
    Program,
    Table,
)
from controller.frame import BROADCAST, Frame
from tests.support.controller_flows import actions

ENTRIES = (1, 2)
"""Ports by which packets come in; they stay up."""
PORTS = (1, 2, 3, 4, 5)
GROUPS = (1, 2, 3)
_MACS = st.sampled_from([f"02:00:00:00:00:0{index}" for index in (1, 2, 3)])
_IPS = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.1.0.1", "192.168.0.1"])
_NUMBERS = st.sampled_from([1, 2, 3, 80, 4420])
_VLANS = st.sampled_from([NO_VLAN, 7, NO_VLAN, 8])
_ETH_TYPES = st.sampled_from([ETH_TYPE_IPV4, ETH_TYPE_ARP, ETH_TYPE_IPV4, ETH_TYPE_LLDP, ETH_TYPE_IPV4])
_PROTOCOLS = st.sampled_from([IP_PROTO_ICMP, IP_PROTO_TCP, IP_PROTO_UDP, 89])


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Any packet of the world."""
    frame = Frame(draw(_MACS), draw(_MACS | st.just(BROADCAST)), draw(_ETH_TYPES))
    vlan = draw(_VLANS)
    frame = replace(frame, vlan=vlan, inner_vlans=draw(st.sampled_from([()] * 5 + [(9,)])) if vlan else ())
    if frame.eth_type == ETH_TYPE_ARP:
        return replace(
            frame,
            arp_op=draw(st.integers(1, 2)),
            arp_spa=draw(_IPS),
            arp_tpa=draw(_IPS),
            arp_sha=draw(_MACS),
            arp_tha="00:00:00:00:00:00",
        )
    if frame.eth_type == ETH_TYPE_LLDP:
        return frame
    frame = replace(frame, ipv4_src=draw(_IPS), ipv4_dst=draw(_IPS), ip_proto=draw(_PROTOCOLS))
    ports = (draw(_NUMBERS), draw(_NUMBERS))
    if frame.ip_proto == IP_PROTO_TCP:
        return replace(frame, tcp_src=ports[0], tcp_dst=ports[1], tcp_ack=draw(st.booleans()))
    if frame.ip_proto == IP_PROTO_UDP:
        return replace(frame, udp_src=ports[0], udp_dst=ports[1])
    if frame.ip_proto == IP_PROTO_ICMP:
        return replace(frame, icmp_type=draw(st.sampled_from([0, 8])))
    return frame


@st.composite
def _matches(draw: st.DrawFn, table: Table, port: int, frame: Frame) -> Match:
    """A match that fits a frame, or would if no rule before had changed it."""

    def perhaps(value: Any) -> Any:
        return value if draw(st.integers(0, 3)) == 3 else None

    fields: dict[str, Any] = {
        "in_port": perhaps(port),
        "metadata": perhaps(draw(st.integers(0, 1))) if table > Table.ADMIT else None,
        "eth_src": perhaps(frame.eth_src),
        "eth_dst": perhaps(frame.eth_dst),
        "vlan": draw(st.sampled_from([frame.vlan, None, frame.vlan, 7])),
        "eth_type": frame.field("eth_type") if draw(st.integers(0, 3)) else None,
    }
    if fields["eth_type"] == ETH_TYPE_ARP:
        fields |= {name: perhaps(frame.field(name)) for name in ("arp_op", "arp_spa", "arp_tpa", "arp_sha")}
    if fields["eth_type"] == ETH_TYPE_IPV4:
        for name in ("ipv4_src", "ipv4_dst"):
            address = perhaps(frame.field(name))
            fields[name] = _wider(address, draw(st.sampled_from([1, 8, 24, 32]))) if address else None
        if draw(st.booleans()):
            fields["ip_proto"] = frame.ip_proto
            fields |= {name: perhaps(frame.field(name)) for name in ("tcp_ack", "icmp_type")}
            for name in MASKED_FIELDS:
                number, mask = perhaps(frame.field(name)), draw(st.sampled_from([None, 1, 0x1003]))
                if number is not None:
                    fields |= {name: number & mask, f"{name}_mask": mask} if mask else {name: number}
    return Match(**fields)


def _wider(address: str, length: int) -> str:
    network = IPv4Network(f"{address}/{length}", strict=False)
    return address if length == 32 else str(network)


@dataclass(frozen=True)
class World:
    """A program and packets for it.

    Attributes:
        program: What switch 1 holds.
        packets: Frames, each with the port by which it comes in.
        down: Ports that are down.
    """

    program: Program
    packets: tuple[tuple[int, Frame], ...]
    down: frozenset[int]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Rules made for the packets; no two rules of a table have the same priority."""
    packets = draw(st.lists(st.tuples(st.sampled_from(ENTRIES), frames()), min_size=10, max_size=20))
    groups = []
    for number in GROUPS:
        kind = GroupKind.FAST_FAILOVER if number == 1 else GroupKind.SELECT
        ports = draw(st.lists(st.sampled_from(PORTS), min_size=number - 1, max_size=4, unique=True))
        weights = [draw(st.integers(1, 5)) if kind is GroupKind.SELECT else 0 for _ in ports]
        groups.append(Group(1, number, kind, tuple(map(Bucket, ports, weights))))
    rules = []
    used = sorted(draw(st.sets(st.sampled_from(list(Table)[1:]), max_size=2)))
    for table in (Table.ADMIT, *used):
        later = [other for other in used if other > table]
        for priority in range(1, draw(st.integers(4, 9))):
            match = draw(_matches(table, *draw(st.sampled_from(packets))))
            goto = draw(st.sampled_from(later)) if later and draw(st.booleans()) else None
            done = draw(actions(match, st.sampled_from(PORTS), st.sampled_from(GROUPS)))
            metadata = draw(st.none() | st.integers(0, 1)) if goto else None
            meter = draw(st.sampled_from([None, None, 1]))
            cookie = draw(st.integers(0, 3))
            rules.append(
                FlowRule(
                    1, table, priority, match, done, meter=meter, write_metadata=metadata, goto=goto, cookie=cookie
                )
            )
    down = draw(st.frozensets(st.sampled_from([port for port in PORTS if port not in ENTRIES])))
    return World(Program(tuple(rules), tuple(groups), (Meter(1, 1, 1_000_000, 1_000_000),)), tuple(packets), down)
