"""Hypothesis strategies for rules, groups and meters, such as Open vSwitch takes them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from controller.flows import (
    ETH_TYPE_ARP,
    ETH_TYPE_IPV4,
    ETH_TYPE_LLDP,
    IN_PORT,
    IP_PROTO_ICMP,
    IP_PROTO_TCP,
    IP_PROTO_UDP,
    MASKED_FIELDS,
    NO_VLAN,
    Action,
    ArpReply,
    Bucket,
    FlowRule,
    Group,
    GroupKind,
    Match,
    Meter,
    Output,
    PopVlan,
    Program,
    PushVlan,
    SetField,
    SetQueue,
    Table,
    ToController,
    ToGroup,
)

MACS = st.integers(0, (1 << 48) - 1).map(lambda value: ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big")))
IPS = st.ip_addresses(v=4).map(str)
U16 = st.integers(0, 65_535)
U64 = st.integers(0, (1 << 64) - 1)
PORTS = st.integers(1, 0xFEFF)
"""Open vSwitch numbers no port higher."""
VLANS = st.integers(1, 4094)
GROUP_NUMBERS = st.integers(0, 0xFFFFFF00)


@st.composite
def prefixes(draw: st.DrawFn) -> str:
    """An address, or a network of 1 to 31 bits."""
    address, length = draw(st.integers(0, (1 << 32) - 1)), draw(st.integers(1, 32))
    address &= 0xFFFFFFFF << (32 - length)
    dotted = ".".join(str(byte) for byte in address.to_bytes(4, "big"))
    return dotted if length == 32 else f"{dotted}/{length}"


@st.composite
def matches(draw: st.DrawFn) -> Match:
    """Any match whose fields have what OpenFlow demands before them."""
    fields: dict[str, Any] = {
        "in_port": draw(st.none() | PORTS),
        "metadata": draw(st.none() | U64),
        "eth_src": draw(st.none() | MACS),
        "eth_dst": draw(st.none() | MACS),
        "vlan": draw(st.none() | st.just(NO_VLAN) | VLANS),
        "eth_type": draw(st.sampled_from([None, ETH_TYPE_IPV4, ETH_TYPE_ARP, ETH_TYPE_LLDP, 0x86DD])),
    }
    if fields["eth_type"] == ETH_TYPE_ARP:
        fields |= {
            "arp_op": draw(st.none() | st.integers(1, 2)),
            "arp_spa": draw(st.none() | IPS),
            "arp_tpa": draw(st.none() | IPS),
            "arp_sha": draw(st.none() | MACS),
        }
    if fields["eth_type"] == ETH_TYPE_IPV4:
        protocol = draw(st.sampled_from([None, IP_PROTO_ICMP, IP_PROTO_TCP, IP_PROTO_UDP, 89]))
        fields |= {"ip_proto": protocol, "ipv4_src": draw(st.none() | prefixes())}
        fields |= {"ipv4_dst": draw(st.none() | prefixes())}
        for name in MASKED_FIELDS:
            if protocol == (IP_PROTO_TCP if name.startswith("tcp") else IP_PROTO_UDP):
                fields |= draw(_port(name))
        if protocol == IP_PROTO_TCP:
            fields["tcp_ack"] = draw(st.none() | st.booleans())
        if protocol == IP_PROTO_ICMP:
            fields["icmp_type"] = draw(st.none() | st.integers(0, 255))
    return Match(**fields)


@st.composite
def _port(draw: st.DrawFn, name: str) -> dict[str, int]:
    kind = draw(st.sampled_from(["any", "exact", "masked"]))
    if kind == "any":
        return {}
    if kind == "exact":
        return {name: draw(U16)}
    mask = draw(st.integers(1, 65_534))
    return {name: draw(U16) & mask, f"{name}_mask": mask}


def _set_fields(match: Match) -> list[st.SearchStrategy[Action]]:
    kinds: list[st.SearchStrategy[Action]] = [st.builds(SetField, st.sampled_from(["eth_src", "eth_dst"]), MACS)]
    if match.eth_type == ETH_TYPE_IPV4:
        kinds.append(st.builds(SetField, st.sampled_from(["ipv4_src", "ipv4_dst"]), IPS))
    if match.ip_proto == IP_PROTO_TCP:
        kinds.append(st.builds(SetField, st.sampled_from(["tcp_src", "tcp_dst"]), U16))
    return kinds


@st.composite
def actions(
    draw: st.DrawFn,
    match: Match,
    ports: st.SearchStrategy[int] = PORTS,
    groups: st.SearchStrategy[int] = GROUP_NUMBERS,
) -> tuple[Action, ...]:
    """Any actions that fit a match; tags are pushed onto untagged packets only, and popped off tagged ones."""
    kinds = _set_fields(match)
    kinds += [
        st.builds(SetQueue, st.integers(0, 7)),
        st.builds(Output, ports | st.just(IN_PORT)),
        st.builds(ToGroup, groups),
        st.builds(ToController, st.integers(1, 0xFFE5)),
    ]
    found: list[Action] = draw(st.lists(st.one_of(kinds), max_size=2))
    found += draw(st.lists(st.builds(Output, ports | st.just(IN_PORT)) | st.builds(ToGroup, groups), max_size=2))
    if match.vlan == NO_VLAN and draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), PushVlan(draw(VLANS)))
    elif match.vlan and draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), PopVlan())
    if match.eth_type == ETH_TYPE_ARP and draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), ArpReply(draw(IPS), draw(MACS)))
    return tuple(found)


@st.composite
def rules(draw: st.DrawFn, dpid: int = 1) -> FlowRule:
    """Any rule."""
    match = draw(matches())
    table = draw(st.sampled_from(Table))
    later = [other for other in Table if other > table]
    return FlowRule(
        dpid,
        table,
        draw(U16),
        match,
        draw(actions(match)),
        meter=draw(st.none() | st.integers(1, 0xFFFF0000)),
        write_metadata=draw(st.none() | U64),
        goto=draw(st.none() | st.sampled_from(later)) if later else None,
        cookie=draw(U64),
    )


@st.composite
def groups(draw: st.DrawFn, dpid: int = 1, numbers: st.SearchStrategy[int] = GROUP_NUMBERS) -> Group:
    """Any group."""
    kind = draw(st.sampled_from(GroupKind))
    weights = st.integers(0, 65_535) if kind is GroupKind.SELECT else st.just(0)
    return Group(dpid, draw(numbers), kind, tuple(draw(st.lists(st.builds(Bucket, PORTS, weights), max_size=5))))


def meters(dpid: int = 1) -> st.SearchStrategy[Meter]:
    """Any meter."""
    u32 = st.integers(1, 0xFFFFFFFF)
    return st.builds(Meter, st.just(dpid), st.integers(1, 0xFFFF0000), u32, u32)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of switch 1 whose rules use no other groups and meters than its own."""
    small = st.integers(1, 4)
    found_groups = draw(st.lists(groups(numbers=small), max_size=3, unique_by=lambda group: group.number))
    found_meters = draw(
        st.lists(st.builds(Meter, st.just(1), small, small, small), max_size=2, unique_by=lambda meter: meter.number)
    )
    match = st.builds(Match, in_port=st.none() | small, eth_dst=st.none() | st.just("02:00:00:00:00:01"))
    choices: list[st.SearchStrategy[Action]] = [st.builds(Output, small)]
    if found_groups:
        choices.append(st.sampled_from(found_groups).map(lambda group: ToGroup(group.number)))
    rule = st.builds(
        FlowRule,
        st.just(1),
        st.sampled_from(Table),
        st.integers(0, 2),
        match,
        st.lists(st.one_of(choices), max_size=2).map(tuple),
        meter=st.none() | st.sampled_from([meter.number for meter in found_meters]) if found_meters else st.none(),
    )
    found_rules = draw(st.lists(rule, max_size=6, unique_by=lambda item: item.key))
    return Program(tuple(found_rules), tuple(found_groups), tuple(found_meters))
